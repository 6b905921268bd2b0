#include "cli/base/conversation.hpp"

#include <cstdio>

#include "common/text/human.hpp"

namespace nodestage {

int fault(const std::string& what, const std::string& to_do) {
  std::fprintf(stderr, "nodestage: %s\n%s\n", printable(what, Newlines::keep).c_str(),
               to_do.c_str());
  return k_fault;
}

int wrong_usage(const std::string& what, const std::string& to_do) {
  fault(what, to_do);
  return k_wrong_usage;
}

int daemon_fault(const std::string& what) {
  return fault(what,
               "On a compute node, tell your administrators (systemctl status nodestaged); a login "
               "node has no daemon.");
}

int converse(const std::string& socket, const Message& request, const OnMessage& on_message) {
  const auto code = exchange(socket, request, on_message);
  return code ? *code : daemon_fault(code.error().text());
}

Result<int> exchange(const std::string& socket, const Message& request,
                     const OnMessage& on_message) {
  auto daemon = DaemonConnection::open(socket);
  if (!daemon)
    return Error{daemon.error().code,
                 "nodestaged does not answer on this host: " + daemon.error().text()};
  TRY(daemon->send(request, Clock::now() + k_daemon_wait));
  for (;;) {
    TRY_ASSIGN(const Message message, daemon->receive(Clock::now() + k_daemon_wait));
    if (const auto code = on_message(message)) return *code;
  }
}

}  // namespace nodestage
