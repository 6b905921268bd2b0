#include "daemon/root/front/requests.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "daemon/root/basis/log.hpp"

namespace nodestage {
namespace {

struct Caller {
  Jobs& jobs;
  std::uint32_t uid;
  const Reply& reply;
  std::vector<Fd>& descriptors;
};

// ---- what answers each kind

// Accepted is said of what is durable alone.
Ticket handle(const Caller& caller, const Begin& m) {
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

Ticket handle(const Caller& caller, const End& m) { return caller.jobs.end(m, caller.reply); }

Ticket handle(const Caller& caller, const Wait& m) {
  if (m.goes_on < k_looks || caller.uid == 0) return caller.jobs.wait(m, caller.reply);
  return answered(caller.reply, Refused{RefusalReason::not_permitted,
                                        "only slurmstepd may report a step that observes"});
}

Ticket handle(const Caller& caller, const Exited& m) {
  return answered(caller.reply, caller.jobs.exited(m));
}

Ticket handle(const Caller& caller, const StatusQuery& m) {
  for (const JobStatus& status : caller.jobs.status(m.job, caller.uid)) {
    caller.reply(status.row);
    for (const StatusItem& item : status.items) caller.reply(item);
  }
  return answered(caller.reply, Accepted{});
}

Ticket handle(const Caller& caller, const HeldQuery&) {
  for (const HeldRow& row : caller.jobs.held(caller.uid)) caller.reply(row);
  return answered(caller.reply, Accepted{});
}

Ticket handle(const Caller& caller, const Recover& m) {
  return caller.jobs.recover_held(m, caller.reply);
}

Ticket handle(const Caller& caller, const Await& m) { return caller.jobs.await(m, caller.reply); }

Ticket handle(const Caller& caller, const ReportQuery& m) {
  for (std::string& report : caller.jobs.reports(m.job, caller.uid))
    caller.reply(ReportRow{std::move(report)});
  return answered(caller.reply, Accepted{});
}

Ticket handle(const Caller& caller, const CacheQuery&) {
  for (const CacheRow& row : caller.jobs.cache(caller.uid)) caller.reply(row);
  return answered(caller.reply, Accepted{});
}

Ticket handle(const Caller& caller, const CacheDrop& m) {
  for (const CacheRow& row : caller.jobs.drop(caller.uid, m.names)) caller.reply(row);
  return answered(caller.reply, Accepted{});
}

Ticket handle(const Caller& caller, const Push& m) { return caller.jobs.push(m, caller.reply); }

Ticket handle(const Caller& caller, const PlaceQuery& m) {
  return answered(caller.reply, caller.jobs.place(m));
}

Ticket handle(const Caller& caller, const ImagesMounted& m) {
  return answered(caller.reply, caller.jobs.mounted(m, std::move(caller.descriptors)));
}

// Of the job, or of the held run, that a message names.
template <typename T>
std::optional<std::uint32_t> owner_of(const Jobs& jobs, const T& message) {
  if constexpr (std::is_same_v<T, Recover>)
    return jobs.owner_of_held(message);
  else if constexpr (requires { message.job; })
    return jobs.owner(message.job);
  else
    return {};  // it names none
}

template <typename T>
bool may(const Caller& caller, const T& message, Sender sender) {
  switch (sender) {
    case Sender::root:
      return caller.uid == 0;
    case Sender::root_or_user:
      return caller.uid == 0 || owner_of(caller.jobs, message) == caller.uid;
    case Sender::anyone:
      return true;
  }
  return false;
}

Ticket refuse(const Caller& caller, RefusalReason reason, const std::string& what) {
  log_refusal("uid=" + std::to_string(caller.uid), what);
  return answered(caller.reply, Refused{reason, what});
}

Reply reply_of(const Caller& caller, Answered answered) {
  if (answered == Answered::at_once) return caller.reply;
  return [&jobs = caller.jobs, reply = caller.reply](const Message& message) {
    if (std::holds_alternative<Progress>(message)) return reply(message);
    jobs.then([reply, message] { reply(message); });
  };
}

template <typename T>
Ticket dispatch(const Caller& caller, const Request<T>& row, const T& message) {
  if (may(caller, message, row.sender))
    return handle({caller.jobs, caller.uid, reply_of(caller, row.answered), caller.descriptors},
                  message);
  return refuse(caller, RefusalReason::not_permitted, "this user may not send this request");
}

template <typename T>
Ticket dispatch(const Caller& caller, const Answer<T>&, const T&) {
  return refuse(caller, RefusalReason::malformed, "not a request");
}

template <typename T, template <typename> typename... Rows, typename... Kinds>
constexpr const auto& row_of(const std::tuple<Rows<Kinds>...>& rows) {
  constexpr bool k_is_it[] = {std::is_same_v<T, Kinds>...};
  return std::get<std::find(std::begin(k_is_it), std::end(k_is_it), true) - k_is_it>(rows);
}

}  // namespace

Ticket handle_request(Jobs& jobs, std::uint32_t uid, RequestPacket packet, const Reply& reply) {
  const Caller caller{jobs, uid, reply, packet.descriptors};
  const auto message = decode_message(packet.bytes);
  if (!message) return refuse(caller, RefusalReason::malformed, message.error().what);
  return std::visit(
      [&caller](const auto& m) {
        return dispatch(caller, row_of<std::decay_t<decltype(m)>>(k_message_kinds), m);
      },
      *message);
}

}  // namespace nodestage
