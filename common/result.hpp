// Results and faults.
//
// A function that can fail returns Result<T> (or Status). An Error is a *fault*: it is forwarded
// unchanged with TRY and logged or shown once, at the top of the program. A *refusal*, which the
// caller must handle, is an enum of the function that refuses, never an Error.
#pragma once

#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace nodestage {

// `code` is an errno value where the cause has one, else 0. `what` is a sentence without a final
// full stop that names the object and the cause; it may be shown to a user. `advice`, if it
// is not empty, says what to do about it. `lines`, each after a '\n', show what is wrong: what a
// program has printed last, or the text with a mark below.
struct Error {
  int code = 0;
  std::string what;
  std::string advice;
  std::string lines;

  // The text to show: the cause, the lines, and the advice on a line of its own.
  [[nodiscard]] std::string text() const {
    return what + lines + (advice.empty() ? "" : "\n") + advice;
  }
};

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  explicit operator bool() const { return state_.index() == 0; }
  T& value() { return std::get<0>(state_); }
  const T& value() const { return std::get<0>(state_); }
  T& operator*() { return value(); }
  const T& operator*() const { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  Error& error() { return std::get<1>(state_); }
  const Error& error() const { return std::get<1>(state_); }

 private:
  std::variant<T, Error> state_;
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Error error) : error_(std::move(error)) {}

  explicit operator bool() const { return !error_; }
  Error& error() { return *error_; }
  const Error& error() const { return *error_; }

 private:
  std::optional<Error> error_;
};

// "WHAT: No such file or directory" with errno's value (or the one given) as its code.
inline Error system_error(std::string what, int code = errno) {
  what += ": ";
  what += std::strerror(code);
  return Error{code, std::move(what)};
}

}  // namespace nodestage

#define NODESTAGE_JOIN_(a, b) a##b
#define NODESTAGE_JOIN(a, b) NODESTAGE_JOIN_(a, b)

// Forwards the fault of a Status or Result whose value is not needed.
#define TRY(expression)                                \
  do {                                                 \
    if (auto try_result = (expression); !try_result) { \
      return std::move(try_result.error());            \
    }                                                  \
  } while (false)

// TRY_ASSIGN(auto fd, open_file(path)): forwards the fault or assigns the value.
#define TRY_ASSIGN(target, expression) \
  TRY_ASSIGN_(NODESTAGE_JOIN(try_result_, __LINE__), target, expression)
#define TRY_ASSIGN_(result, target, expression) \
  auto result = (expression);                   \
  if (!result) {                                \
    return std::move(result.error());           \
  }                                             \
  target = std::move(result.value())
