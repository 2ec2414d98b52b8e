//===- Exchanges.h - What may be exchanged beside the computation ----------===//
//
// Questions about single exchanges that do not depend on whether their block repeats, and
// the buckets that they are put in.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "dialects/Dist/Dist.h"
#include "dialects/Interfaces/Interfaces.h"
#include "llvm/ADT/MapVector.h"

namespace cleave {

/// Whether `op` is an exchange that buckets can take, between ranks that there are.
bool isBucketable(mlir::Operation *op);

/// Whether `op` makes one value of one other in a kernel.
bool isStep(mlir::Operation *op);

/// Whether both may mean one tensor, or memory that its slots share.
bool mayMeet(StateOpInterface a, StateOpInterface b);

/// Puts exchanges in buckets: those of one direction, kind, reduction and list of axes
/// that are begun for the same `anchor`, up to a size.
class Buckets {
public:
  /// Numbers are given from `next` on. A bucket has at most `most` bytes, or one exchange.
  Buckets(int64_t &next, int64_t most) : next(next), most(most) {}

  /// Marks `exchange` by the attribute `direction` with the number of its bucket.
  void add(mlir::Operation *exchange, llvm::StringRef direction, mlir::Operation *anchor = nullptr);

private:
  struct Open {
    int64_t number = 0, bytes = 0;
  };
  using Key = std::tuple<mlir::Attribute, mlir::Attribute, mlir::Attribute, mlir::Operation *>;

  int64_t &next;
  const int64_t most;
  llvm::MapVector<Key, Open> open;
};

} // namespace cleave
