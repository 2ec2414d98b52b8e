//===- BodyScalar.h - Arithmetic on the elements of a kernel's body --------===//
//
// Lets a body be written as a formula: a BodyScalar is one f32, i32 or i1 value
// in the region of a linalg operation, and operators on it build arith and math
// operations. Integers are compared and added, floats know everything else.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Builders.h"

namespace cleave {

class BodyScalar {
public:
  BodyScalar(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value)
      : b(&builder), loc(loc), v(value) {}

  mlir::Value value() const { return v; }
  bool isFloat() const { return llvm::isa<mlir::FloatType>(v.getType()); }

  /// A constant of this scalar's type.
  BodyScalar constant(double c) const {
    mlir::TypedAttr attr = isFloat() ? mlir::TypedAttr(b->getFloatAttr(v.getType(), c))
                                     : b->getIntegerAttr(v.getType(), static_cast<int64_t>(c));
    return {*b, loc, mlir::arith::ConstantOp::create(*b, loc, attr)};
  }

  BodyScalar operator+(const BodyScalar &o) const {
    return isFloat() ? make<mlir::arith::AddFOp>(o) : make<mlir::arith::AddIOp>(o);
  }
  BodyScalar operator-(const BodyScalar &o) const {
    return isFloat() ? make<mlir::arith::SubFOp>(o) : make<mlir::arith::SubIOp>(o);
  }
  BodyScalar operator*(const BodyScalar &o) const {
    return isFloat() ? make<mlir::arith::MulFOp>(o) : make<mlir::arith::MulIOp>(o);
  }
  BodyScalar operator/(const BodyScalar &o) const { return make<mlir::arith::DivFOp>(o); }
  BodyScalar operator-() const { return unary<mlir::arith::NegFOp>(); }
  BodyScalar operator+(double c) const { return *this + constant(c); }
  BodyScalar operator-(double c) const { return *this - constant(c); }
  BodyScalar operator*(double c) const { return *this * constant(c); }
  BodyScalar operator/(double c) const { return *this / constant(c); }
  friend BodyScalar operator+(double c, const BodyScalar &s) { return s.constant(c) + s; }
  friend BodyScalar operator-(double c, const BodyScalar &s) { return s.constant(c) - s; }
  friend BodyScalar operator*(double c, const BodyScalar &s) { return s.constant(c) * s; }
  friend BodyScalar operator/(double c, const BodyScalar &s) { return s.constant(c) / s; }

  BodyScalar exp() const { return unary<mlir::math::ExpOp>(); }
  BodyScalar log() const { return unary<mlir::math::LogOp>(); }
  BodyScalar sqrt() const { return unary<mlir::math::SqrtOp>(); }
  BodyScalar rsqrt() const { return unary<mlir::math::RsqrtOp>(); }
  BodyScalar tanh() const { return unary<mlir::math::TanhOp>(); }
  BodyScalar erf() const { return unary<mlir::math::ErfOp>(); }
  BodyScalar nearest() const { return unary<mlir::math::RoundEvenOp>(); }
  BodyScalar max(const BodyScalar &o) const { return make<mlir::arith::MaximumFOp>(o); }
  BodyScalar min(const BodyScalar &o) const { return make<mlir::arith::MinimumFOp>(o); }
  /// this · x + y with one rounding.
  BodyScalar fma(const BodyScalar &x, const BodyScalar &y) const {
    return {*b, loc, mlir::math::FmaOp::create(*b, loc, v, x.v, y.v)};
  }
  /// 1 / (1 + exp(−x)); its limits for large |x| are exact.
  BodyScalar sigmoid() const { return 1.0 / (1.0 + (-*this).exp()); }

  /// An i32 as f32.
  BodyScalar toFloat() const {
    return {*b, loc, mlir::arith::SIToFPOp::create(*b, loc, b->getF32Type(), v)};
  }
  /// An f32 that is a whole number as i32.
  BodyScalar toInteger() const {
    return {*b, loc, mlir::arith::FPToSIOp::create(*b, loc, b->getI32Type(), v)};
  }
  /// An f32 rounded to bf16, to the nearest even.
  BodyScalar toBf16() const {
    return {*b, loc, mlir::arith::TruncFOp::create(*b, loc, b->getBF16Type(), v)};
  }
  /// A bf16 as f32.
  BodyScalar fromBf16() const {
    return {*b, loc, mlir::arith::ExtFOp::create(*b, loc, b->getF32Type(), v)};
  }
  /// An i32 as an index.
  mlir::Value toIndex() const {
    return mlir::arith::IndexCastOp::create(*b, loc, b->getIndexType(), v);
  }

  /// Comparisons, as i1; of floats, false if one is NaN.
  BodyScalar operator<(const BodyScalar &o) const {
    return compare(mlir::arith::CmpFPredicate::OLT, mlir::arith::CmpIPredicate::slt, o);
  }
  BodyScalar operator>(const BodyScalar &o) const { return o < *this; }
  BodyScalar operator>=(const BodyScalar &o) const {
    return compare(mlir::arith::CmpFPredicate::OGE, mlir::arith::CmpIPredicate::sge, o);
  }
  BodyScalar operator==(const BodyScalar &o) const {
    return compare(mlir::arith::CmpFPredicate::OEQ, mlir::arith::CmpIPredicate::eq, o);
  }
  BodyScalar operator<(double c) const { return *this < constant(c); }
  BodyScalar operator>(double c) const { return *this > constant(c); }
  BodyScalar operator>=(double c) const { return *this >= constant(c); }
  BodyScalar operator==(double c) const { return *this == constant(c); }
  BodyScalar both(const BodyScalar &o) const { return make<mlir::arith::AndIOp>(o); }

  /// Of an i1: `yes` where it is set, else `no`.
  BodyScalar select(const BodyScalar &yes, const BodyScalar &no) const {
    return {*b, loc, mlir::arith::SelectOp::create(*b, loc, v, yes.v, no.v)};
  }
  BodyScalar select(const BodyScalar &yes, double no) const {
    return select(yes, yes.constant(no));
  }

private:
  template <typename Op> BodyScalar make(const BodyScalar &o) const {
    return {*b, loc, Op::create(*b, loc, v, o.v)};
  }
  template <typename Op> BodyScalar unary() const { return {*b, loc, Op::create(*b, loc, v)}; }
  BodyScalar compare(mlir::arith::CmpFPredicate f, mlir::arith::CmpIPredicate i,
                     const BodyScalar &o) const {
    if (isFloat())
      return {*b, loc, mlir::arith::CmpFOp::create(*b, loc, f, v, o.v)};
    return {*b, loc, mlir::arith::CmpIOp::create(*b, loc, i, v, o.v)};
  }

  mlir::OpBuilder *b;
  mlir::Location loc;
  mlir::Value v;
};

} // namespace cleave
