//===- ProductsTest.cpp - matrix products as CUDA text --------------------===//
//
// Products of random sizes, strides, batches and types, mapped to kernels from `exec` as the
// compiler does it, and run on the shim against loops in float64.
//
//===----------------------------------------------------------------------===//

#include "ShimHarness.h"
#include "Toolkit.h"
#include "cleave/Target/CUDA/MapLaunches.h"
#include "dialects/Dist/Dist.h"
#include "dialects/Exec/Exec.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <random>

using namespace mlir;

namespace cleave::test {

namespace {

/// One `exec.matmul`; addresses in elements behind the beginning of its segments.
struct Product {
  int64_t m = 1, n = 1, k = 1;
  int64_t a[2] = {1, 1}, b[2] = {1, 1}, c[2] = {1, 1};
  std::vector<std::array<int64_t, 4>> batch;
  bool add = false, narrow = false, rounded = false;
  int64_t skipA = 0, skipB = 0, skipC = 0;

  int64_t reach(const int64_t *strides, int64_t rows, int64_t columns, unsigned which) const {
    int64_t last = (rows - 1) * strides[0] + (columns - 1) * strides[1];
    for (const auto &dim : batch)
      last += (dim[0] - 1) * dim[which];
    return last + 1;
  }
  int64_t elementsA() const { return reach(a, m, k, 1); }
  int64_t elementsB() const { return reach(b, k, n, 2); }
  int64_t elementsC() const { return reach(c, m, n, 3); }
  int64_t matrices() const {
    int64_t all = 1;
    for (const auto &dim : batch)
      all *= dim[0];
    return all;
  }
  /// Offsets of matrix `number` in a, b and c.
  std::array<int64_t, 3> offsets(int64_t number) const {
    std::array<int64_t, 3> at = {};
    for (size_t i = batch.size(); i-- > 0; number /= batch[i][0])
      for (int j = 0; j < 3; ++j)
        at[j] += number % batch[i][0] * batch[i][j + 1];
    return at;
  }

  std::string text() const {
    const int64_t size = narrow ? 2 : 4, resultSize = rounded ? 2 : 4;
    auto at = [](const char *segment, int64_t skip, int64_t count, int64_t bytes,
                 const int64_t *strides) {
      return "<" + std::string(segment) + " + " + std::to_string(skip * bytes) + ", " +
             std::to_string(count * bytes) + "> [" + std::to_string(strides[0]) + ", " +
             std::to_string(strides[1]) + "]";
    };
    std::string all = "exec.matmul \"p\" " + at("a", skipA, elementsA(), size, a) + " by " +
                      at("b", skipB, elementsB(), size, b) + (add ? " add" : "") + " to " +
                      at("c", skipC, elementsC(), resultSize, c) + " sizes [" + std::to_string(m) +
                      ", " + std::to_string(n) + ", " + std::to_string(k) + "]";
    for (size_t i = 0; i < batch.size(); ++i) {
      all += i == 0 ? " batch [[" : ", [";
      for (int j = 0; j < 4; ++j)
        all += (j ? ", " : "") + std::to_string(batch[i][j]);
      all += i + 1 == batch.size() ? "]]" : "]";
    }
    return all + (narrow ? " of bf16" : "") + (rounded ? " as bf16" : "") + "\n";
  }
};

/// Strides of a matrix packed along either direction, with a gap or without.
void chooseStrides(int64_t *strides, int64_t rows, int64_t columns, std::mt19937 &random) {
  const int64_t gap = random() % 2 ? random() % 9 : 0;
  const bool alongRows = random() % 2;
  strides[0] = alongRows ? columns + gap : 1;
  strides[1] = alongRows ? 1 : rows + gap;
  // Half of them such that 16 bytes are copied at a time.
  if (random() % 2) {
    int64_t &stride = strides[alongRows ? 0 : 1];
    stride = (stride + 7) / 8 * 8;
  }
}

Product randomProduct(std::mt19937 &random) {
  auto size = [&]() -> int64_t {
    constexpr int64_t chosen[] = {1, 2, 7, 16, 31, 32, 33, 63, 64, 65, 96, 130, 150};
    return random() % 2 ? chosen[random() % std::size(chosen)] : 1 + random() % 150;
  };
  Product p;
  p.m = size(), p.n = size(), p.k = size();
  p.narrow = random() % 2;
  p.rounded = p.narrow && random() % 3 == 0;
  p.add = !p.rounded && random() % 2;
  chooseStrides(p.a, p.m, p.k, random);
  chooseStrides(p.b, p.k, p.n, random);
  chooseStrides(p.c, p.m, p.n, random);
  for (unsigned dims = random() % 3; dims > 0; --dims) {
    auto apart = [](int64_t elements) { return (elements + 7) / 8 * 8; };
    p.batch.insert(p.batch.begin(),
                   {int64_t(1 + random() % 2), random() % 3 ? apart(p.elementsA()) : 0,
                    random() % 3 ? apart(p.elementsB()) : 0, p.elementsC()});
  }
  if (random() % 4 == 0)
    p.skipA = random() % 5, p.skipB = random() % 5, p.skipC = random() % 5;
  return p;
}

/// Large enough for large tiles, of which a grid needs as many as multiprocessors.
Product largeProduct(bool narrow, bool transposed) {
  Product p;
  p.m = 130, p.n = 257, p.k = 40, p.narrow = narrow;
  p.a[0] = transposed ? 1 : 40, p.a[1] = transposed ? 136 : 1;
  p.b[0] = transposed ? 1 : 264, p.b[1] = transposed ? 40 : 1;
  p.c[0] = 257;
  p.add = transposed;
  p.batch.push_back({22, 0, 0, p.elementsC()}); // 132 tiles of 128 × 128
  return p;
}

/// Numbers as memory of a type has them.
class Numbers {
public:
  Numbers(int64_t count, bool narrow) : narrow(narrow), bytes(count * (narrow ? 2 : 4)) {}
  void set(int64_t i, float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    uint16_t upper = bits >> 16; // cut off: any number will do
    std::memcpy(bytes.data() + i * size(), narrow ? (void *)&upper : &bits, size());
  }
  double at(int64_t i) const {
    uint32_t bits = 0;
    std::memcpy(reinterpret_cast<char *>(&bits) + (narrow ? 2 : 0), bytes.data() + i * size(),
                size());
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
  Given from(int64_t skip, int64_t count) {
    return {bytes.data() + skip * size(), (long long)(count * size())};
  }
  int64_t count() const { return bytes.size() / size(); }
  bool operator==(const Numbers &other) const { return bytes == other.bytes; }

private:
  int64_t size() const { return narrow ? 2 : 4; }
  bool narrow;
  std::vector<char> bytes;
};

class Products {
public:
  /// Maps the products of a program and builds the text, which `change` may spoil first.
  explicit Products(std::vector<Product> all, const ShimModule::Change &change = nullptr)
      : all(std::move(all)) {
    context = kernelContext();
    context->loadDialect<exec::ExecDialect, dist::DistDialect>();
    std::string program;
    int64_t most[3] = {};
    for (const Product &p : this->all) {
      program += "      " + p.text();
      most[0] = std::max(most[0], 4 * (p.elementsA() + p.skipA));
      most[1] = std::max(most[1], 4 * (p.elementsB() + p.skipB));
      most[2] = std::max(most[2], 4 * (p.elementsC() + p.skipC));
    }
    std::string text = "dist.mesh @mesh [\"data\"] = [1]\nexec.program on @mesh {\n";
    for (int i = 0; i < 3; ++i)
      text += "  exec.segment \"" + std::string(1, char('a' + i)) + "\" " +
              std::to_string(most[i]) + "\n";
    text += "  exec.entry microbatch {\n" + program + "  }\n}\n";
    // A program has more to it than commands.
    module = parseSourceString<ModuleOp>(text, {context.get(), /*verifyAfterParse=*/false});
    if (!module) {
      ADD_FAILURE() << text.substr(0, 3000);
      return;
    }
    module->walk([](exec::MatmulOp op) { EXPECT_TRUE(succeeded(verify(op))); });
    FailureOr<cuda::Text> mapped = cuda::mapLaunches(*module, {/*libraries=*/false});
    if (failed(mapped)) {
      ADD_FAILURE() << "the products cannot be mapped";
      return;
    }
    source = change ? change(mapped->source) : mapped->source;
    std::vector<std::string> kernels;
    for (const cuda::Launch &launch : mapped->launches)
      kernels.push_back(launch.kernel);
    module->walk([&](exec::LaunchOp op) {
      EXPECT_TRUE(succeeded(verify(op)));
      launches.push_back(op);
    });
    EXPECT_EQ(launches.size(), this->all.size());
    library = ShimLibrary(source, kernels);
  }

  bool ok() const { return library.ok() && launches.size() == all.size(); }
  size_t size() const { return all.size(); }
  const Product &product(size_t i) const { return all[i]; }
  const std::string &text() const { return source; }

  /// What is wrong with product `i`; empty if nothing.
  std::string check(size_t i, unsigned seed) {
    const Product &p = all[i];
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    Numbers a(p.skipA + p.elementsA(), p.narrow), b(p.skipB + p.elementsB(), p.narrow);
    Numbers c(p.skipC + p.elementsC(), p.rounded);
    for (Numbers *each : {&a, &b})
      for (int64_t at = 0; at < each->count(); ++at)
        each->set(at, normal(random));
    for (int64_t at = 0; at < c.count(); ++at)
      c.set(at, p.add ? normal(random) : std::numeric_limits<float>::quiet_NaN());
    const Numbers before = c;
    exec::LaunchOp op = launches[i];
    std::string error =
        library.launch(op.getKernel().str(),
                       {a.from(p.skipA, p.elementsA()), b.from(p.skipB, p.elementsB()),
                        c.from(p.skipC, p.elementsC())},
                       {int64_t(op.getExtent()), int(*op.getThreads()), seed,
                        int64_t(op.getShared().value_or(0))});
    if (!error.empty())
      return error;
    return compare(p, a, b, before, c);
  }

private:
  static std::string compare(const Product &p, const Numbers &a, const Numbers &b,
                             const Numbers &before, const Numbers &c) {
    Numbers rest = before; // with the results put in, all of memory must be the same
    for (int64_t matrix = 0; matrix < p.matrices(); ++matrix) {
      auto [toA, toB, toC] = p.offsets(matrix);
      for (int64_t i = 0; i < p.m; ++i)
        for (int64_t j = 0; j < p.n; ++j) {
          const int64_t at = p.skipC + toC + i * p.c[0] + j * p.c[1];
          double sum = p.add ? before.at(at) : 0, size = std::fabs(sum);
          for (int64_t k = 0; k < p.k; ++k) {
            const double term = a.at(p.skipA + toA + i * p.a[0] + k * p.a[1]) *
                                b.at(p.skipB + toB + k * p.b[0] + j * p.b[1]);
            sum += term;
            size += std::fabs(term);
          }
          // Each of k additions in float rounds to half of 2^-23, as does the last; a result of
          // two bytes to half of 2^-7.
          const double bound =
              (p.k + 1) * size * 0x1p-24 + (p.rounded ? std::fabs(sum) * 0x1p-8 : 0);
          if (!(std::fabs(c.at(at) - sum) <= bound))
            return p.text() + "row " + std::to_string(i) + ", column " + std::to_string(j) +
                   " of matrix " + std::to_string(matrix) + " is " + std::to_string(c.at(at)) +
                   ", not " + std::to_string(sum);
          rest.set(at, c.at(at));
        }
    }
    return rest == c ? "" : p.text() + "wrote beside the result";
  }

  std::vector<Product> all;
  std::unique_ptr<MLIRContext> context;
  OwningOpRef<ModuleOp> module;
  std::string source;
  std::vector<exec::LaunchOp> launches;
  ShimLibrary library;
};

std::vector<Product> randomProducts(unsigned seed, size_t count) {
  std::mt19937 random(seed);
  std::vector<Product> all;
  for (size_t i = 0; i < count; ++i)
    all.push_back(randomProduct(random));
  return all;
}

/// All forms in which operands lie, in both types, with large tiles and small ones.
std::vector<Product> allForms() {
  std::vector<Product> all;
  for (bool narrow : {false, true})
    for (bool transposed : {false, true})
      all.push_back(largeProduct(narrow, transposed));
  for (int form = 0; form < 8; ++form) {
    Product p;
    p.m = 72, p.n = 80, p.k = 104;
    p.narrow = form & 1;
    const bool a = form >> 1 & 1, b = form >> 2 & 1; // along rows
    p.a[0] = a ? p.k : 1, p.a[1] = a ? 1 : p.m;
    p.b[0] = b ? p.n : 1, p.b[1] = b ? 1 : p.k;
    p.c[0] = p.n;
    all.push_back(p);
  }
  return all;
}

} // namespace

TEST(CudaProducts, AgreeWithLoopsInEveryForm) {
  Products products(allForms());
  ASSERT_TRUE(products.ok());
  for (size_t i = 0; i < products.size(); ++i)
    EXPECT_EQ(products.check(i, /*seed=*/i), "");
  for (const char *part : {"tileM = 128, tileN = 128, tileK = 32", "tileM = 64, tileN = 64"})
    EXPECT_NE(products.text().find(part), std::string::npos) << part;
}

TEST(CudaProducts, AgreeWithLoopsAtRandomSizes) {
  Products products(randomProducts(1, 60));
  ASSERT_TRUE(products.ok());
  for (size_t i = 0; i < products.size(); ++i)
    for (unsigned seed : {1, 2, 3})
      EXPECT_EQ(products.check(i, seed), "") << "seed " << seed;
}

TEST(CudaProducts, OneKernelServesEqualProducts) {
  const std::vector<Product> once = randomProducts(5, 3);
  std::vector<Product> twice = once;
  twice.insert(twice.end(), once.begin(), once.end());
  Products products(twice);
  ASSERT_TRUE(products.ok());
  size_t kernels = 0;
  for (size_t at = 0;
       (at = products.text().find("extern \"C\" __global__", at)) != std::string::npos; ++at)
    ++kernels;
  EXPECT_EQ(kernels, 3u);
}

TEST(CudaProducts, EveryBarrierAndWaitIsNeeded) {
  // Several steps of k, and blocks of several warps.
  std::vector<Product> all = {allForms()[4], allForms()[5]};
  for (const char *what : {"__syncthreads();\n    if (step + 1", "waitForCopies<0>();",
                           "commitCopies();\n    sums", "commitCopies();\n  for"}) {
    Products products(all, [&](std::string text) {
      size_t at = text.find(what);
      EXPECT_NE(at, std::string::npos) << what;
      // Up to the end of the statement.
      return at == std::string::npos ? text : text.erase(at, std::string_view(what).find(';') + 1);
    });
    ASSERT_TRUE(products.ok());
    for (size_t i = 0; i < products.size(); ++i) {
      bool noticed = false;
      for (unsigned seed = 1; seed <= 10 && !noticed; ++seed)
        noticed = !products.check(i, seed).empty();
      EXPECT_TRUE(noticed) << "without " << what << " in product " << i;
    }
  }
}

TEST(CudaProducts, CompileWithNvccWithoutSpills) {
  expectNvccCompiles(Products(allForms()).text());
}

TEST(CudaProducts, CompileWithNvrtc) { expectNvrtcCompiles(Products(allForms()).text()); }

} // namespace cleave::test
