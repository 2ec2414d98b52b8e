//===- Exec.cpp - The exec dialect: registration and attributes ------------===//

#include "dialects/Exec/Exec.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace cleave::exec;

#include "dialects/Exec/ExecDialect.cpp.inc"
#include "dialects/Exec/ExecEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/Exec/ExecAttrs.cpp.inc"
#include "dialects/Exec/ExecInterfaces.cpp.inc"

void ExecDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/Exec/ExecAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/Exec/ExecOps.cpp.inc"
      >();
}

bool cleave::exec::isElementType(Type type) {
  return type.isF32() || type.isBF16() || type.isSignlessInteger(32) || type.isSignlessInteger(64);
}

bool cleave::exec::isProductType(Type type) { return type.isF32() || type.isBF16(); }

//===----------------------------------------------------------------------===//
// AtAttr
//===----------------------------------------------------------------------===//

AtAttr AtAttr::get(const Address &address) {
  return get(address.segment.getContext(), address.segment, address.offset, address.bytes,
             address.step, address.period);
}

Address AtAttr::getAddress() const {
  return {getSegment(), getOffset(), getBytes(), getStep(), getPeriod()};
}

LogicalResult AtAttr::verify(function_ref<InFlightDiagnostic()> emitError, StringAttr,
                             int64_t offset, int64_t bytes, int64_t step, int64_t period) {
  // So that no sum over the iterations of a repeat leaves 64 bits.
  if (offset < 0 || offset > kMaxBytes || bytes < 0 || bytes > kMaxBytes || step < -kMaxBytes ||
      step > kMaxBytes)
    return emitError() << "an address has an offset and a size from 0 to 2^46, and a step of at "
                          "most that either way";
  if (period < 0 || period > RepeatOp::kMaxCount)
    return emitError() << "an address has a period from 1 to " << RepeatOp::kMaxCount;
  return success();
}

/// `<arena + 4096, 256 step 512 period 2>`
Attribute AtAttr::parse(AsmParser &parser, Type) {
  SMLoc start = parser.getCurrentLocation();
  std::string segment;
  int64_t offset, bytes, step = 0, period = 0;
  if (parser.parseLess() || parser.parseKeywordOrString(&segment) || parser.parsePlus() ||
      parser.parseInteger(offset) || parser.parseComma() || parser.parseInteger(bytes))
    return {};
  if (succeeded(parser.parseOptionalKeyword("step")) && parser.parseInteger(step))
    return {};
  if (succeeded(parser.parseOptionalKeyword("period")) && parser.parseInteger(period))
    return {};
  if (parser.parseGreater())
    return {};
  return getChecked([&] { return parser.emitError(start); }, parser.getContext(),
                    StringAttr::get(parser.getContext(), segment), offset, bytes, step, period);
}

void AtAttr::print(AsmPrinter &printer) const {
  printer << "<";
  printer.printKeywordOrString(getSegment().getValue());
  printer << " + " << getOffset() << ", " << getBytes();
  if (getStep() != 0)
    printer << " step " << getStep();
  if (getPeriod() != 0)
    printer << " period " << getPeriod();
  printer << ">";
}

//===----------------------------------------------------------------------===//
// Lists in the text of operators
//===----------------------------------------------------------------------===//

/// `(<arena + 0, 64>, <weights + 0, 64>)`
static ParseResult parseAddresses(OpAsmParser &parser, ArrayAttr &list) {
  SmallVector<Attribute> all;
  auto parseOne = [&]() -> ParseResult {
    Attribute at = AtAttr::parse(parser, {});
    all.push_back(at);
    return success(bool(at));
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, parseOne))
    return failure();
  list = ArrayAttr::get(parser.getContext(), all);
  return success();
}

static void printAddresses(OpAsmPrinter &printer, Operation *, ArrayAttr list) {
  printer << "(";
  llvm::interleaveComma(list, printer, [&](Attribute at) { cast<AtAttr>(at).print(printer); });
  printer << ")";
}

/// `[[2, 0, 16, 32], [3, 64, 0, 64]]`
static ParseResult parseBatch(OpAsmParser &parser, DenseI64ArrayAttr &batch) {
  SmallVector<int64_t> numbers;
  auto parseNumber = [&] { return parser.parseInteger(numbers.emplace_back()); };
  auto parseDimension = [&]() -> ParseResult {
    size_t before = numbers.size();
    SMLoc start = parser.getCurrentLocation();
    if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseNumber))
      return failure();
    if (numbers.size() == before + 4)
      return success();
    return parser.emitError(start, "a dimension of the batch is [count, stride of a, stride of b, "
                                   "stride of c]");
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseDimension))
    return failure();
  batch = DenseI64ArrayAttr::get(parser.getContext(), numbers);
  return success();
}

static void printBatch(OpAsmPrinter &printer, Operation *, DenseI64ArrayAttr batch) {
  ArrayRef<int64_t> numbers = batch.asArrayRef();
  printer << "[";
  for (size_t i = 0; i + 4 <= numbers.size(); i += 4) {
    printer << (i ? ", [" : "[");
    llvm::interleaveComma(numbers.slice(i, 4), printer);
    printer << "]";
  }
  printer << "]";
}

#define GET_OP_CLASSES
#include "dialects/Exec/ExecOps.cpp.inc"
