//===- KernelText.h - short notation for kernels in tests -------*- C++ -*-===//
//
// Writes the MLIR text of a kernel function from a few lines, so that tests and
// benchmarks show what a kernel computes and not how linalg spells it:
//
//   KernelText k(rows);
//   k.input("x", {rows, cols}).output("y", {rows, cols});
//   k.generic("t", {rows, cols}, "r c", "pp", {{"x", "r c"}}, {"y", "r c"},
//             "e = exp a0; yield e");
//   k.returns({"t"});
//
// In a body `a0`, `a1`... are the operands' elements and `o` is the old element of
// the output. Lines beginning with % are MLIR as it stands.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace cleave::test {

class KernelText {
public:
  using Shape = std::vector<int64_t>;
  using Access = std::pair<std::string, std::string>; ///< a value and its indices

  explicit KernelText(int64_t space) : space(space) {}

  KernelText &input(const std::string &name, Shape shape, std::string element = "f32") {
    declare(name, std::move(shape), std::move(element));
    args.push_back(name);
    return *this;
  }
  KernelText &output(const std::string &name, Shape shape, std::string element = "f32") {
    input(name, std::move(shape), std::move(element));
    ++outputs;
    return *this;
  }
  /// A scalar constant.
  KernelText &constant(const std::string &name, const std::string &value) {
    body << "  %" << name << " = arith.constant " << value << " : f32\n";
    return *this;
  }
  /// A tensor full of one number, to start a reduction from.
  KernelText &fill(const std::string &name, Shape shape, const std::string &value) {
    declare(name, std::move(shape), "f32");
    constant(name + "_v", value);
    body << "  %" << name << "_e = tensor.empty() : " << type(name) << "\n  %" << name
         << " = linalg.fill ins(%" << name << "_v : f32) outs(%" << name << "_e : " << type(name)
         << ") -> " << type(name) << "\n";
    return *this;
  }
  KernelText &empty(const std::string &name, Shape shape) {
    declare(name, std::move(shape), "f32");
    body << "  %" << name << " = tensor.empty() : " << type(name) << "\n";
    return *this;
  }
  /// `kinds` has one letter per loop: p (parallel) or r (reduction).
  KernelText &generic(const std::string &name, Shape shape, const std::string &loops,
                      const std::string &kinds, const std::vector<Access> &ins, const Access &out,
                      const std::string &code, const std::string &element = "f32") {
    declare(name, std::move(shape), element);
    body << "  %" << name << " = linalg.generic {indexing_maps = [";
    for (const Access &in : ins)
      body << map(loops, in.second) << ", ";
    body << map(loops, out.second) << "], iterator_types = [";
    for (size_t i = 0; i < kinds.size(); ++i)
      body << (i ? ", " : "") << (kinds[i] == 'p' ? "\"parallel\"" : "\"reduction\"");
    body << "]}";
    if (!ins.empty()) {
      body << " ins(";
      list(ins, [&](const Access &in) { return "%" + in.first; });
      body << " : ";
      list(ins, [&](const Access &in) { return type(in.first); });
      body << ")";
    }
    body << " outs(%" << out.first << " : " << type(out.first) << ") {\n    ^bb0(";
    for (size_t i = 0; i < ins.size(); ++i)
      body << "%a" << i << ": " << elements[ins[i].first] << ", ";
    body << "%o: " << element << "):\n" << statements(code) << "  } -> " << type(name) << "\n";
    return *this;
  }
  /// Any other operation that makes the tensor `name`; `%` names as in MLIR.
  KernelText &raw(const std::string &name, Shape shape, const std::string &line,
                  const std::string &element = "f32") {
    declare(name, std::move(shape), element);
    body << "  " << line << "\n";
    return *this;
  }
  void returns(std::vector<std::string> names) { results = std::move(names); }

  std::string type(const std::string &name) const {
    std::string text = "tensor<";
    for (int64_t extent : shapes.at(name))
      text += std::to_string(extent) + "x";
    return text + elements.at(name) + ">";
  }

  std::string text(const std::string &function = "k") const {
    std::ostringstream out;
    out << "func.func @" << function << "(";
    for (size_t i = 0; i < args.size(); ++i)
      out << (i ? ", " : "") << "%" << args[i] << ": " << type(args[i]);
    out << ") -> (";
    for (size_t i = 0; i < results.size(); ++i)
      out << (i ? ", " : "") << type(results[i]);
    out << ") attributes {cleave.outputs = " << outputs << " : i64, cleave.space = " << space
        << " : i64} {\n"
        << body.text << "  return ";
    for (size_t i = 0; i < results.size(); ++i)
      out << (i ? ", " : "") << "%" << results[i];
    out << " : ";
    for (size_t i = 0; i < results.size(); ++i)
      out << (i ? ", " : "") << type(results[i]);
    out << "\n}\n";
    return out.str();
  }

private:
  /// Text that can be copied with the kernel.
  struct Stream {
    std::string text;
    template <typename T> Stream &operator<<(const T &part) {
      std::ostringstream out;
      out << part;
      text += out.str();
      return *this;
    }
  };

  void declare(const std::string &name, Shape shape, std::string element) {
    shapes[name] = std::move(shape);
    elements[name] = std::move(element);
  }
  template <typename F> void list(const std::vector<Access> &ins, F &&text) {
    for (size_t i = 0; i < ins.size(); ++i)
      body << (i ? ", " : "") << text(ins[i]);
  }
  /// "r c", "r 1-c" as an affine map: commas for blanks.
  static std::string map(const std::string &loops, const std::string &indices) {
    auto commas = [](std::string text) {
      for (size_t at = text.find(' '); at != std::string::npos; at = text.find(' ', at + 2))
        text.replace(at, 1, ", ");
      return text;
    };
    return "affine_map<(" + commas(loops) + ") -> (" + commas(indices) + ")>";
  }
  /// "t = mulf a0 a1; yield t" as MLIR.
  static std::string statements(const std::string &code) {
    static const std::set<std::string> math = {"exp",  "log", "rsqrt", "sqrt",
                                               "tanh", "erf", "absf",  "log1p"};
    std::string result;
    std::istringstream lines(code);
    for (std::string line; std::getline(lines, line, ';');) {
      std::istringstream words(line);
      std::string first, word;
      words >> first;
      if (first.empty())
        continue;
      if (first[0] == '%') {
        result += "      " + line + "\n";
        continue;
      }
      if (first == "yield") {
        words >> word;
        result += "      linalg.yield %" + word;
        result += " : " + (words >> word ? word : std::string("f32")) + "\n";
        continue;
      }
      std::string equals, op;
      words >> equals >> op;
      if (op == "constant") {
        words >> word;
        result += "      %" + first + " = arith.constant " + word + " : f32\n";
        continue;
      }
      result += "      %" + first + " = " + (math.count(op) ? "math." : "arith.") + op + " ";
      for (bool comma = false; words >> word; comma = true)
        result += (comma ? ", %" : "%") + word;
      result += " : f32\n";
    }
    return result;
  }

  int64_t space;
  int64_t outputs = 0;
  std::vector<std::string> args, results;
  std::map<std::string, Shape> shapes;
  std::map<std::string, std::string> elements;
  Stream body;
};

} // namespace cleave::test
