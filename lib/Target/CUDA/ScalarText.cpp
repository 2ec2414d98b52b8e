//===- ScalarText.cpp - single operations as C++ expressions --------------===//

#include "ScalarText.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"

using namespace mlir;

namespace cleave::cuda {

std::optional<std::string> typeText(Type type, StringRef indexType) {
  if (type.isF32())
    return "float";
  if (type.isBF16())
    return "bf16";
  if (type.isInteger(32))
    return "int";
  if (type.isInteger(64))
    return "long long";
  if (type.isInteger(1))
    return "bool";
  if (type.isIndex())
    return indexType.str();
  return std::nullopt;
}

static std::string floatLiteral(const APFloat &value) {
  if (!value.isFinite())
    return "__uint_as_float(0x" +
           llvm::utohexstr(value.bitcastToAPInt().getZExtValue(), /*LowerCase=*/true) + "u)";
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%.9g", double(value.convertToFloat()));
  if (text.find_first_of(".e") == std::string::npos)
    text += ".0";
  text += "f";
  return text[0] == '-' ? "(" + text + ")" : text;
}

std::optional<std::string> literalText(Attribute value) {
  if (auto number = dyn_cast<FloatAttr>(value); number && number.getType().isF32())
    return floatLiteral(number.getValue());
  if (auto number = dyn_cast<FloatAttr>(value); number && number.getType().isBF16()) {
    APFloat wide = number.getValue();
    bool losesInfo = false;
    wide.convert(APFloat::IEEEsingle(), APFloat::rmNearestTiesToEven, &losesInfo);
    return "toBf16(" + floatLiteral(wide) + ")";
  }
  auto number = dyn_cast<IntegerAttr>(value);
  if (!number)
    return std::nullopt;
  if (number.getType().isInteger(1))
    return number.getValue().isZero() ? "false" : "true";
  int64_t integer = number.getValue().getSExtValue();
  if (integer == INT32_MIN)
    return "(-2147483647 - 1)";
  if (integer > INT32_MAX || integer < INT32_MIN)
    return std::nullopt;
  return integer < 0 ? "(" + std::to_string(integer) + ")" : std::to_string(integer);
}

/// Expressions with $0, $1, $2 for operands, $T for the result's type.
static StringRef patternOf(StringRef name) {
  static constexpr std::pair<StringLiteral, StringLiteral> patterns[] = {
      {"arith.addf", "$0 + $1"},
      {"arith.subf", "$0 - $1"},
      {"arith.mulf", "$0 * $1"},
      {"arith.divf", "$0 / $1"},
      {"arith.negf", "-$0"},
      {"arith.maximumf", "maximum($0, $1)"},
      {"arith.minimumf", "minimum($0, $1)"},
      {"arith.maxnumf", "fmaxf($0, $1)"},
      {"arith.minnumf", "fminf($0, $1)"},
      {"arith.addi", "$0 + $1"},
      {"arith.subi", "$0 - $1"},
      {"arith.muli", "$0 * $1"},
      {"arith.divsi", "$0 / $1"},
      {"arith.remsi", "$0 % $1"},
      {"arith.andi", "$0 & $1"},
      {"arith.ori", "$0 | $1"},
      {"arith.xori", "$0 ^ $1"},
      {"arith.maxsi", "$0 > $1 ? $0 : $1"},
      {"arith.minsi", "$0 < $1 ? $0 : $1"},
      {"arith.select", "$0 ? $1 : $2"},
      {"arith.sitofp", "$T($0)"},
      {"arith.fptosi", "$T($0)"},
      {"arith.index_cast", "$T($0)"},
      {"arith.extui", "$T($0)"},
      {"arith.extf", "toFloat($0)"},
      {"arith.truncf", "toBf16($0)"},
      {"math.fma", "fmaf($0, $1, $2)"},
      {"math.exp", "expf($0)"},
      {"math.exp2", "exp2f($0)"},
      {"math.expm1", "expm1f($0)"},
      {"math.log", "logf($0)"},
      {"math.log2", "log2f($0)"},
      {"math.log1p", "log1pf($0)"},
      {"math.sqrt", "sqrtf($0)"},
      {"math.rsqrt", "rsqrtf($0)"},
      {"math.tanh", "tanhf($0)"},
      {"math.erf", "erff($0)"},
      {"math.sin", "sinf($0)"},
      {"math.cos", "cosf($0)"},
      {"math.powf", "powf($0, $1)"},
      {"math.absf", "fabsf($0)"},
      {"math.floor", "floorf($0)"},
      {"math.ceil", "ceilf($0)"},
      {"math.roundeven", "rintf($0)"},
  };
  for (auto [op, pattern] : patterns)
    if (op == name)
      return pattern;
  return "";
}

static StringRef comparisonOf(arith::CmpIPredicate predicate) {
  using enum arith::CmpIPredicate;
  switch (predicate) {
  case eq:
    return "$0 == $1";
  case ne:
    return "$0 != $1";
  case slt:
    return "$0 < $1";
  case sle:
    return "$0 <= $1";
  case sgt:
    return "$0 > $1";
  case sge:
    return "$0 >= $1";
  default:
    return ""; // unsigned: no kernel has it
  }
}

/// Ordered comparisons are false if a NaN is compared, unordered ones true.
static StringRef comparisonOf(arith::CmpFPredicate predicate) {
  using enum arith::CmpFPredicate;
  switch (predicate) {
  case OEQ:
    return "$0 == $1";
  case ONE:
    return "$0 < $1 || $0 > $1";
  case OLT:
    return "$0 < $1";
  case OLE:
    return "$0 <= $1";
  case OGT:
    return "$0 > $1";
  case OGE:
    return "$0 >= $1";
  case ORD:
    return "$0 == $0 && $1 == $1";
  case UEQ:
    return "!($0 < $1 || $0 > $1)";
  case UNE:
    return "$0 != $1";
  case ULT:
    return "!($0 >= $1)";
  case ULE:
    return "!($0 > $1)";
  case UGT:
    return "!($0 <= $1)";
  case UGE:
    return "!($0 < $1)";
  case UNO:
    return "$0 != $0 || $1 != $1";
  default:
    return "";
  }
}

std::optional<std::string> expressionText(Operation *op, ArrayRef<std::string> operands,
                                          StringRef indexType) {
  StringRef pattern;
  if (auto compare = dyn_cast<arith::CmpIOp>(op))
    pattern = comparisonOf(compare.getPredicate());
  else if (auto compare = dyn_cast<arith::CmpFOp>(op))
    pattern = comparisonOf(compare.getPredicate());
  else
    pattern = patternOf(op->getName().getStringRef());
  if (pattern.empty() || op->getNumResults() != 1)
    return std::nullopt;
  // Only storage changes to and from bf16 go through it.
  for (Type type : op->getOperandTypes())
    if (type.isBF16() && !isa<arith::ExtFOp, arith::SelectOp>(op))
      return std::nullopt;
  std::optional<std::string> type = typeText(op->getResult(0).getType(), indexType);
  if (!type)
    return std::nullopt;
  std::string text;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '$')
      text += pattern[i];
    else if (char which = pattern[++i]; which == 'T')
      text += *type;
    else
      text += operands[which - '0'];
  }
  return text;
}

std::optional<CombinerText> combinerText(Operation *combiner) {
  const std::string minusInfinity = "__uint_as_float(0xff800000u)";
  const std::string infinity = "__uint_as_float(0x7f800000u)";
  StringRef name = combiner->getName().getStringRef();
  // -0 + x is x for every x; 0 + -0 is not -0.
  if (name == "arith.addf" || name == "math.fma")
    return CombinerText{"Sum", "-0.0f"};
  if (name == "arith.mulf")
    return CombinerText{"Product", "1.0f"};
  if (name == "arith.maximumf")
    return CombinerText{"Maximum", minusInfinity};
  if (name == "arith.minimumf")
    return CombinerText{"Minimum", infinity};
  if (name == "arith.maxnumf")
    return CombinerText{"MaximumNumber", minusInfinity};
  if (name == "arith.minnumf")
    return CombinerText{"MinimumNumber", infinity};
  if (!combiner->getResult(0).getType().isInteger(32))
    return std::nullopt;
  if (name == "arith.addi")
    return CombinerText{"Sum", "0"};
  if (name == "arith.muli")
    return CombinerText{"Product", "1"};
  if (name == "arith.maxsi")
    return CombinerText{"Maximum", "(-2147483647 - 1)"};
  if (name == "arith.minsi")
    return CombinerText{"Minimum", "2147483647"};
  if (name == "arith.ori")
    return CombinerText{"Or", "0"};
  if (name == "arith.andi")
    return CombinerText{"And", "(-1)"};
  return std::nullopt;
}

} // namespace cleave::cuda
