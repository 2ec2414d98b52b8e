//===- Pipe.cpp - The pipe dialect: registration and text ------------------===//

#include "dialects/Pipe/Pipe.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace cleave::pipe;

#include "dialects/Pipe/PipeDialect.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/Pipe/PipeAttrs.cpp.inc"
#define GET_OP_CLASSES
#include "dialects/Pipe/PipeOps.cpp.inc"

void PipeDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/Pipe/PipeAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/Pipe/PipeOps.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// ActionsAttr
//===----------------------------------------------------------------------===//

/// A whole number that a schedule can hold.
static bool readNumber(StringRef text, int64_t &number) {
  return !text.getAsInteger(10, number) && number >= 0 && number <= 0x7fffffff;
}

/// `F0.3`, which the lexer takes for one word: the letter, stage and micro-batch.
static ParseResult parseName(AsmParser &parser, StringRef letters, char &letter, Action &action) {
  SMLoc start = parser.getCurrentLocation();
  StringRef word;
  if (parser.parseKeyword(&word))
    return failure();
  auto [stage, micro] = word.drop_front().split('.');
  letter = word.front();
  if (letters.contains(letter) && readNumber(stage, action.stage) &&
      readNumber(micro, action.micro))
    return success();
  return parser.emitError(start) << "'" << word << "' is none of " << letters
                                 << " with a stage and a micro-batch, as " << letters.front()
                                 << "0.3";
}

static ParseResult parseSlot(AsmParser &parser, Action &action) {
  return failure(parser.parseLSquare() || parser.parseInteger(action.slot) ||
                 parser.parseRSquare());
}

static ParseResult parseAction(AsmParser &parser, Action &action) {
  char letter = 0;
  bool sends = succeeded(parser.parseOptionalKeyword("send"));
  if (!sends && failed(parser.parseOptionalKeyword("recv"))) {
    if (parseName(parser, "FBW", letter, action) || parseSlot(parser, action))
      return failure();
    action.kind = letter == 'F'   ? ActionKind::Forward
                  : letter == 'B' ? ActionKind::Backward
                                  : ActionKind::WeightGradient;
    return success();
  }
  if (parseName(parser, "AG", letter, action) || parseSlot(parser, action) ||
      parser.parseKeyword(sends ? "to" : "from") || parser.parseInteger(action.peer))
    return failure();
  if (letter == 'A')
    action.kind = sends ? ActionKind::SendActivation : ActionKind::ReceiveActivation;
  else
    action.kind = sends ? ActionKind::SendGradient : ActionKind::ReceiveGradient;
  return success();
}

Attribute ActionsAttr::parse(AsmParser &parser, Type) {
  SmallVector<Action> actions;
  auto parseOne = [&] { return parseAction(parser, actions.emplace_back()); };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseOne))
    return {};
  return get(parser.getContext(), actions);
}

void ActionsAttr::print(AsmPrinter &printer) const {
  printer << "[";
  printer.increaseIndent();
  bool computed = true;
  for (auto [i, action] : llvm::enumerate(getActions())) {
    // A line holds a computation with what it receives before and sends after.
    const bool breaks = computed && !action.isSend();
    printer << (i == 0 ? "" : breaks ? "," : ", ");
    if (breaks || i == 0)
      printer.printNewline();
    computed = (computed && !breaks) || action.isComputation();
    printer << toString(action);
  }
  printer.decreaseIndent();
  printer.printNewline();
  printer << "]";
}

//===----------------------------------------------------------------------===//
// Operators
//===----------------------------------------------------------------------===//

LogicalResult StageOp::verify() {
  if (getLayers().has_value() != getCounts().has_value())
    return emitOpError("has layers and their counts, or neither");
  if (!getLayers())
    return success();
  if (getLayers()->empty() || getLayers()->size() != getCounts()->size() ||
      llvm::any_of(*getCounts(), [](int64_t n) { return n < 1; }))
    return emitOpError("needs one count, at least 1, for each kind of layer");
  return success();
}

Table ScheduleOp::getTable() {
  Table table;
  table.microBatches = static_cast<int64_t>(getMicroBatches());
  table.buffers = static_cast<int64_t>(getBuffers());
  for (auto stage : getOps<StageOp>())
    table.rankOfStage.push_back(static_cast<int64_t>(stage.getRank()));
  for (auto rank : getOps<RankOp>())
    table.ranks.push_back({static_cast<int64_t>(rank.getSlots()), rank.getActions().getActions()});
  return table;
}
