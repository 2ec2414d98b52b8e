// Buckets: each is awaited once, behind its start and in the same entry, and nothing meets
// its memory in between. What runs beside is one bucket after the other, so that two
// buckets can't meet.
#include "runtime/Schema/Unroll.h"
#include "runtime/Schema/ValidateCommands.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace cleave::rt {
namespace {

/// Bytes that a command reads and writes.
struct Touched {
  std::vector<Region> read, written;
};

/// An image does not say which arguments a kernel writes: it may be any.
struct TouchedBy {
  Touched &touched;

  void operator()(const KernelCommand &kernel) const { touched.written = kernel.args; }
  void operator()(const MatmulCommand &matmul) const {
    touched = {{matmul.a.region, matmul.b.region}, {matmul.c.region}};
  }
  void operator()(const PickedMatmulCommand &picked) const { addPicked(picked); }
  void operator()(const PickedOuterCommand &picked) const { addPicked(picked); }
  void operator()(const ZeroCommand &zero) const { touched.written = {zero.region}; }
  void operator()(const AwaitCommand &) const {}
  void operator()(const RepeatCommand &) const {}
  void operator()(const BesideCommand &bucket) const {
    for (const Command &exchange : bucket.exchanges) {
      Touched one;
      std::visit(TouchedBy{one}, exchange.what);
      touched.read.insert(touched.read.end(), one.read.begin(), one.read.end());
      touched.written.insert(touched.written.end(), one.written.begin(), one.written.end());
    }
  }
  template <typename T> void operator()(const T &command) const {
    touched = {{command.source}, {command.target}};
  }

private:
  template <typename T> void addPicked(const T &picked) const {
    touched = {{picked.a, picked.b, picked.index}, {picked.c}};
    if (picked.offset)
      touched.read.push_back(*picked.offset);
  }
};

bool meets(const Region &a, const Region &b) {
  return a.segment == b.segment && a.bytes > 0 && b.bytes > 0 && a.offset < b.offset + b.bytes &&
         b.offset < a.offset + a.bytes;
}

bool meet(const std::vector<Region> &list, const std::vector<Region> &others) {
  return std::ranges::any_of(list, [&](const Region &a) {
    return std::ranges::any_of(others, [&](const Region &b) { return meets(a, b); });
  });
}

/// The commands of an entry in the order in which they run.
class EntryChecker {
public:
  EntryChecker(const Program &program, size_t entry)
      : entryName(program.entryName(entry)), commands(unroll(program.entryList(entry))) {}

  Status run() {
    for (const Command &command : commands) {
      if (const auto *await = std::get_if<AwaitCommand>(&command.what)) {
        if (underWay.erase(await->number) == 0)
          return wrong(command, "awaits a bucket that is not under way");
        continue;
      }
      Touched touched;
      std::visit(TouchedBy{touched}, command.what);
      if (const auto *bucket = std::get_if<BesideCommand>(&command.what)) {
        CLEAVE_RT_RETURN_IF_ERROR(checkWithin(command, *bucket));
        if (!started.insert(bucket->number).second)
          return wrong(command, "has the number of another bucket");
        underWay[bucket->number] = {&command, std::move(touched)};
        continue;
      }
      CLEAVE_RT_RETURN_IF_ERROR(checkApart(command, touched));
    }
    if (underWay.empty())
      return {};
    return wrong(*underWay.begin()->second.start, "is awaited by nobody");
  }

private:
  struct UnderWay {
    const Command *start = nullptr;
    Touched touched;
  };

  Error wrong(const Command &command, const std::string &what) const {
    return brokenImage("image.command",
                       fmt::format("{}: {} {}", entryName, titleOf(command), what));
  }

  Status checkApart(const Command &command, const Touched &touched) const {
    for (const auto &[number, other] : underWay) {
      if (meet(touched.written, other.touched.read))
        return wrong(command, fmt::format("writes what {} reads beside it", titleOf(*other.start)));
      if (meet(touched.written, other.touched.written) || meet(touched.read, other.touched.written))
        return wrong(command,
                     fmt::format("touches what {} writes beside it", titleOf(*other.start)));
    }
    return {};
  }

  /// The exchanges of a bucket are one message, in no order.
  Status checkWithin(const Command &command, const BesideCommand &bucket) const {
    std::vector<Touched> parts(bucket.exchanges.size());
    for (size_t i = 0; i < parts.size(); ++i) {
      std::visit(TouchedBy{parts[i]}, bucket.exchanges[i].what);
      for (size_t j = 0; j < i; ++j)
        if (meet(parts[i].written, parts[j].written) || meet(parts[i].written, parts[j].read) ||
            meet(parts[i].read, parts[j].written))
          return wrong(command,
                       fmt::format("has exchanges that meet: {} and {}",
                                   titleOf(bucket.exchanges[j]), titleOf(bucket.exchanges[i])));
    }
    return {};
  }

  const std::string entryName;
  const std::vector<Command> commands;
  std::map<int64_t, UnderWay> underWay;
  std::set<int64_t> started;
};

bool hasBuckets(const std::vector<Command> &commands) {
  return std::ranges::any_of(commands, [](const Command &command) {
    const auto *repeat = std::get_if<RepeatCommand>(&command.what);
    return repeat ? hasBuckets(repeat->body)
                  : std::holds_alternative<BesideCommand>(command.what) ||
                        std::holds_alternative<AwaitCommand>(command.what);
  });
}

} // namespace

Status validateBeside(const Program &program) {
  for (size_t entry = 0; entry < program.entryLists(); ++entry)
    if (hasBuckets(program.entryList(entry)))
      CLEAVE_RT_RETURN_IF_ERROR(EntryChecker(program, entry).run());
  return {};
}

} // namespace cleave::rt
