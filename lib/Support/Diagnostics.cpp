//===- Diagnostics.cpp - MLIR diagnostics as errors ------------------------===//

#include "cleave/Support/Diagnostics.h"
#include "mlir/IR/Diagnostics.h"

using namespace mlir;
namespace cleave {

static rt::Where whereOf(Location loc) {
  if (auto at = loc->findInstanceOf<FileLineColLoc>())
    return {at.getFilename().str(), int(at.getLine()), int(at.getColumn())};
  return {};
}

/// "plan.unknown_axis: the plan has…" → kind and text; anything else is ours.
static rt::Error toError(Diagnostic &diagnostic) {
  std::string text = diagnostic.str();
  size_t colon = text.find(": ");
  bool kind = colon != std::string::npos && text.find('.') < colon &&
              text.find_first_not_of("abcdefghijklmnopqrstuvwxyz_.") == colon;
  rt::Error error =
      kind ? rt::userError(text.substr(0, colon), text.substr(colon + 2)) : rt::internalError(text);
  error.where = whereOf(diagnostic.getLocation());
  for (Diagnostic &note : diagnostic.getNotes()) {
    std::string line = note.str();
    StringRef rest = line;
    if (rest.consume_front("rule: "))
      error.rule = rest.str();
    else if (rest.consume_front("given: "))
      error.given = rest.str();
    else if (rest.consume_front("suggestion: "))
      error.suggestions.push_back(rest.str());
    else if (!kind || !rest.starts_with("see current operation"))
      error.notes.push_back({whereOf(note.getLocation()), line});
  }
  return error;
}

rt::Status withDiagnostics(MLIRContext &context, function_ref<LogicalResult()> work) {
  std::optional<rt::Error> first;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() != DiagnosticSeverity::Error)
      return failure();
    if (!first)
      first = toError(diagnostic);
    return success();
  });
  if (succeeded(work()))
    return rt::Status::success();
  return first ? *first : rt::internalError("a phase failed without saying why");
}

} // namespace cleave
