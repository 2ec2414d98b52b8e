//===- ApproximateMath.cpp - exp and its like as arithmetic ---------------===//
//
// Library calls would leave vectors and give other bits for vectors than for
// scalars. Our own exp covers the whole range (denormal results, infinities and
// NaN); logarithm, tanh and erf are MLIR's.
//
//===----------------------------------------------------------------------===//

#include "cleave/Target/CPU/KernelCompiler.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace cleave::cpu {
#define GEN_PASS_DEF_APPROXIMATEMATHPASS
#include "lib/Target/CPU/KernelPasses.h.inc"

namespace {

/// Constants and bit patterns in the shape of one value.
struct Lanes {
  ImplicitLocOpBuilder b;
  Type like;

  Value f32(float value) { return constant(b.getF32FloatAttr(value)); }
  Value i32(int32_t value) { return constant(b.getI32IntegerAttr(value)); }
  Value fma(Value x, Value y, Value z) { return math::FmaOp::create(b, x, y, z); }
  Value asInt(Value x) { return arith::BitcastOp::create(b, shaped(b.getI32Type()), x); }
  Value asFloat(Value x) { return arith::BitcastOp::create(b, shaped(b.getF32Type()), x); }

private:
  Type shaped(Type element) {
    auto vector = dyn_cast<VectorType>(like);
    return vector ? Type(vector.clone(element)) : element;
  }
  Value constant(TypedAttr attr) {
    if (auto vector = dyn_cast<VectorType>(like))
      attr = DenseElementsAttr::get(vector.clone(attr.getType()), Attribute(attr));
    return arith::ConstantOp::create(b, attr);
  }
};

/// exp(x) = 2^n * exp(r), with n the integer nearest to x / ln 2, taken from the
/// low bits of a sum with 1.5 * 2^23, and a polynomial for |r| <= ln 2 / 2 (the
/// coefficients of Cephes' expf). 2^n goes in two factors, so that neither
/// overflows and denormal results round once.
struct ExpPattern : OpRewritePattern<math::ExpOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(math::ExpOp op, PatternRewriter &rewriter) const override {
    if (!getElementTypeOrSelf(op.getType()).isF32())
      return failure();
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    Lanes l{b, op.getType()};
    auto less = arith::CmpFPredicate::OLT;
    // Selects in this form are single instructions and keep NaN.
    Value x = op.getOperand(), low = l.f32(-104.0f), high = l.f32(89.0f);
    x = arith::SelectOp::create(b, arith::CmpFOp::create(b, less, x, low), low, x);
    x = arith::SelectOp::create(b, arith::CmpFOp::create(b, less, high, x), high, x);

    Value magic = l.f32(12582912.0f);
    Value shifted = l.fma(x, l.f32(1.44269504088896341f), magic);
    Value n = arith::SubFOp::create(b, shifted, magic);
    Value r = l.fma(n, l.f32(-0.693359375f), x);
    r = l.fma(n, l.f32(2.12194440e-4f), r);

    Value p = l.f32(1.9875691500e-4f);
    for (float c : {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f,
                    5.0000001201e-1f})
      p = l.fma(p, r, l.f32(c));
    Value square = arith::MulFOp::create(b, r, r);
    Value y = arith::AddFOp::create(b, l.fma(p, square, r), l.f32(1.0f));

    Value whole = arith::SubIOp::create(b, l.asInt(shifted), l.asInt(magic));
    Value half = arith::ShRSIOp::create(b, whole, l.i32(1));
    Value rest = arith::SubIOp::create(b, whole, half);
    for (Value exponent : {half, rest}) {
      Value biased = arith::AddIOp::create(b, exponent, l.i32(127));
      y = arith::MulFOp::create(b, y, l.asFloat(arith::ShLIOp::create(b, biased, l.i32(23))));
    }
    rewriter.replaceOp(op, y);
    return success();
  }
};

/// The estimate instruction of x86 has 12 bits; a root and a division are exact
/// to the last.
struct RsqrtPattern : OpRewritePattern<math::RsqrtOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(math::RsqrtOp op, PatternRewriter &rewriter) const override {
    if (!getElementTypeOrSelf(op.getType()).isF32())
      return failure();
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    Lanes l{b, op.getType()};
    Value root = math::SqrtOp::create(b, op.getOperand());
    rewriter.replaceOp(op, arith::DivFOp::create(b, l.f32(1.0f), root).getResult());
    return success();
  }
};

struct ApproximateMath : impl::ApproximateMathPassBase<ApproximateMath> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<ExpPattern, RsqrtPattern>(&getContext(), /*benefit=*/2);
    populateMathPolynomialApproximationPatterns(patterns, [](StringRef name) {
      return llvm::is_contained({math::LogOp::getOperationName(), math::Log1pOp::getOperationName(),
                                 math::Log2Op::getOperationName(), math::ExpM1Op::getOperationName(),
                                 math::TanhOp::getOperationName(), math::ErfOp::getOperationName()},
                                name);
    });
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace
} // namespace cleave::cpu
