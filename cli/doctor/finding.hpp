// Finding: what one check of `nodestage doctor` found, and what to do about it.
#pragma once

#include <string>
#include <utility>

namespace nodestage {

enum class Grade { ok, warning, problem };

struct Finding {
  Grade grade = Grade::ok;
  std::string what;
  std::string to_do;  // "" for `ok`
};

inline Finding ok(std::string what) { return {Grade::ok, std::move(what), ""}; }
inline Finding warning(std::string what, std::string to_do) {
  return {Grade::warning, std::move(what), std::move(to_do)};
}
inline Finding problem(std::string what, std::string to_do) {
  return {Grade::problem, std::move(what), std::move(to_do)};
}

}  // namespace nodestage
