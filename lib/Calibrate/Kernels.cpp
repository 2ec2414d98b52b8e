//===- Kernels.cpp - Kernels that are measured --------------------------------===//

#include "lib/Calibrate/Kernels.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
namespace cleave::calibrate {

/// Numbers of a function's kernel: what is read and written stays in the nearest cache.
static constexpr int64_t kFew = 2048;

/// A kernel @`name` over `space` rows (of `columns` numbers, 0: single numbers). `body` computes
/// %r from elements %a0, %a1, … of the inputs, and from the results' old contents %o0, ….
static std::string kernelText(StringRef name, int64_t space, int64_t columns, int inputs,
                              int outputs, StringRef body, StringRef yields) {
  const std::string type = columns ? llvm::formatv("tensor<{0}x{1}xf32>", space, columns).str()
                                   : llvm::formatv("tensor<{0}xf32>", space).str();
  const std::string map = columns ? "affine_map<(i, j) -> (i, j)>" : "affine_map<(i) -> (i)>";
  std::string arguments, ins, inTypes, outs, outTypes, maps, elements, results;
  auto comma = [](std::string &to) { to += to.empty() ? "" : ", "; };
  for (int i = 0; i < inputs + outputs; ++i) {
    const bool isInput = i < inputs;
    const std::string value =
        isInput ? llvm::formatv("%x{0}", i).str() : llvm::formatv("%y{0}", i - inputs).str();
    comma(arguments);
    arguments += value + ": " + type;
    comma(isInput ? ins : outs);
    (isInput ? ins : outs) += value;
    comma(isInput ? inTypes : outTypes);
    (isInput ? inTypes : outTypes) += type;
    comma(maps);
    maps += map;
    comma(elements);
    elements += isInput ? llvm::formatv("%a{0}: f32", i).str()
                        : llvm::formatv("%o{0}: f32", i - inputs).str();
  }
  for (int i = 0; i < outputs; ++i) {
    comma(results);
    results += outputs == 1 ? "%r" : llvm::formatv("%r#{0}", i).str();
  }
  const std::string kinds = columns ? "\"parallel\", \"parallel\"" : "\"parallel\"";
  return "func.func @" + name.str() + "(" + arguments + ") -> (" + outTypes +
         ") attributes {cleave.outputs = " + std::to_string(outputs) +
         " : i64, cleave.space = " + std::to_string(space) + " : i64} {\n  %r" +
         (outputs == 1 ? "" : ":" + std::to_string(outputs)) +
         " = linalg.generic {indexing_maps = [" + maps + "], iterator_types = [" + kinds +
         "]} ins(" + ins + " : " + inTypes + ") outs(" + outs + " : " + outTypes + ") {\n  ^bb0(" +
         elements + "):\n" + body.str() + "    linalg.yield " + yields.str() + "\n  } -> (" +
         outTypes + ")\n  return " + results + " : " + outTypes + "\n}\n";
}

/// A constant, named, in a body.
static std::string constant(StringRef name, StringRef value) {
  return llvm::formatv("    %{0} = arith.constant {1} : f32\n", name, value);
}

static std::string updateText() {
  std::string body;
  for (auto [name, value] : {std::pair("b1", "0.9"),
                             {"b1c", "0.1"},
                             {"b2", "0.95"},
                             {"b2c", "0.05"},
                             {"eps", "1.0e-8"},
                             {"wd", "0.1"},
                             {"lr", "1.0e-4"}})
    body += constant(name, value);
  body += "    %1 = arith.mulf %o1, %b1 : f32\n    %2 = arith.mulf %a0, %b1c : f32\n"
          "    %m = arith.addf %1, %2 : f32\n    %3 = arith.mulf %o2, %b2 : f32\n"
          "    %4 = arith.mulf %a0, %a0 : f32\n    %5 = arith.mulf %4, %b2c : f32\n"
          "    %v = arith.addf %3, %5 : f32\n    %6 = math.sqrt %v : f32\n"
          "    %7 = arith.addf %6, %eps : f32\n    %8 = arith.divf %m, %7 : f32\n"
          "    %9 = arith.mulf %o0, %wd : f32\n    %10 = arith.addf %8, %9 : f32\n"
          "    %11 = arith.mulf %lr, %10 : f32\n    %p = arith.subf %o0, %11 : f32\n";
  return kernelText("update", Kernels::kNumbers, 0, 1, 3, body, "%p, %m, %v : f32, f32, f32");
}

/// Four chains side by side, so that the units are busy.
static std::string chainText(StringRef name, int64_t columns) {
  std::string body = constant("c", "0.999") + constant("d", "1.0e-3");
  for (int chain = 0; chain < 4; ++chain)
    body +=
        llvm::formatv("    %s{0}_0 = arith.addf %a0, %{1} : f32\n", chain, chain % 2 ? "c" : "d");
  for (int step = 0; step < Kernels::kMultiplyAdds / 4; ++step)
    for (int chain = 0; chain < 4; ++chain)
      body += llvm::formatv("    %s{0}_{2} = math.fma %s{0}_{1}, %c, %a0 : f32\n", chain, step,
                            step + 1);
  const int last = Kernels::kMultiplyAdds / 4;
  body += llvm::formatv("    %u = arith.addf %s0_{0}, %s1_{0} : f32\n"
                        "    %w = arith.addf %s2_{0}, %s3_{0} : f32\n"
                        "    %t = arith.addf %u, %w : f32\n",
                        last);
  return kernelText(name, kFew / columns, columns, 1, 1, body, "%t : f32");
}

/// Pairs of numbers, turned by an angle that a polynomial of a position and a frequency gives: what
/// a loop looks like whose rows can't be joined with the next ones.
static std::string rowText(StringRef name, int64_t columns) {
  const std::string type = llvm::formatv("tensor<{0}x2x{1}xf32>", kFew / (2 * columns), columns);
  const std::string positions = llvm::formatv("tensor<{0}xf32>", kFew / (2 * columns));
  const std::string table = llvm::formatv("tensor<2x{0}xf32>", columns);
  std::string body = constant("c", "0.159") + constant("q", "0.25") + constant("h", "0.5");
  body += "    %t0 = arith.mulf %p, %f : f32\n    %n0 = math.roundeven %t0 : f32\n"
          "    %t1 = arith.subf %t0, %n0 : f32\n    %t2 = math.fma %p, %g, %t1 : f32\n"
          "    %e = arith.addf %t2, %q : f32\n";
  for (const char *angle : {"t2", "e"}) {
    body += llvm::formatv("    %{0}_n = math.roundeven %{0} : f32\n"
                          "    %{0}_x = arith.subf %{0}, %{0}_n : f32\n"
                          "    %{0}_y = arith.subf %h, %{0}_x : f32\n"
                          "    %{0}_b = arith.cmpf ogt, %{0}_x, %q : f32\n"
                          "    %{0}_z = arith.select %{0}_b, %{0}_y, %{0}_x : f32\n"
                          "    %{0}_s = arith.mulf %{0}_z, %{0}_z : f32\n"
                          "    %{0}_0 = arith.mulf %c, %{0}_s : f32\n",
                          angle);
    for (int i = 0; i < 12; ++i)
      body += llvm::formatv("    %{0}_{1} = arith.{2} %{0}_{3}, %{4} : f32\n", angle, i + 1,
                            i % 2 ? "mulf" : "addf", i,
                            i % 2 ? std::string(angle) + "_s" : std::string("c"));
  }
  body += "    %u = arith.mulf %a, %t2_12 : f32\n    %v = arith.mulf %b, %e_12 : f32\n"
          "    %r0 = arith.addf %u, %v : f32\n";
  const std::string own = "affine_map<(r, s, j) -> (r, s, j)>";
  return "func.func @" + name.str() + "(%x: " + type + ", %at: " + positions + ", %w: " + table +
         ", %y: " + type + ") -> " + type +
         " attributes {cleave.outputs = 1 : i64, cleave.space = " +
         std::to_string(kFew / (2 * columns)) +
         " : i64} {\n  %r = linalg.generic {indexing_maps = [" + own +
         ", affine_map<(r, s, j) -> (r, 1 - s, j)>, affine_map<(r, s, j) -> (r)>, " +
         "affine_map<(r, s, j) -> (0, j)>, affine_map<(r, s, j) -> (1, j)>, " + own +
         "], iterator_types = [\"parallel\", \"parallel\", \"parallel\"]} ins(%x, %x, %at, %w, %w "
         ": " +
         type + ", " + type + ", " + positions + ", " + table + ", " + table +
         ") outs(%y : " + type +
         ") {\n  ^bb0(%a: f32, %b: f32, %p: f32, %f: f32, %g: f32, %o: f32):\n" + body +
         "    linalg.yield %r0 : f32\n  } -> " + type + "\n  return %r : " + type + "\n}\n";
}

static std::string functionText(StringRef name, StringRef operation) {
  std::string body = constant("c", "0.75");
  body += operation == "arith.divf" ? std::string("    %f = arith.divf %c, %a0 : f32\n")
                                    : llvm::formatv("    %f = {0} %a0{1} : f32\n", operation,
                                                    operation == "arith.mulf" ? ", %c" : "")
                                          .str();
  return kernelText(name, kFew, 0, 1, 1, body, "%f : f32");
}

static constexpr const char *kFunctions[] = {"arith.mulf", "arith.divf", "math.exp",  "math.log",
                                             "math.tanh",  "math.erf",   "math.sqrt", "math.rsqrt"};

static std::string sourceText() {
  std::string body = constant("c", "0.75");
  body += "    %1 = arith.mulf %a0, %c : f32\n    %2 = arith.addf %1, %a1 : f32\n";
  std::string text = kernelText("stream", Kernels::kNumbers, 0, 2, 1, body, "%2 : f32");
  text += updateText() + chainText("chains", 512) + rowText("long_rows", Kernels::kLongRow) +
          rowText("short_rows", Kernels::kShortRow);
  for (auto [i, operation] : llvm::enumerate(kFunctions))
    text += functionText("f" + std::to_string(i), operation);
  return text;
}

static std::vector<cpu::AttentionSizes> attentionSizes(bool quick) {
  std::vector<cpu::AttentionSizes> all;
  const std::vector<int64_t> widths =
      quick ? std::vector<int64_t>{64} : std::vector<int64_t>{16, 32, 64, 128};
  const std::vector<int64_t> keys =
      quick ? std::vector<int64_t>{64} : std::vector<int64_t>{64, 128, 256, 1024};
  std::vector<std::pair<int64_t, bool>> spread;
  for (int64_t rows : keys)
    for (bool isSpread : {false, true})
      spread.push_back({rows, isSpread});
  for (int64_t width : widths)
    for (auto [rows, isSpread] : spread) {
      cpu::AttentionSizes sizes;
      sizes.sequence = isSpread ? rows / 2 : rows;
      sizes.keys = isSpread ? rows : 0;
      sizes.batch = std::max<int64_t>(1, 512 / rows);
      sizes.kvHeads = 4;
      sizes.headDim = width;
      sizes.scale = 0.125;
      all.push_back(sizes);
    }
  return all;
}

rt::StatusOr<std::unique_ptr<Kernels>> Kernels::compile(const Options &options) {
  DialectRegistry registry;
  cpu::registerKernelDialects(registry);
  MLIRContext context(registry);
  std::string problem;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    problem += diagnostic.str();
    return success();
  });
  auto failed = [&](StringRef what) {
    return rt::internalError(llvm::formatv("{0}: {1}", what, problem).str());
  };
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(sourceText(), &context);
  if (!module)
    return failed("kernels to measure cannot be read");
  std::unique_ptr<Kernels> kernels(new Kernels());
  std::vector<std::array<cpu::AttentionKernel, 3>> built;
  for (const cpu::AttentionSizes &sizes : attentionSizes(options.quick)) {
    const std::string name = "attention" + std::to_string(built.size());
    auto forward = buildAttentionForward(*module, name + "_f", sizes, options.profile);
    auto query = buildAttentionBackwardQuery(*module, name + "_q", sizes, options.profile);
    auto keys = buildAttentionBackwardKeyValue(*module, name + "_k", sizes, options.profile);
    if (mlir::failed(forward) || mlir::failed(query) || mlir::failed(keys))
      return failed("attention to measure cannot be built");
    built.push_back({*forward, *query, *keys});
    kernels->attention.push_back({sizes});
  }
  auto object = cpu::compileObject(*module, options.profile);
  if (mlir::failed(object))
    return failed("kernels to measure cannot be compiled");
  auto made = llvm::orc::LLJITBuilder().create();
  if (!made)
    return failed(llvm::toString(made.takeError()));
  kernels->jit = std::move(*made);
  if (llvm::Error error = kernels->jit->addObjectFile(std::move(*object)))
    return failed(llvm::toString(std::move(error)));
  bool isWhole = true;
  auto find = [&](const std::string &name) -> Entry {
    auto entry = kernels->jit->lookup(name);
    if (entry)
      return entry->toPtr<Entry>();
    problem += llvm::toString(entry.takeError());
    isWhole = false;
    return nullptr;
  };
  for (auto [kernel, parts] : llvm::zip(kernels->attention, built))
    for (int i = 0; i < 3; ++i) {
      kernel.entries[i] = find(parts[i].symbol);
      kernel.extents[i] = parts[i].extent;
    }
  kernels->stream = find("stream");
  kernels->update = find("update");
  kernels->chains = find("chains");
  kernels->longRows = find("long_rows");
  kernels->shortRows = find("short_rows");
  for (auto [i, operation] : llvm::enumerate(kFunctions))
    kernels->functions.push_back({operation, find("f" + std::to_string(i))});
  if (!isWhole)
    return failed("kernels to measure cannot be loaded");
  return kernels;
}

} // namespace cleave::calibrate
