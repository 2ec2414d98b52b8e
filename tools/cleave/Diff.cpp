//===- Diff.cpp - cleave diff -------------------------------------------------===//
//
// What two plans decide differently: first in the words of pins, then line by line of
// what only one of them has.
//
//===----------------------------------------------------------------------===//

#include "Driver.h"

#include "cleave/Pipelines/Phases.h"
#include "cleave/Pipelines/Register.h"
#include "cleave/Planner/Choice.h"
#include "runtime/Base/Json.h"

#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>

#include <cstdio>

namespace cleave::tool {

namespace {

struct ReadPlan {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  Choice choice;
  /// Entries as they are printed.
  std::vector<std::string> lines;
};

struct FieldChange {
  std::string name, before, after;
};

} // namespace

static rt::StatusOr<ReadPlan> readFrom(mlir::MLIRContext &context, const std::string &file) {
  ReadPlan out;
  CLEAVE_RT_ASSIGN_OR_RETURN(out.module, readPlan(context, file));
  plan::SolutionOp solution = solutionOf(*out.module);
  out.choice = choiceOf(solution);
  for (mlir::Operation &op : solution.getBody().front()) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    op.print(stream);
    out.lines.push_back(text);
  }
  return out;
}

static std::vector<FieldChange> changesOf(const ReadPlan &a, const ReadPlan &b) {
  std::vector<FieldChange> changes;
  for (const ChoiceField &field : choiceFields())
    if (std::string before = field.text(a.choice), after = field.text(b.choice); before != after)
      changes.push_back({std::string(field.name), before, after});
  auto batch = [](const ReadPlan &p) { return plan::entry<plan::BatchOp>(solutionOf(*p.module)); };
  auto a1 = batch(a), b1 = batch(b);
  if (a1.getGlobal() != b1.getGlobal())
    changes.push_back(
        {"global_batch", std::to_string(a1.getGlobal()), std::to_string(b1.getGlobal())});
  if (a1.getSequence() != b1.getSequence())
    changes.push_back(
        {"sequence_length", std::to_string(a1.getSequence()), std::to_string(b1.getSequence())});
  return changes;
}

static std::vector<std::string> onlyIn(const ReadPlan &a, const ReadPlan &b) {
  std::vector<std::string> lines;
  for (const std::string &line : a.lines)
    if (std::find(b.lines.begin(), b.lines.end(), line) == b.lines.end())
      lines.push_back(line);
  return lines;
}

static void writeJson(const std::vector<FieldChange> &changes,
                      const std::vector<std::string> &removed,
                      const std::vector<std::string> &added) {
  rt::JsonWriter out(2);
  out.beginObject().key("equal").value(changes.empty() && removed.empty() && added.empty());
  out.key("changes").beginObject();
  for (const FieldChange &change : changes)
    out.key(change.name).beginArray().value(change.before).value(change.after).endArray();
  out.endObject();
  const std::pair<const char *, const std::vector<std::string> &> lists[] = {{"removed", removed},
                                                                             {"added", added}};
  for (const auto &[key, lines] : lists) {
    out.key(key).beginArray();
    for (const std::string &text : lines)
      out.value(text);
    out.endArray();
  }
  out.endObject();
  std::fputs((out.take() + "\n").c_str(), stdout);
}

rt::Status runDiff(const Words &words) {
  CommandLine line("diff", "say what two plans decide differently", {"A", "B"});
  CLEAVE_RT_RETURN_IF_ERROR(line.parse(words));
  if (line.helped())
    return rt::Status::success();
  CLEAVE_RT_ASSIGN_OR_RETURN(const std::string first, line.required("A"));
  CLEAVE_RT_ASSIGN_OR_RETURN(const std::string second, line.required("B"));
  mlir::DialectRegistry registry;
  registerAllDialects(registry);
  mlir::MLIRContext context(registry);
  CLEAVE_RT_ASSIGN_OR_RETURN(const ReadPlan a, readFrom(context, first));
  CLEAVE_RT_ASSIGN_OR_RETURN(const ReadPlan b, readFrom(context, second));
  const std::vector<FieldChange> changes = changesOf(a, b);
  const std::vector<std::string> removed = onlyIn(a, b), added = onlyIn(b, a);
  if (line.json()) {
    writeJson(changes, removed, added);
    return rt::Status::success();
  }
  for (const FieldChange &change : changes)
    fmt::print("{}: {} → {}\n", change.name, change.before, change.after);
  for (const std::string &text : removed)
    fmt::print("- {}\n", text);
  for (const std::string &text : added)
    fmt::print("+ {}\n", text);
  if (changes.empty() && removed.empty() && added.empty())
    fmt::print("the plans decide the same\n");
  return rt::Status::success();
}

} // namespace cleave::tool
