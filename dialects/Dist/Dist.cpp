//===- Dist.cpp - The dist dialect: registration and attributes ------------===//

#include "dialects/Dist/Dist.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace cleave::dist;

#include "dialects/Dist/DistDialect.cpp.inc"
#include "dialects/Dist/DistEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/Dist/DistAttrs.cpp.inc"

void DistDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/Dist/DistAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/Dist/DistOps.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// ShardingAttr
//===----------------------------------------------------------------------===//

Axes cleave::dist::axesOf(ArrayAttr list) {
  return llvm::map_to_vector(list, [](Attribute a) { return cast<StringAttr>(a); });
}

Axes ShardingAttr::axes(unsigned d) const { return axesOf(getDims()[d]); }

bool ShardingAttr::isReplicated() const {
  return !isPartial() && llvm::all_of(getDims(), [](ArrayAttr a) { return a.empty(); });
}

ShardingAttr ShardingAttr::replicated(MLIRContext *context, unsigned rank) {
  SmallVector<ArrayAttr> dims(rank, ArrayAttr::get(context, {}));
  return get(context, dims, ArrayRef<StringAttr>());
}

ShardingAttr ShardingAttr::get(MLIRContext *context, ArrayRef<SmallVector<StringAttr>> dims,
                               ArrayRef<StringAttr> partial, bool apart) {
  SmallVector<ArrayAttr> lists;
  for (const auto &axes : dims)
    lists.push_back(ArrayAttr::get(context, SmallVector<Attribute>(axes.begin(), axes.end())));
  return get(context, lists, partial, apart && !partial.empty());
}

ShardingAttr ShardingAttr::complete() const {
  return get(getContext(), getDims(), ArrayRef<StringAttr>());
}

/// `[data, tensor]`
static ParseResult parseAxes(AsmParser &parser, SmallVector<StringAttr> &axes) {
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&]() -> ParseResult {
    std::string word;
    if (parser.parseKeywordOrString(&word))
      return failure();
    axes.push_back(StringAttr::get(parser.getContext(), word));
    return success();
  });
}

Attribute ShardingAttr::parse(AsmParser &parser, Type) {
  SmallVector<SmallVector<StringAttr>> dims;
  SmallVector<StringAttr> partial;
  auto parseDim = [&] { return parseAxes(parser, dims.emplace_back()); };
  if (parser.parseLess() || parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseDim))
    return {};
  StringRef word = "partial";
  if (succeeded(parser.parseOptionalComma()) &&
      (parser.parseOptionalKeyword(&word, {"partial", "apart"}) || parseAxes(parser, partial)))
    return {};
  if (parser.parseGreater())
    return {};
  return get(parser.getContext(), dims, partial, word == "apart");
}

void ShardingAttr::print(AsmPrinter &printer) const {
  auto printAxes = [&](ArrayRef<StringAttr> axes) {
    printer << "[";
    llvm::interleaveComma(axes, printer,
                          [&](StringAttr a) { printer.printKeywordOrString(a.getValue()); });
    printer << "]";
  };
  printer << "<[";
  llvm::interleaveComma(getDims(), printer, [&](ArrayAttr a) { printAxes(axesOf(a)); });
  printer << "]";
  if (isPartial()) {
    printer << (getApart() ? ", apart " : ", partial ");
    printAxes(getPartial());
  }
  printer << ">";
}

//===----------------------------------------------------------------------===//
// Operators
//===----------------------------------------------------------------------===//

LogicalResult MeshOp::verify() {
  if (getAxes().size() != getSizes().size())
    return emitOpError("needs a size for each axis");
  llvm::StringSet<> seen;
  for (auto [axis, size] : llvm::zip(getAxes(), getSizes())) {
    if (size < 1)
      return emitOpError() << "has the axis " << axis << " of size " << size;
    if (!seen.insert(cast<StringAttr>(axis).getValue()).second)
      return emitOpError() << "names the axis " << axis << " twice";
  }
  return success();
}

#define GET_OP_CLASSES
#include "dialects/Dist/DistOps.cpp.inc"
