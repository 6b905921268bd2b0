#include "daemon/root/front/requests.hpp"

#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "daemon/root/basis/log.hpp"

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

// ---- what answers each kind

// Accepted is said of what is durable alone.
Ticket on_begin(const Caller& caller, const Begin& m) {
  Message answer = caller.jobs.begin(m);
  caller.jobs.then([&jobs = caller.jobs, reply = caller.reply, key = JobKey{m.job, m.restart},
                    said = std::move(answer)] {
    const auto why = jobs.unsaved(key);
    if (why && std::holds_alternative<Accepted>(said))
      return reply(Refused{RefusalReason::fault, "the journal cannot be written: " + *why});
    reply(said);
  });
  return 0;
}

Ticket on_end(const Caller& caller, const End& m) { return caller.jobs.end(m, caller.reply); }

Ticket on_wait(const Caller& caller, const Wait& m) {
  if (m.goes_on < k_looks || caller.uid == 0) return caller.jobs.wait(m, caller.reply);
  caller.reply(
      Refused{RefusalReason::not_permitted, "only slurmstepd may report a step that observes"});
  return 0;
}

Ticket on_exited(const Caller& caller, const Exited& m) {
  caller.reply(caller.jobs.exited(m));
  return 0;
}

Ticket on_status(const Caller& caller, const StatusQuery& m) {
  for (const JobStatus& status : caller.jobs.status(m.job, caller.uid)) {
    caller.reply(status.row);
    for (const StatusItem& item : status.items) caller.reply(item);
  }
  caller.reply(Accepted{});
  return 0;
}

Ticket on_held(const Caller& caller, const HeldQuery&) {
  for (const HeldRow& row : caller.jobs.held(caller.uid)) caller.reply(row);
  caller.reply(Accepted{});
  return 0;
}

Ticket on_recover(const Caller& caller, const Recover& m) {
  return caller.jobs.recover_held(m, caller.reply);
}

Ticket on_await(const Caller& caller, const Await& m) { return caller.jobs.await(m, caller.reply); }

Ticket on_report(const Caller& caller, const ReportQuery& m) {
  for (std::string& report : caller.jobs.reports(m.job, caller.uid))
    caller.reply(ReportRow{std::move(report)});
  caller.reply(Accepted{});
  return 0;
}

Ticket on_cache(const Caller& caller, const CacheQuery&) {
  for (const CacheRow& row : caller.jobs.cache(caller.uid)) caller.reply(row);
  caller.reply(Accepted{});
  return 0;
}

Ticket on_drop(const Caller& caller, const CacheDrop& m) {
  for (const CacheRow& row : caller.jobs.drop(caller.uid, m.names)) caller.reply(row);
  caller.reply(Accepted{});
  return 0;
}

Ticket on_push(const Caller& caller, const Push& m) { return caller.jobs.push(m, caller.reply); }

Ticket on_place(const Caller& caller, const PlaceQuery& m) {
  caller.reply(caller.jobs.place(m));
  return 0;
}

// ---- who may ask what

// When an answer is sent: at once, or when what the daemon noted of the jobs is durable.
enum class Sent { at_once, durable };

template <typename T>
struct Rule {
  Who who;
  Sent sent;
  Ticket (*handler)(const Caller&, const T&);
};

// The allow-list: a kind that is not here is no request.
// clang-format off
constexpr std::tuple k_rules{
    //   kind          who may             answered        handler
    Rule<Begin>      {Who::root,          Sent::durable,  on_begin},
    Rule<End>        {Who::root,          Sent::durable,  on_end},
    Rule<Wait>       {Who::root_or_user,  Sent::durable,  on_wait},  // of looks: root alone
    Rule<Exited>     {Who::root,          Sent::durable,  on_exited},
    Rule<StatusQuery>{Who::anyone,        Sent::at_once,  on_status},
    Rule<HeldQuery>  {Who::anyone,        Sent::at_once,  on_held},
    Rule<Recover>    {Who::root_or_user,  Sent::durable,  on_recover},
    Rule<Await>      {Who::root_or_user,  Sent::at_once,  on_await},
    Rule<ReportQuery>{Who::anyone,        Sent::at_once,  on_report},
    Rule<CacheQuery> {Who::anyone,        Sent::at_once,  on_cache},
    Rule<CacheDrop>  {Who::anyone,        Sent::at_once,  on_drop},
    Rule<Push>       {Who::root_or_user,  Sent::at_once,  on_push},
    Rule<PlaceQuery> {Who::root,          Sent::at_once,  on_place},
};
// clang-format on

template <typename T, typename... Kinds>
constexpr bool has_rule(const std::tuple<Rule<Kinds>...>&) {
  return (std::is_same_v<T, Kinds> || ...);
}

// Of the job, or of the held run, that a message names.
template <typename T>
std::optional<std::uint32_t> owner_of(const Jobs& jobs, const T& message) {
  if constexpr (std::is_same_v<T, Recover>) {
    return jobs.owner_of_held(message);
  } else if constexpr (std::is_same_v<T, HeldQuery> || std::is_same_v<T, CacheQuery> ||
                       std::is_same_v<T, CacheDrop>) {
    return {};  // it names none
  } else {
    return jobs.owner(message.job);
  }
}

template <typename T>
bool may(const Caller& caller, const T& message, Who who) {
  switch (who) {
    case Who::root:
      return caller.uid == 0;
    case Who::root_or_user:
      return caller.uid == 0 || owner_of(caller.jobs, message) == caller.uid;
    case Who::anyone:
      return true;
  }
  return false;
}

Ticket refuse(const Caller& caller, RefusalReason reason, const std::string& what) {
  log_refusal("uid=" + std::to_string(caller.uid), what);
  caller.reply(Refused{reason, what});
  return 0;
}

Reply reply_of(const Caller& caller, Sent sent) {
  if (sent == Sent::at_once) return caller.reply;
  return [&jobs = caller.jobs, reply = caller.reply](const Message& message) {
    if (std::holds_alternative<Progress>(message)) return reply(message);
    jobs.then([reply, message] { reply(message); });
  };
}

template <typename T>
Ticket dispatch(const Caller& caller, const T& message) {
  if constexpr (has_rule<T>(k_rules)) {
    const auto& rule = std::get<Rule<T>>(k_rules);
    if (may(caller, message, rule.who))
      return rule.handler({caller.jobs, caller.uid, reply_of(caller, rule.sent)}, message);
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
