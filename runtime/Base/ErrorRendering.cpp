// How errors are made and shown.
#include "runtime/Base/Json.h"
#include "runtime/Base/Status.h"

#include <fmt/format.h>

#include <cerrno>
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

/// What a refused system call asks of its user.
struct Advice {
  int errnoValue;
  const char *rule, *suggestion;
};
constexpr Advice advices[] = {
    {ENOENT, "every folder of the path is there, and so is what is read",
     "check the name and the folder that it is in"},
    {ENOTDIR, "every part of the path but the last is a folder", "another path"},
    {EISDIR, "the name is not that of a folder", "a name within that folder"},
    {EACCES, "this user may use what is named", "other permissions, or another place"},
    {EPERM, "this user may use what is named", "other permissions, or another place"},
    {EROFS, "the file system can be written", "another place"},
    {ENOSPC, "the device has room", "free some space, or another device"},
    {EDQUOT, "the user's quota has room", "free some space, or another device"},
    {EFBIG, "a file keeps within the limit of its size (ulimit -f)", "a higher limit"},
    {ELOOP, "links lead to a file", "the path of the file itself"},
    {ENAMETOOLONG, "names keep within the system's limit", "a shorter name"},
    {EMFILE, "the process may open the files that it needs (ulimit -n)", "a higher limit"},
    {ENOMEM, "the machine has the memory that is asked for",
     "a smaller micro-batch, fewer ranks or a larger machine"},
    {ETXTBSY, "no program that runs is written over", "another name"},
    {EEXIST, "the name is free", "another name"},
    {ENOTEMPTY, "the name is free", "another name"},
    {EIO, "the device works", "look at the system's log, or another device"},
};

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
  Error error = runError(std::move(kind), fmt::format("{}: {}", message, reason));
  for (const Advice &advice : advices)
    if (advice.errnoValue == errnoValue) {
      error.rule = advice.rule;
      error.suggestions.push_back(advice.suggestion);
    }
  return error;
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
