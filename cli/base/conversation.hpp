// Holds conversations with the daemon and prints errors, for all verbs of the command.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "common/wire/daemon_client.hpp"

namespace nodestage {

inline constexpr std::chrono::seconds k_daemon_wait{10};  // for each message of an answer

inline constexpr int k_fault = 1;
inline constexpr int k_wrong_usage = 2;
inline constexpr int k_no_such_job = 3;

// Print both to stderr; return k_fault and k_wrong_usage.
int fault(const std::string& what, const std::string& to_do);
int wrong_usage(const std::string& what, const std::string& to_do);
int daemon_fault(const std::string& what);

// Sends `request` and passes each message of the answer to on_message until that returns an exit
// code, which is the result. If the daemon does not answer, prints that and returns k_fault.
using OnMessage = std::function<std::optional<int>(const Message&)>;
int converse(const std::string& socket, const Message& request, const OnMessage& on_message);

// Does the same, but the caller reports the fault.
Result<int> exchange(const std::string& socket, const Message& request,
                     const OnMessage& on_message);

}  // namespace nodestage
