// How every part of the runtime (and the readers the compiler shares with it)
// reports failure: an `Error` says what went wrong in terms a user can act on,
// a `Status` is success or one error, a `StatusOr<T>` is a value or one error.
//
// An error has one stable *kind* for each cause ("data.truncated"), a message,
// the place in a file where there is one, what was given, the rule it broke and
// values that would work. `renderText` and `renderJson` are the only two forms
// it is shown in. This is not a logging facility, and nothing here throws:
// exceptions may be used inside a module but do not cross its API.
#pragma once

#include <cassert>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cleave::rt {

/// What the process answers with; the numbers are part of the user's reference.
enum class ExitCode : int {
  Done = 0,
  /// The user's input or request.
  User = 2,
  /// A needed device or library is missing here.
  Missing = 3,
  /// A run that failed at run time: rank lost, NaN guard, I/O.
  Run = 4,
  /// A mistake of ours.
  Internal = 70,
  /// Stopped before the requested steps were done, even if it saved cleanly.
  Interrupted = 130,
};

/// A place in a file. Lines and columns count from 1, columns in bytes;
/// 0 means "the file as a whole", an empty file name "no file".
struct Where {
  std::string file;
  int line = 0;
  int column = 0;

  /// "file", "file:line" or "file:line:column"; empty without a file.
  std::string toString() const;
  bool empty() const { return file.empty() && line == 0; }
};

/// A remark on another party to an error.
struct Note {
  Where where;
  std::string message;
};

/// One failure. Built in one expression:
///   return userError("data.empty", "the token file has no tokens").at(where).ruled("…");
struct [[nodiscard]] Error {
  std::string kind;
  std::string message;
  Where where;
  std::string given;
  std::string rule;
  std::vector<std::string> suggestions;
  std::vector<Note> notes;
  ExitCode exitCode = ExitCode::User;

  Error at(Where place) && {
    where = std::move(place);
    return std::move(*this);
  }
  /// The offending value, as the user wrote it.
  Error withGiven(std::string text) && {
    given = std::move(text);
    return std::move(*this);
  }
  /// The rule that was broken, as a sentence that holds for every input.
  Error withRule(std::string text) && {
    rule = std::move(text);
    return std::move(*this);
  }
  /// A value or an action that would work. May be called several times.
  Error suggest(std::string text) && {
    suggestions.push_back(std::move(text));
    return std::move(*this);
  }
  Error note(std::string text, Where place = {}) && {
    notes.push_back({std::move(place), std::move(text)});
    return std::move(*this);
  }
};

/// The user's input or request is at fault (exit 2).
Error userError(std::string kind, std::string message);
/// A needed device or library is missing here (exit 3).
Error missingError(std::string kind, std::string message);
/// The run failed: I/O, a lost rank, a NaN (exit 4).
Error runError(std::string kind, std::string message);
/// A mistake of ours (exit 70).
Error internalError(std::string message);
/// A failed system call: appends the text of `errnoValue` to `message` (exit 4).
Error systemError(std::string kind, std::string message, int errnoValue);

/// `file:line:col: error[kind]: message`, then a line each for what was given,
/// the rule, every suggestion and every note; ends with a newline. `color` adds
/// terminal escapes.
std::string renderText(const Error &error, bool color = false);
/// One line: {"error": {"kind", "message", "where", "given", "rule",
/// "suggestions", "notes"}}; absent parts are null or empty lists.
std::string renderJson(const Error &error);

/// Success, or one error. Cheap to copy: the error is shared and immutable, so
/// the first error of a group of ranks can be handed to all of them.
class [[nodiscard]] Status {
public:
  Status() = default;
  Status(Error error) : failure(std::make_shared<const Error>(std::move(error))) {}

  static Status success() { return {}; }
  bool ok() const { return !failure; }
  explicit operator bool() const = delete; // reads ambiguously; say ok()
  const Error &error() const {
    assert(failure && "no error in a successful status");
    return *failure;
  }

private:
  std::shared_ptr<const Error> failure;
};

/// A value, or the error that prevented it.
template <typename T> class [[nodiscard]] StatusOr {
public:
  StatusOr(T result) : held(std::move(result)) {}
  StatusOr(Error error) : failure(std::move(error)) {}
  StatusOr(Status status) : failure(std::move(status)) {
    assert(!failure.ok() && "a StatusOr without a value needs an error");
  }

  bool ok() const { return held.has_value(); }
  const Status &status() const { return failure; }
  const Error &error() const { return failure.error(); }

  T &value() & {
    assert(held && "value() of a failed StatusOr");
    return *held;
  }
  const T &value() const & {
    assert(held && "value() of a failed StatusOr");
    return *held;
  }
  T &&value() && {
    assert(held && "value() of a failed StatusOr");
    return std::move(*held);
  }
  T &operator*() & { return value(); }
  const T &operator*() const & { return value(); }
  T &&operator*() && { return std::move(*this).value(); }
  T *operator->() { return &value(); }
  const T *operator->() const { return &value(); }

private:
  std::optional<T> held;
  Status failure;
};

} // namespace cleave::rt

#define CLEAVE_RT_CONCAT_(a, b) a##b
#define CLEAVE_RT_CONCAT(a, b) CLEAVE_RT_CONCAT_(a, b)

/// Returns from the enclosing function if `expr`, a Status, is an error.
#define CLEAVE_RT_RETURN_IF_ERROR(expr)                                                            \
  do {                                                                                             \
    if (::cleave::rt::Status cleaveStatus = (expr); !cleaveStatus.ok())                            \
      return cleaveStatus;                                                                         \
  } while (false)

/// `CLEAVE_RT_ASSIGN_OR_RETURN(auto x, f());` with `f` returning a StatusOr.
#define CLEAVE_RT_ASSIGN_OR_RETURN(lhs, expr)                                                      \
  CLEAVE_RT_ASSIGN_OR_RETURN_(CLEAVE_RT_CONCAT(cleaveStatusOr, __LINE__), lhs, expr)
#define CLEAVE_RT_ASSIGN_OR_RETURN_(temp, lhs, expr)                                               \
  auto temp = (expr);                                                                              \
  if (!temp.ok())                                                                                  \
    return temp.status();                                                                          \
  lhs = std::move(temp).value()
