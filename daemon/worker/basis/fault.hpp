// Faults as a job's user reads them: what happened, and what to do about it.
#pragma once

#include <exception>
#include <string>
#include <string_view>

#include "common/result.hpp"

namespace nodestage {

// An Error with an advice.
Error fault(int code, std::string cause, std::string_view advice);

// The advice for EMFILE.
inline constexpr const char* k_raise_open_files =
    "Too few files may be open at once: raise the limit, with `ulimit -n` before nodestage run, or "
    "with LimitNOFILE of nodestaged's service";

// For an archive or an entry with a password; `whose`: "" or "PATH: ".
Error password_fault(std::string whose = {});

// Puts text before, or at the end of, the first line of the cause; the advice stays as it is.
Error with_prefix(Error error, std::string_view prefix);
Error with_suffix(Error error, std::string_view suffix);

// Adds advice to an error that has none yet.
Error with_advice(Error error, std::string_view advice);

// For an exception of a library, at a thread's boundary.
Error thrown(const std::exception& error);

// A path or an entry's name as it is shown: printable and not too long.
std::string shown(std::string_view name);

// The fault of the other threads after one has failed: never shown.
Error stopped();
bool is_stopped(const Error& error);

}  // namespace nodestage
