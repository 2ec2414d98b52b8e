// How errors are made and shown.
#include "runtime/Base/Json.h"
#include "runtime/Base/Status.h"

#include <fmt/format.h>

#include <system_error>

namespace cleave::rt {

namespace {

Error makeError(ExitCode code, std::string kind, std::string message) {
  Error error;
  error.kind = std::move(kind);
  error.message = std::move(message);
  error.exitCode = code;
  return error;
}

void writeWhere(JsonWriter &out, const Where &where) {
  if (where.empty()) {
    out.null();
    return;
  }
  out.beginObject();
  out.key("file").value(where.file);
  out.key("line").value(where.line);
  out.key("column").value(where.column);
  out.endObject();
}

void writeTextOrNull(JsonWriter &out, const std::string &text) {
  if (text.empty())
    out.null();
  else
    out.value(text);
}

} // namespace

std::string Where::toString() const {
  if (line == 0)
    return file;
  const std::string name = file.empty() ? "<input>" : file;
  if (column == 0)
    return fmt::format("{}:{}", name, line);
  return fmt::format("{}:{}:{}", name, line, column);
}

Error userError(std::string kind, std::string message) {
  return makeError(ExitCode::User, std::move(kind), std::move(message));
}

Error missingError(std::string kind, std::string message) {
  return makeError(ExitCode::Missing, std::move(kind), std::move(message));
}

Error runError(std::string kind, std::string message) {
  return makeError(ExitCode::Run, std::move(kind), std::move(message));
}

Error internalError(std::string message) {
  return makeError(ExitCode::Internal, "internal", std::move(message));
}

Error systemError(std::string kind, std::string message, int errnoValue) {
  const std::string reason = std::generic_category().message(errnoValue);
  return runError(std::move(kind), fmt::format("{}: {}", message, reason));
}

std::string renderText(const Error &error, bool color) {
  const char *red = color ? "\x1b[1;31m" : "";
  const char *bold = color ? "\x1b[1m" : "";
  const char *reset = color ? "\x1b[0m" : "";
  std::string text;
  if (!error.where.empty())
    text += fmt::format("{}{}: {}", bold, error.where.toString(), reset);
  text += fmt::format("{}error[{}]:{} {}\n", red, error.kind, reset, error.message);
  if (!error.given.empty())
    text += fmt::format("  given: {}\n", error.given);
  if (!error.rule.empty())
    text += fmt::format("  rule: {}\n", error.rule);
  for (const std::string &suggestion : error.suggestions)
    text += fmt::format("  suggestion: {}\n", suggestion);
  for (const Note &note : error.notes) {
    if (note.where.empty())
      text += fmt::format("  note: {}\n", note.message);
    else
      text += fmt::format("{}: note: {}\n", note.where.toString(), note.message);
  }
  return text;
}

std::string renderJson(const Error &error) {
  JsonWriter out;
  out.beginObject().key("error").beginObject();
  out.key("kind").value(error.kind);
  out.key("message").value(error.message);
  out.key("where");
  writeWhere(out, error.where);
  out.key("given");
  writeTextOrNull(out, error.given);
  out.key("rule");
  writeTextOrNull(out, error.rule);
  out.key("suggestions").beginArray();
  for (const std::string &suggestion : error.suggestions)
    out.value(suggestion);
  out.endArray();
  out.key("notes").beginArray();
  for (const Note &note : error.notes) {
    out.beginObject().key("message").value(note.message).key("where");
    writeWhere(out, note.where);
    out.endObject();
  }
  out.endArray();
  out.endObject().endObject();
  return out.take() + "\n";
}

} // namespace cleave::rt
