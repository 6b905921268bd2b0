// Asks file systems that may not answer.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

namespace nodestage {

// How long a user who submits waits: long for a file system that answers.
inline constexpr std::chrono::seconds k_ask_patience{3};

// Returns what `question` returns, at most 64 KiB of it. It is asked in a process of its own, so a
// file system that hangs keeps this process waiting for no longer than `limit`; without an answer
// by then, the result is empty. A process that hangs is left to itself: it holds no descriptor of
// this one and is not its child. `question` must not throw, nor use threads of this process.
std::optional<std::string> ask_apart(std::chrono::milliseconds limit,
                                     const std::function<std::string()>& question);

}  // namespace nodestage
