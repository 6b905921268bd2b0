// What the verbs of the command share: how they reach the daemon, and how they fail.
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

// Prints both to stderr; k_fault, k_wrong_usage.
int fault(const std::string& what, const std::string& to_do);
int wrong_usage(const std::string& what, const std::string& to_do);
int daemon_fault(const std::string& what);

// Sends `request` and hands over each message of the answer until on_message gives an exit code,
// which is returned; k_fault, told, when the daemon does not answer.
using OnMessage = std::function<std::optional<int>(const Message&)>;
int converse(const std::string& socket, const Message& request, const OnMessage& on_message);

// The same, where the fault is the caller's to tell.
Result<int> exchange(const std::string& socket, const Message& request,
                     const OnMessage& on_message);

}  // namespace nodestage
