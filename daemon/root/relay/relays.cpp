#include "daemon/root/relay/relays.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>

#include "common/text/human.hpp"
#include "common/wire/relay_board.hpp"
#include "daemon/root/basis/log.hpp"

namespace nodestage {
namespace {

Result<std::string> make_key() {
  std::string key(k_relay_key_bytes, '\0');
  const ssize_t count = ::getrandom(key.data(), key.size(), 0);
  if (count != static_cast<ssize_t>(key.size())) return system_error("getrandom");
  return key;
}

}  // namespace

Result<ChainPosition> RelayChains::join(const RelayLink& link, std::uint64_t longest) {
  if (const auto known = joined_.find(link.node);
      known != joined_.end() && known->second.port == link.port)
    return known->second.place;
  const bool goes_on = last_ && last_->node != link.node && length_ < longest;
  if (!goes_on) {
    TRY_ASSIGN(key_, make_key());
    length_ = 0;
    last_.reset();
  }
  const ChainPosition place{key_, last_};
  joined_.insert_or_assign(link.node, Joined{link.port, place});
  if (link.port == 0) return place;
  ++length_;
  last_ = link;
  return place;
}

namespace {

constexpr std::chrono::milliseconds k_relay_pulse{20};
constexpr int k_asks = 5;  // in the time in which an answer must come
// For so long, nodes that are to be welcomed are gathered: all of them share one credential.
constexpr std::chrono::milliseconds k_gather_grants{10};

// Sealed, so that neither worker can cut off what the other has mapped.
Result<Fd> make_board() {
  Fd board(::memfd_create("nodestage-relay", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!board) return system_error("memfd_create");
  if (::ftruncate(board.get(), k_relay_board_bytes) != 0) return system_error("ftruncate");
  if (::fcntl(board.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return system_error("F_ADD_SEALS");
  return board;
}

// A file of the job's user without a name, on the file system of the job directory.
Result<Fd> make_spool(int directory_fd, const Begin& begin) {
  TRY_ASSIGN(Fd spool, open_at(directory_fd, ".", O_TMPFILE | O_RDWR, 0600));
  if (::fchown(spool.get(), begin.uid, begin.gid) != 0) return system_error("fchown");
  return spool;
}

bool stages_something(std::string_view request) {
  return request.find("\"datasets\"") != std::string_view::npos ||
         request.find("\"venv\"") != std::string_view::npos;
}

}  // namespace

bool Relays::is_wanted(const JobRecord& record) const {
  return relays_sources(deps_.config) && spans_nodes(record) && !deps_.peers.off() &&
         stages_something(record.begin.request);
}

RelayFiles Relays::start(JobRecord& record, int directory_fd) {
  // One that is left of an earlier staging of this job is about to exit.
  if (!is_wanted(record) || deps_.workers.is_working(record.key(), WorkerTask::relay)) return {};
  auto files = start_worker(record, directory_fd);
  if (!files) {
    log::warn(about(record), "its sources are not relayed: {}", files.error().what);
    return {};
  }
  begin_join(record);
  return std::move(*files);
}

Result<RelayFiles> Relays::start_worker(JobRecord& record, int directory_fd) {
  RelayFiles files;
  TRY_ASSIGN(files.board, make_board());
  TRY_ASSIGN(files.spool, make_spool(directory_fd, record.begin));
  TRY_ASSIGN(const Fd plan, deps_.files.new_relay_plan(record.key()));
  WorkerStart start = deps_.workers.order(record, WorkerTask::relay);
  std::get<RelayOrder>(start.order).has_board = true;
  start.board_fd = files.board.get();
  start.spool_fd = files.spool.get();
  start.answer_fd = plan.get();
  start.directory_fd = directory_fd;
  TRY(deps_.workers.start(record, start, deps_.workers.bounds(record, WorkerTask::relay),
                          [this](const JobKey& key, const WorkerEnd& end) {
                            const JobRecord* ended = deps_.table.find(key);
                            if (ended != nullptr && end.kind > WorkerEnd::Kind::killed)
                              log::warn(about(*ended), "the relay process {}", end.text);
                          }));
  return files;
}

void Relays::adopt(JobRecord& record) {
  const bool lives =
      deps_.workers.adopt(record, WorkerTask::relay, [](const JobKey&, const WorkerEnd&) {});
  if (!lives) return;
  const auto plan = deps_.files.relay_plan(record.key());
  if (plan && plan->part == RelayPart::unknown) begin_join(record);
}

void Relays::begin_join(JobRecord& record) {
  const JobKey key = record.key();
  Job& job = jobs_[key];
  job.port.reset();
  job.is_answered = false;
  job.is_welcome = job.is_welcome || is_on_first_node(record);
  job.give_up = deps_.loop.now() + relay_wait_of(record.begin, deps_.config);
  job.asked = {};
  if (std::exchange(job.is_joining, true)) return;
  pulse(key);
}

// Until the relay worker has a plan, or goes on without one.
void Relays::pulse(const JobKey& key) {
  const JobRecord* record = deps_.table.find(key);
  const auto found = jobs_.find(key);
  if (found == jobs_.end()) return;
  Job& job = found->second;
  const auto now = deps_.loop.now();
  if (record == nullptr || record->ended || job.is_answered || now >= job.give_up ||
      !deps_.workers.is_working(key, WorkerTask::relay)) {
    job.is_joining = false;
    return;
  }
  if (!job.port) {
    const WorkerStatus status = deps_.files.status(key, WorkerTask::relay);
    if (status.phase == WorkerPhase::working) job.port = status.relay_port;
  }
  if (job.port && job.is_welcome &&
      now - job.asked >=
          std::chrono::milliseconds(relay_wait_of(record->begin, deps_.config)) / k_asks) {
    job.asked = now;
    is_on_first_node(*record) ? join_here(*record, job) : join(*record, job);
  }
  deps_.loop.after(k_relay_pulse, [this, key] { pulse(key); });
}

void Relays::join(const JobRecord& record, Job& job) {
  RelayNote note;
  note.word = RelayWord::join;
  note.port = *job.port;
  send(record, {record.begin.first_node}, std::move(note));
}

void Relays::join_here(const JobRecord& record, Job& job) {
  const auto place = job.chains.join({record.begin.node, "", *job.port}, deps_.config.relay.chain);
  if (!place) return log::error(about(record), "no key for its relay: {}", place.error().what);
  plan(record, place->key, place->before);
}

void Relays::heard(const JobRecord& record, const std::string& from, const NodeNote& note) {
  if ((note.waits & k_relays) == 0 || note.state == NodeState::ready ||
      note.state == NodeState::failed)
    return;
  const JobKey key = record.key();
  Job& job = jobs_[key];
  if (job.chains.has(from)) return;
  if (job.to_welcome.empty()) deps_.loop.after(k_gather_grants, [this, key] { welcome(key); });
  job.to_welcome.insert(from);
}

void Relays::welcome(const JobKey& key) {
  const auto found = jobs_.find(key);
  const JobRecord* record = deps_.table.find(key);
  if (found == jobs_.end() || record == nullptr) return;
  const auto nodes = std::exchange(found->second.to_welcome, {});
  RelayNote note;
  if (!is_wanted(*record)) note.word = RelayWord::off;
  send(*record, {nodes.begin(), nodes.end()}, std::move(note));
}

void Relays::take(const JobRecord& record, const PeerNote& note, const std::string& address) {
  const Begin& begin = record.begin;
  const auto& body = std::get<RelayNote>(note.body);
  const bool is_to_first = body.word == RelayWord::join;
  const auto has = [](const std::vector<std::string>& nodes, const std::string& node) {
    return std::find(nodes.begin(), nodes.end(), node) != nodes.end();
  };
  const bool is_from_job = note.from != begin.node && (is_to_first ? has(begin.nodes, note.from)
                                                                   : note.from == begin.first_node);
  if (!has(note.to, begin.node) || !is_from_job || is_to_first != is_on_first_node(record))
    return log_refusal("peer " + printable(note.from),
                       "a relay note that is not for job " + to_text(record.key()) + " here");
  if (!is_wanted(record)) return;
  if (is_to_first) return take_join(record, note, address);
  if (body.word == RelayWord::answer) return take_answer(record, body, address);
  if (body.word == RelayWord::off) return take_off(record);
  jobs_[record.key()].is_welcome = true;  // the next pulse joins
}

void Relays::take_join(const JobRecord& record, const PeerNote& note, const std::string& address) {
  const auto& body = std::get<RelayNote>(note.body);
  const auto place = jobs_[record.key()].chains.join(
      {note.from, address, static_cast<std::uint16_t>(body.port)}, deps_.config.relay.chain);
  if (!place) return log::error(about(record), "no key for its relay: {}", place.error().what);
  RelayNote answer;
  answer.word = RelayWord::answer;
  answer.port = body.port;
  answer.key = place->key;
  if (place->before) {
    answer.node = place->before->node;
    answer.address = address_of(*place->before);
    answer.node_port = place->before->port;
  }
  send(record, {note.from}, std::move(answer));
}

void Relays::take_answer(const JobRecord& record, const RelayNote& note,
                         const std::string& address) {
  const Job& job = jobs_[record.key()];
  if (job.is_answered || job.port != note.port) return;  // about an earlier relay worker
  std::optional<RelayLink> from;
  if (!note.node.empty())
    from = RelayLink{note.node, note.address.empty() ? address : note.address,
                     static_cast<std::uint16_t>(note.node_port)};
  plan(record, note.key, from);
}

void Relays::take_off(const JobRecord& record) {
  jobs_[record.key()].is_answered = true;
  RelayPlan plan;
  plan.part = RelayPart::off;
  plan.why = "the relay is off on node " + printable(record.begin.first_node);
  write(record, plan);
}

void Relays::plan(const JobRecord& record, const std::string& key,
                  const std::optional<RelayLink>& from) {
  jobs_[record.key()].is_answered = true;
  RelayPlan plan;
  plan.part = from ? RelayPart::link : RelayPart::head;
  std::copy(key.begin(), key.end(), plan.key.begin());
  if (from) {
    plan.node = printable(from->node);
    plan.address = address_of(*from);
    plan.port = from->port;
  }
  write(record, plan);
  log::debug(about(record), "its relay {}",
             from ? "gets its sources from " + plan.node : "reads its sources");
}

void Relays::write(const JobRecord& record, const RelayPlan& plan) const {
  const Status written = deps_.files.write_relay_plan(record.key(), plan);
  if (!written)
    log::warn(about(record), "the plan of its relay cannot be written: {}", written.error().what);
}

// Returns the address on the network that the site wants to be used for data.
std::string Relays::address_of(const RelayLink& link) const {
  for (const std::string& pair : deps_.config.relay.addresses)
    if (pair.starts_with(link.node + "=")) return pair.substr(link.node.size() + 1);
  return link.address;
}

void Relays::send(const JobRecord& record, std::vector<std::string> to, RelayNote note) {
  deps_.peers.send({std::move(to), record.begin.node, record.begin.job, record.begin.restart, 0,
                    std::move(note)},
                   [](const std::string&, const PeerFault&) {});
}

}  // namespace nodestage
