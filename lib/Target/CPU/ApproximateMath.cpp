//===- ApproximateMath.cpp - exp and its like as arithmetic ---------------===//
//
// Library calls would leave vectors and give other bits for vectors than for
// scalars. Our own exp covers the whole range (denormal results, infinities and
// NaN); logarithm, tanh and erf are MLIR's.
//
//===----------------------------------------------------------------------===//

#include "cleave/Target/CPU/KernelCompiler.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace cleave::cpu {
#define GEN_PASS_DECL_APPROXIMATEMATHPASS
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
/// coefficients of Cephes' expf). The sum already holds n with the exponent's bias,
/// so that 2^n is one shift away. From 88.38 on the result is infinite, below
/// -87.7 it is 0; NaN stays NaN.
struct ExpPattern : OpRewritePattern<math::ExpOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(math::ExpOp op, PatternRewriter &rewriter) const override {
    if (!getElementTypeOrSelf(op.getType()).isF32())
      return failure();
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    Lanes l{b, op.getType()};
    auto less = arith::CmpFPredicate::OLT;
    // Selects in this form are single instructions and keep NaN. At the bounds
    // the biased n is 0 and 255: the powers 0 and infinity.
    Value x = op.getOperand(), low = l.f32(-88.0f), high = l.f32(89.0f);
    x = arith::SelectOp::create(b, arith::CmpFOp::create(b, less, x, low), low, x);
    x = arith::SelectOp::create(b, arith::CmpFOp::create(b, less, high, x), high, x);

    Value magic = l.f32(12582912.0f + 127.0f);
    Value biased = l.fma(x, l.f32(1.44269504088896341f), magic);
    Value n = arith::SubFOp::create(b, biased, magic);
    Value r = l.fma(n, l.f32(-0.693359375f), x);
    r = l.fma(n, l.f32(2.12194440e-4f), r);

    Value p = l.f32(1.9875691500e-4f);
    for (float c :
         {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f})
      p = l.fma(p, r, l.f32(c));
    Value square = arith::MulFOp::create(b, r, r);
    Value y = arith::AddFOp::create(b, l.fma(p, square, r), l.f32(1.0f));

    Value power = l.asFloat(arith::ShLIOp::create(b, l.asInt(biased), l.i32(23)));
    rewriter.replaceOp(op, arith::MulFOp::create(b, y, power).getResult());
    return success();
  }
};

/// The larger (or smaller) of two numbers, NaN if one is NaN: the instruction
/// returns its second operand for NaN, so one more select is enough. The sign of
/// a zero is left open.
template <typename Op, arith::CmpFPredicate predicate>
struct ExtremePattern : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;

  LogicalResult matchAndRewrite(Op op, PatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    Value first = op.getLhs(), second = op.getRhs();
    Value picks = arith::CmpFOp::create(b, predicate, first, second);
    Value extreme = arith::SelectOp::create(b, picks, first, second);
    Value nan = arith::CmpFOp::create(b, arith::CmpFPredicate::UNO, first, first);
    rewriter.replaceOp(op, arith::SelectOp::create(b, nan, first, extreme).getResult());
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
  using ApproximateMathPassBase::ApproximateMathPassBase;

  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns
        .add<ExpPattern, RsqrtPattern, ExtremePattern<arith::MaximumFOp, arith::CmpFPredicate::OGT>,
             ExtremePattern<arith::MinimumFOp, arith::CmpFPredicate::OLT>>(&getContext(),
                                                                           /*benefit=*/2);
    populateMathPolynomialApproximationPatterns(patterns, [](StringRef name) {
      return llvm::is_contained({math::LogOp::getOperationName(), math::Log1pOp::getOperationName(),
                                 math::Log2Op::getOperationName(),
                                 math::ExpM1Op::getOperationName(),
                                 math::TanhOp::getOperationName(), math::ErfOp::getOperationName()},
                                name);
    });
    // Before AVX-512's bf16 instructions, LLVM would call a function per element.
    if (!keepBF16Casts)
      arith::populateExpandBFloat16Patterns(patterns);
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace
} // namespace cleave::cpu
