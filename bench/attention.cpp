//===- attention.cpp - speed of generated attention -----------------------===//
//
// Runs the attention kernels on one thread and prints GFLOP/s beside those of one
// oneDNN matrix product of 768^3, measured just before each line on the same thread.
// Operations are counted over visible (query, key) pairs: two products forward, five
// backward (the two kernels compute seven between them; "done" counts those). Lines
// with other keys than queries are of a rank that shares sequences, by position. The
// variable CLEAVE_PROFILE names the instruction set; avx2 if it is not set.
//
//===----------------------------------------------------------------------===//

#include "cleave/Target/CPU/AttentionKernel.h"
#include "mlir/IR/MLIRContext.h"
#include "runtime/Schema/TokenOrder.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <dlfcn.h>
#include <dnnl.hpp>
#include <vector>

using namespace cleave::cpu;

namespace {

using Entry = void (*)(void *const *, int64_t, int64_t);

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// The best of some times of one call.
template <typename Call> double bestTime(double flops, Call call) {
  const int repeats = std::max(1, static_cast<int>(1e8 / flops));
  double best = 1e30;
  for (int round = 0; round < 60; ++round) {
    const double start = seconds();
    for (int i = 0; i < repeats; ++i)
      call();
    best = std::min(best, (seconds() - start) / repeats);
  }
  return best;
}

double productRate() {
  const int64_t n = 768;
  std::vector<float> a(n * n, 0.5f), b(n * n, 0.25f), c(n * n);
  const double flops = 2.0 * n * n * n;
  return flops * 1e-9 / bestTime(flops, [&] {
           dnnl_sgemm('N', 'N', n, n, n, 1.0f, a.data(), n, b.data(), n, 0.0f, c.data(), n);
         });
}

struct Program {
  std::unique_ptr<llvm::orc::LLJIT> jit;
  std::vector<AttentionKernel> kernels;
  std::vector<Entry> entries;
};

mlir::FailureOr<Program> compile(mlir::MLIRContext &context, const AttentionSizes &sizes) {
  mlir::OwningOpRef<mlir::ModuleOp> module =
      mlir::ModuleOp::create(mlir::UnknownLoc::get(&context));
  Program program;
  const char *named = std::getenv("CLEAVE_PROFILE");
  const Profile profile = named ? *Profile::byName(named) : Profile::avx2();
  for (auto kernel : {buildAttentionForward(*module, "forward", sizes, profile),
                      buildAttentionBackwardQuery(*module, "query", sizes, profile),
                      buildAttentionBackwardKeyValue(*module, "key_value", sizes, profile)}) {
    if (mlir::failed(kernel))
      return mlir::failure();
    program.kernels.push_back(*kernel);
  }
  auto object = compileObject(*module, profile);
  if (mlir::failed(object))
    return mlir::failure();
  program.jit = llvm::cantFail(llvm::orc::LLJITBuilder().create());
  llvm::cantFail(program.jit->addObjectFile(std::move(*object)));
  for (const AttentionKernel &kernel : program.kernels)
    program.entries.push_back(llvm::cantFail(program.jit->lookup(kernel.symbol)).toPtr<Entry>());
  return program;
}

void report(const Program &program, const AttentionSizes &s, double product) {
  const size_t queries = s.batch * s.sequence * s.kvHeads * s.group * s.headDim;
  const size_t keys = s.batch * s.keyRows() * s.kvHeads * s.headDim;
  std::vector<std::vector<float>> buffers;
  for (size_t size :
       {queries, keys, keys, queries, queries / s.headDim, queries, queries, keys, keys}) {
    auto &buffer = buffers.emplace_back(size);
    for (size_t i = 0; i < size; ++i)
      buffer[i] = float(i * 2654435761u % 2048) * 0.001f - 1.0f;
  }
  // With positions: the first rank's rows of sequences in zig-zag order.
  std::vector<std::vector<int32_t>> positions;
  for (int64_t rows : {s.sequence, s.keyRows()})
    if (s.hasPositions()) {
      auto order = cleave::rt::zigzagOrder(s.keys, s.keys / s.sequence);
      auto &list = positions.emplace_back();
      for (int64_t i = 0; i < s.batch * rows; ++i)
        list.push_back(static_cast<int32_t>(order[i % rows]));
    }
  // Inputs, positions, outputs.
  std::vector<void *> operands[3];
  const std::pair<int, std::vector<int>> outputs[] = {{3, {3, 4}}, {6, {6}}, {6, {7, 8}}};
  for (auto [list, which] : llvm::zip(operands, outputs)) {
    for (int i = 0; i < which.first; ++i)
      list.push_back(buffers[i].data());
    for (auto &each : positions)
      list.push_back(each.data());
    for (int i : which.second)
      list.push_back(buffers[i].data());
  }
  double times[3];
  for (int i = 0; i < 3; ++i)
    times[i] = bestTime(program.kernels[i].flops, [&] {
      program.entries[i](operands[i].data(), 0, program.kernels[i].extent);
    });
  auto rate = [&](int i) { return program.kernels[i].flops * 1e-9 / times[i]; };
  const double backward = 5 * s.productFlops(s.headDim) * 1e-9 / (times[1] + times[2]);
  llvm::outs() << llvm::formatv("{0,5} {1,5} {2,5} {3,5} {4,5} {5,4} {6,8:F1}", s.sequence,
                                s.keyRows(), s.batch, s.kvHeads, s.group, s.headDim, product);
  for (double each : {rate(0), rate(1), rate(2), backward})
    llvm::outs() << llvm::formatv("  {0,8:F1} {1,6:F2}", each, each / product);
  llvm::outs() << "\n";
  llvm::outs().flush();
}

} // namespace

int main() {
  // oneDNN brings OpenMP's library along; its header is not needed for one call.
  if (auto set = reinterpret_cast<void (*)(int)>(::dlsym(RTLD_DEFAULT, "omp_set_num_threads")))
    set(1);
  mlir::DialectRegistry registry;
  registerKernelDialects(registry);
  mlir::MLIRContext context(registry);
  llvm::outs() << "  seq  keys batch heads group  dim  product   forward  ratio  q (done)  ratio  "
                  "kv(done)  ratio  backward  ratio\n";
  for (const AttentionSizes &sizes :
       {AttentionSizes{8, 64, 4, 1, 64, 0.125}, AttentionSizes{4, 256, 4, 1, 64, 0.125},
        AttentionSizes{1, 1024, 1, 1, 64, 0.125}, AttentionSizes{1, 1024, 12, 1, 64, 0.125},
        AttentionSizes{1, 1024, 4, 4, 64, 0.125}, AttentionSizes{1, 1024, 4, 2, 128, 0.088},
        AttentionSizes{1, 1024, 4, 1, 80, 0.11}, AttentionSizes{8, 64, 4, 1, 16, 0.25},
        AttentionSizes{1, 512, 12, 1, 64, 0.125, 0, 0, 1024},
        AttentionSizes{1, 1024, 12, 1, 64, 0.125, 0, 0, 1024}}) {
    auto program = compile(context, sizes);
    if (mlir::failed(program))
      return 1;
    report(*program, sizes, productRate());
  }
  return 0;
}
