// Work cut into tasks whose number and borders depend on sizes alone, shared out
// to the pool's workers as they come free. Which worker takes which task depends
// on time, so a task may only write what no other task touches; then results do
// not depend on the number of workers.
#pragma once

#include "runtime/Base/FunctionRef.h"
#include "runtime/Base/Status.h"
#include "runtime/Base/ThreadPool.h"

#include <cstdint>

namespace cleave::rt {

using TaskBody = FunctionRef<void(int64_t task, unsigned worker)>;

/// Calls `body` once for each task in [0, count). One task runs on the caller
/// without waking anybody. Errors are those of ThreadPool::parallelFor.
Status runTasks(ThreadPool &pool, int64_t count, TaskBody body);

} // namespace cleave::rt
