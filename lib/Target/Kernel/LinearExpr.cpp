//===- LinearExpr.cpp - index expressions of kernels ----------------------===//

#include "lib/Target/Kernel/LinearExpr.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace cleave::target {

LinearExpr LinearExpr::dim(unsigned id, int64_t coefficient) {
  LinearExpr result;
  if (coefficient != 0)
    result.termList.push_back({id, coefficient});
  return result;
}

int64_t LinearExpr::coefficient(unsigned id) const {
  for (const Term &term : termList)
    if (term.first == id)
      return term.second;
  return 0;
}

bool LinearExpr::isDim(unsigned id) const {
  return constantPart == 0 && termList.size() == 1 && termList[0] == Term(id, 1);
}

LinearExpr LinearExpr::operator+(const LinearExpr &other) const {
  LinearExpr result(constantPart + other.constantPart);
  const Term *a = termList.begin(), *b = other.termList.begin();
  while (a != termList.end() || b != other.termList.end()) {
    if (b == other.termList.end() || (a != termList.end() && a->first < b->first)) {
      result.termList.push_back(*a++);
    } else if (a == termList.end() || b->first < a->first) {
      result.termList.push_back(*b++);
    } else {
      if (int64_t sum = a->second + b->second)
        result.termList.push_back({a->first, sum});
      ++a, ++b;
    }
  }
  return result;
}

LinearExpr LinearExpr::operator*(int64_t factor) const {
  if (factor == 0)
    return LinearExpr();
  LinearExpr result(constantPart * factor);
  for (const Term &term : termList)
    result.termList.push_back({term.first, term.second * factor});
  return result;
}

bool LinearExpr::operator<(const LinearExpr &other) const {
  if (constantPart != other.constantPart)
    return constantPart < other.constantPart;
  return std::lexicographical_compare(termList.begin(), termList.end(), other.termList.begin(),
                                      other.termList.end());
}

LinearExpr LinearExpr::substitute(ArrayRef<LinearExpr> values) const {
  LinearExpr result(constantPart);
  for (const Term &term : termList)
    result = result + values[term.first] * term.second;
  return result;
}

/// `value` divided by `divisor` if no rounding can occur.
static FailureOr<LinearExpr> divideExactly(const LinearExpr &value, int64_t divisor) {
  if (divisor == 0 || value.constant() % divisor != 0)
    return failure();
  LinearExpr result(value.constant() / divisor);
  for (auto [id, coefficient] : value.terms()) {
    if (coefficient % divisor != 0)
      return failure();
    result = result + LinearExpr::dim(id, coefficient / divisor);
  }
  return result;
}

FailureOr<LinearExpr> applyAffine(AffineExpr expr, ArrayRef<LinearExpr> dims) {
  if (auto dim = dyn_cast<AffineDimExpr>(expr))
    return dims[dim.getPosition()];
  if (auto constant = dyn_cast<AffineConstantExpr>(expr))
    return LinearExpr(constant.getValue());
  auto binary = dyn_cast<AffineBinaryOpExpr>(expr);
  if (!binary)
    return failure();
  FailureOr<LinearExpr> lhs = applyAffine(binary.getLHS(), dims);
  FailureOr<LinearExpr> rhs = applyAffine(binary.getRHS(), dims);
  if (failed(lhs) || failed(rhs))
    return failure();
  switch (binary.getKind()) {
  case AffineExprKind::Add:
    return *lhs + *rhs;
  case AffineExprKind::Mul:
    if (rhs->isConstant())
      return *lhs * rhs->constant();
    if (lhs->isConstant())
      return *rhs * lhs->constant();
    return failure();
  case AffineExprKind::FloorDiv:
  case AffineExprKind::CeilDiv:
    if (rhs->isConstant())
      return divideExactly(*lhs, rhs->constant());
    return failure();
  case AffineExprKind::Mod:
    if (rhs->isConstant() && succeeded(divideExactly(*lhs, rhs->constant())))
      return LinearExpr(0);
    return failure();
  default:
    return failure();
  }
}

LinearExpr denseAddress(ArrayRef<int64_t> shape, ArrayRef<LinearExpr> index) {
  LinearExpr address;
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    address = address + index[i] * stride;
    stride *= shape[i];
  }
  return address;
}

} // namespace cleave::target
