//===- Nesting.cpp - Texts that nest too deeply ----------------------------===//

#include "cleave/Support/Nesting.h"

#include <algorithm>

using namespace cleave;

std::optional<rt::Where> cleave::findDeepNesting(std::string_view text, const std::string &file) {
  int depth = 0, line = 1;
  size_t lineStart = 0;
  bool inString = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i], before = i ? text[i - 1] : ' ';
    if (c == '\n') {
      ++line;
      lineStart = i + 1;
      inString = false;
    } else if (inString) {
      i += c == '\\';
      inString = c != '"';
    } else if (c == '"') {
      inString = true;
    } else if (c == '/' && before == '/') {
      i = std::min(text.find('\n', i), text.size()) - 1;
    } else if (c == '(' || c == '[' || c == '{' || c == '<') {
      if (++depth > mostNested)
        return rt::Where{file, line, static_cast<int>(i - lineStart) + 1};
    } else if (c == ')' || c == ']' || c == '}' || (c == '>' && before != '-')) {
      depth -= depth > 0;
    }
  }
  return std::nullopt;
}
