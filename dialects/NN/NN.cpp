//===- NN.cpp - The nn dialect: registration and attributes ----------------===//

#include "dialects/NN/NN.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace cleave::nn;

#include "dialects/NN/NNDialect.cpp.inc"
#include "dialects/NN/NNEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/NN/NNAttrs.cpp.inc"

namespace {
/// Prints `#nn.dims<…>` once as an alias, so that long types stay readable.
struct DimsAliases : OpAsmDialectInterface {
  using OpAsmDialectInterface::OpAsmDialectInterface;
  AliasResult getAlias(Attribute attr, raw_ostream &os) const override {
    auto dims = dyn_cast<DimsAttr>(attr);
    if (!dims)
      return AliasResult::NoAlias;
    for (auto [i, name] : llvm::enumerate(dims.getNames()))
      os << (i ? "_" : "") << name.getValue();
    return AliasResult::FinalAlias;
  }
};
} // namespace

void NNDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/NN/NNAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/NN/NNOps.cpp.inc"
      >();
  addInterfaces<DimsAliases>();
}

//===----------------------------------------------------------------------===//
// DimsAttr
//===----------------------------------------------------------------------===//

int DimsAttr::find(StringRef name) const {
  for (auto [i, n] : llvm::enumerate(getNames()))
    if (n.getValue() == name)
      return static_cast<int>(i);
  return -1;
}

Attribute DimsAttr::parse(AsmParser &parser, Type) {
  SmallVector<StringAttr> names;
  auto parseName = [&]() -> ParseResult {
    std::string word;
    if (parser.parseKeywordOrString(&word))
      return failure();
    names.push_back(StringAttr::get(parser.getContext(), word));
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater, parseName))
    return {};
  return parser.getChecked<DimsAttr>(parser.getContext(), names);
}

void DimsAttr::print(AsmPrinter &printer) const {
  printer << "<";
  llvm::interleaveComma(getNames(), printer,
                        [&](StringAttr n) { printer.printKeywordOrString(n.getValue()); });
  printer << ">";
}

LogicalResult DimsAttr::verifyEncoding(ArrayRef<int64_t> shape, Type,
                                       function_ref<InFlightDiagnostic()> emitError) const {
  if (shape.size() != getNames().size())
    return emitError() << "#nn.dims names " << getNames().size()
                       << " dimensions of a tensor of rank " << shape.size();
  llvm::SmallPtrSet<Attribute, 8> seen;
  for (StringAttr n : getNames())
    if (!seen.insert(n).second)
      return emitError() << "#nn.dims names two dimensions '" << n.getValue() << "'";
  return success();
}

#define GET_OP_CLASSES
#include "dialects/NN/NNOps.cpp.inc"
