//===- Refuse.cpp - Diagnostics of a plan that is refused ------------------===//

#include "lib/Planner/Refuse.h"
#include "runtime/Base/Suggest.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
namespace cleave {

InFlightDiagnostic refuse(Operation *op, const Twine &text, const Twine &rule) {
  InFlightDiagnostic error = op->emitError(text);
  error.attachNote() << "rule: " << rule;
  return error;
}

LogicalResult refuse(Operation *op, const Twine &text, const Twine &rule, const Twine &suggestion) {
  InFlightDiagnostic error = refuse(op, text, rule);
  error.attachNote() << "suggestion: " << suggestion;
  return error;
}

LogicalResult refuseName(Operation *op, const Twine &text, StringRef given,
                         const std::vector<std::string> &known) {
  SmallVector<StringRef> once;
  for (const std::string &name : known)
    if (!llvm::is_contained(once, name))
      once.push_back(name);
  if (once.empty())
    return refuse(op, text, "there is none that could be named here", "remove '" + given + "'");
  InFlightDiagnostic error = refuse(op, text, "one of " + llvm::join(once, ", "));
  if (auto near = rt::nearestName(given.str(), known))
    error.attachNote() << "suggestion: " << *near;
  else
    error.attachNote() << "suggestion: " << once.front();
  return error;
}

} // namespace cleave
