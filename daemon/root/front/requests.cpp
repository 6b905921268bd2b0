#include "daemon/root/front/requests.hpp"

#include "daemon/root/basis/refusal_log.hpp"

namespace nodestage {
namespace {

enum class Who {
  root,          // slurmd's and slurmstepd's privileged hooks
  root_or_user,  // root, and the user of the job that the message names
  anyone,        // the handler shows callers only what is theirs
};

struct Caller {
  Jobs& jobs;
  std::uint32_t uid;
  const Reply& reply;
};

Ticket handle(const Caller& caller, const Begin& m) {
  caller.reply(caller.jobs.begin(m));
  return 0;
}
Ticket handle(const Caller& caller, const End& m) { return caller.jobs.end(m, caller.reply); }
Ticket handle(const Caller& caller, const Wait& m) {
  if (m.goes_on < k_looks || caller.uid == 0) return caller.jobs.wait(m, caller.reply);
  caller.reply(
      Refused{RefusalReason::not_permitted, "only slurmstepd may report a step that observes"});
  return 0;
}
Ticket handle(const Caller& caller, const Exited& m) {
  caller.reply(caller.jobs.exited(m));
  return 0;
}
Ticket handle(const Caller& caller, const StatusQuery& m) {
  for (const JobStatus& status : caller.jobs.status(m.job, caller.uid)) {
    caller.reply(status.row);
    for (const StatusItem& item : status.items) caller.reply(item);
  }
  caller.reply(Accepted{});
  return 0;
}

Ticket handle(const Caller& caller, const HeldQuery&) {
  for (const HeldRow& row : caller.jobs.held(caller.uid)) caller.reply(row);
  caller.reply(Accepted{});
  return 0;
}
Ticket handle(const Caller& caller, const Recover& m) {
  return caller.jobs.recover_held(m, caller.reply);
}

Ticket handle(const Caller& caller, const Await& m) { return caller.jobs.await(m, caller.reply); }

Ticket handle(const Caller& caller, const ReportQuery& m) {
  for (std::string& report : caller.jobs.reports(m.job, caller.uid))
    caller.reply(ReportRow{std::move(report)});
  caller.reply(Accepted{});
  return 0;
}

// The uid of the job that a message names.
template <typename T>
std::optional<std::uint32_t> owner_of(const Jobs& jobs, const T& message) {
  return jobs.owner(message.job);
}
std::optional<std::uint32_t> owner_of(const Jobs& jobs, const Recover& message) {
  return jobs.owner_of_held(message);
}

template <typename T>
struct Rule;  // a type without a rule is not a request
template <>
struct Rule<Begin> {
  static constexpr Who k_who = Who::root;
};
template <>
struct Rule<End> {
  static constexpr Who k_who = Who::root;
};
template <>
struct Rule<Wait> {
  static constexpr Who k_who = Who::root_or_user;
};
template <>
struct Rule<Exited> {
  static constexpr Who k_who = Who::root;
};
template <>
struct Rule<StatusQuery> {
  static constexpr Who k_who = Who::anyone;
};
template <>
struct Rule<HeldQuery> {
  static constexpr Who k_who = Who::anyone;
};
template <>
struct Rule<Recover> {
  static constexpr Who k_who = Who::root_or_user;
};

template <>
struct Rule<Await> {
  static constexpr Who k_who = Who::root_or_user;
};

template <>
struct Rule<ReportQuery> {
  static constexpr Who k_who = Who::anyone;
};

template <typename T>
concept Request = requires {
  Rule<T>::k_who;
};

template <Request T>
bool may(const Caller& caller, const T& message) {
  if (Rule<T>::k_who == Who::anyone || caller.uid == 0) return true;
  if constexpr (Rule<T>::k_who == Who::root_or_user)
    return owner_of(caller.jobs, message) == caller.uid;
  return false;
}

Ticket refuse(const Caller& caller, RefusalReason reason, const std::string& what) {
  log_refusal("uid=" + std::to_string(caller.uid), what);
  caller.reply(Refused{reason, what});
  return 0;
}

template <typename T>
Ticket dispatch(const Caller& caller, const T& message) {
  if constexpr (Request<T>) {
    if (may(caller, message)) return handle(caller, message);
    return refuse(caller, RefusalReason::not_permitted, "this user may not send this request");
  } else {
    return refuse(caller, RefusalReason::malformed, "not a request");
  }
}

}  // namespace

Ticket handle_request(Jobs& jobs, std::uint32_t uid, std::string_view packet, const Reply& reply) {
  const Caller caller{jobs, uid, reply};
  const auto message = decode_message(packet);
  if (!message) return refuse(caller, RefusalReason::malformed, message.error().what);
  return std::visit([&caller](const auto& m) { return dispatch(caller, m); }, *message);
}

}  // namespace nodestage
