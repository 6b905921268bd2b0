#include "daemon/root/nodes/peers.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "common/text/human.hpp"
#include "daemon/root/basis/connection_closer.hpp"
#include "daemon/root/basis/log.hpp"
#include "daemon/root/nodes/signer.hpp"

namespace nodestage {
namespace {

constexpr std::chrono::seconds k_first_pause{1};
constexpr std::chrono::seconds k_longest_pause{60};
constexpr std::chrono::seconds k_carrier_look{2};
constexpr std::size_t k_shown = 500;  // of a text that nodestage-peer sends
constexpr std::chrono::seconds k_first_tries{10};
constexpr std::chrono::seconds k_later_tries{60};
constexpr std::uint64_t k_try = 0;  // the id of a request without a recipient
constexpr std::size_t k_max_waiting = 50'000;
// So many deliveries nodestage-peer gets at a time. It has 256 under way: what it can do next is
// there, and the note to a large job is not copied for each node at once.
constexpr std::size_t k_max_given = 512;

// Runs as nodestage-peer's Helper: becomes the unprivileged program.
int become_carrier(const std::string& program, const std::string& user) {
  if (const Status became = become_user(user); !became) {
    ::dprintf(STDERR_FILENO, "nodestage-peer: %s\n", became.error().what.c_str());
    return 1;
  }
  std::string name = "nodestage-peer";
  std::string locale = "LC_ALL=C.UTF-8";
  char* const argv[] = {name.data(), nullptr};
  char* const environment[] = {locale.data(), nullptr};
  ::execve(program.c_str(), argv, environment);
  ::dprintf(STDERR_FILENO, "nodestage-peer: %s\n", system_error(program).what.c_str());
  return 1;
}

KeyLocations key_places(const Config& config) {
  KeyLocations places;
  places.key_file = config.peer.key_file;
  return places;
}

// Runs as the Helper that looks at the key's file, and is ended when its packet was read.
int tell_key_mark(const KeyLocations& places) {
  const std::string packet = "mark " + key_file_mark(places);
  if (::send(k_peer_channel_fd, packet.data(), packet.size(), MSG_NOSIGNAL) < 0) return 1;
  char end = 0;
  return ::recv(k_peer_channel_fd, &end, 1, 0) < 0 ? 1 : 0;
}

}  // namespace

void Peers::start(OnNote on_note, OnChange on_change) {
  on_note_ = std::move(on_note);
  on_change_ = std::move(on_change);
  settings_changed();
}

void Peers::settings_changed() {
  if (!settings_ || !(*settings_ == config_.peer)) {
    key_mark_.reset();
    start_children();
  }
  look_at_key();
}

// In a child: slurm.conf and the key can be where a look takes long.
void Peers::look_at_key() {
  if (config_.peer.barrier == UseBarrier::off) return;
  const auto null = open_at(AT_FDCWD, "/dev/null", O_RDONLY);
  if (!null) return log::error("{}", null.error().text());
  auto looker = Helper::start(
      loop_, [places = key_places(config_)] { return tell_key_mark(places); }, *null,
      [this](std::string_view packet) { take_key_mark(std::string(packet)); }, [] {});
  if (!looker) return log::error("the key's file cannot be looked at: {}", looker.error().what);
  looker_ = std::move(*looker);
}

void Peers::take_key_mark(std::string mark) {
  loop_.after({}, [this, done = looker_.get()] {
    if (looker_.get() == done) looker_.reset();
  });
  const bool is_new = key_mark_ && *key_mark_ != mark;
  key_mark_ = std::move(mark);
  if (is_new) start_children();
}

void Peers::start_children() {
  signer_ended();
  carrier_ended();
  has_made_ = false;
  carrier_fault_.clear();
  carrier_failed_.reset();
  signer_pause_ = carrier_pause_ = k_first_pause;
  settings_ = config_.peer;
  const bool is_off = config_.peer.barrier == UseBarrier::off;
  take(CredentialState{is_off ? CredentialState::Kind::off : CredentialState::Kind::unknown, ""});
  if (!is_off) start_signer();
}

std::optional<std::string> Peers::off() const {
  if (config_.peer.barrier == UseBarrier::off) return "the configuration says so";
  if (!has_made_ && credentials_.kind == CredentialState::Kind::fault) return credentials_.text;
  return {};
}

std::optional<std::string> Peers::broken() const {
  const auto patience = std::chrono::seconds(config_.peer.silence_wait_s);
  if (!carrier_failed_ || loop_.now() - *carrier_failed_ < patience) return {};
  return carrier_fault_;
}

// A new signer has no end of the socket that nodestage-peer had to the last one.
void Peers::start_signer() {
  carrier_ended();
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    log::error("{}", system_error("socketpair").what);
  const Fd of_signer(ends[0]);
  to_signer_ = Fd(ends[1]);
  for (const int end : ends) refuse_descriptors(end);
  auto helper = Helper::start(
      loop_,
      [user = config_.peer.user, places = key_places(config_)] { return run_signer(user, places); },
      of_signer, [this](std::string_view packet) { from_signer(packet); },
      [this] {
        signer_ended();
        start_again(&Peers::start_signer, signer_pause_);
      });
  if (!helper) {
    log::error("the signer for other nodes cannot be started: {}", helper.error().what);
    return start_again(&Peers::start_signer, signer_pause_);
  }
  signer_ = std::move(*helper);
  try_credentials();
  start_carrier();
}

void Peers::start_carrier() {
  auto helper = Helper::start(
      loop_, [&peer = config_.peer] { return become_carrier(peer.program, peer.user); }, to_signer_,
      [this](std::string_view packet) { from_carrier(packet); },
      [this] {
        carrier_fails("nodestage-peer has exited");
        carrier_ended();
        start_again(&Peers::start_carrier, carrier_pause_);
      });
  if (!helper) {
    carrier_fails("nodestage-peer cannot be started: " + helper.error().what);
    return start_again(&Peers::start_carrier, carrier_pause_);
  }
  carrier_ = std::move(*helper);
  const auto number = [](std::uint64_t value) { return static_cast<std::uint32_t>(value); };
  carrier_->send(encode_peer_message(
      PeerSettings{number(config_.peer.port), number(config_.peer.io_wait_s),
                   number(config_.peer.max_connections), config_.peer.addresses}));
}

// A child that keeps failing is started less and less often.
void Peers::start_again(void (Peers::*child)(), std::chrono::seconds& pause) {
  const auto now = std::exchange(pause, std::min(2 * pause, k_longest_pause));
  loop_.after(now, [this, child] {
    const bool runs = child == &Peers::start_signer ? signer_ != nullptr : carrier_ != nullptr;
    if (!runs && config_.peer.barrier != UseBarrier::off) (this->*child)();
  });
}

// Fails what waits for the signer.
void Peers::signer_ended() {
  signer_.reset();
  for (const auto& [id, request] : std::exchange(unsigned_, {})) {
    for (const std::string& node : request.to)
      fail_later(node, "the signer process has exited", request.on_sent);
  }
}

void Peers::carrier_ended() {
  carrier_.reset();
  for (const auto& [id, unsent] : std::exchange(unsent_, {}))
    fail_later(unsent.node, "nodestage-peer has exited", unsent.on_sent);
  for (const Unsent& unsent : std::exchange(ungiven_, {}))
    fail_later(unsent.node, "nodestage-peer has exited", unsent.on_sent);
}

// Again and again: `nodestage doctor` shows what comes of it.
void Peers::try_credentials() {
  loop_.cancel(try_timer_);
  if (!signer_) return;
  signer_->send(encode_sign_request({k_try, true, ""}));
  try_timer_ =
      loop_.after(has_made_ ? k_later_tries : k_first_tries, [this] { try_credentials(); });
}

void Peers::take(CredentialState state) {
  if (state == credentials_) return;
  credentials_ = std::move(state);
  switch (credentials_.kind) {
    case CredentialState::Kind::unknown:
    case CredentialState::Kind::off:
      break;
    case CredentialState::Kind::holds:
      log::info(
          "notes to other nodes carry credentials by {}: the nodes of a job can report to "
          "each other",
          credentials_.text);
      break;
    case CredentialState::Kind::fault:
      log::warn("credentials for notes to other nodes cannot be made: {}", credentials_.text);
      break;
  }
  if (on_change_) on_change_();
}

void Peers::from_signer(std::string_view packet) {
  auto reply = decode_sign_reply(packet);
  if (!reply) return;
  const bool is_good = reply->fault.empty();
  if (is_good) {
    has_made_ = true;
    signer_pause_ = k_first_pause;
  }
  take(is_good ? CredentialState{CredentialState::Kind::holds, printable(reply->method)}
               : CredentialState{CredentialState::Kind::fault, printable(reply->fault)});
  const auto found = unsigned_.find(reply->id);
  if (found == unsigned_.end()) return;
  const Unsigned request = std::move(found->second);
  unsigned_.erase(found);
  const auto credential = std::make_shared<const std::string>(std::move(reply->credential));
  for (const std::string& node : request.to) {
    if (!reply->fault.empty()) {
      request.on_sent(node, {PeerFault::Where::here, printable(reply->fault)});
    } else {
      deliver({node, request.on_sent, credential});
    }
  }
}

void Peers::carrier_fails(const std::string& why) {
  const std::string text = shortened(printable(why), k_shown);
  if (!carrier_failed_) carrier_failed_ = loop_.now();
  if (text != carrier_fault_) log::error("this node receives no notes from other nodes: {}", text);
  carrier_fault_ = text;
}

// A nodestage-peer that has work and reports nothing is hung.
void Peers::watch_carrier() {
  if (!carrier_ || unsent_.empty()) return;
  const auto limit = std::chrono::seconds(2 * config_.peer.io_wait_s + 5);
  if (loop_.now() - carrier_spoke_ < limit) {
    loop_.after(k_carrier_look, [this] { watch_carrier(); });
    return;
  }
  carrier_fails("nodestage-peer does not answer");
  carrier_ended();
  start_again(&Peers::start_carrier, carrier_pause_);
}

void Peers::from_carrier(std::string_view packet) {
  carrier_spoke_ = loop_.now();
  const auto message = decode_peer_message(packet);
  if (!message) return;
  if (const auto* listening = std::get_if<PeerListening>(&*message)) take(*listening);
  if (const auto* delivered = std::get_if<PeerDelivered>(&*message)) take(*delivered);
  if (const auto* received = std::get_if<PeerReceived>(&*message)) take(*received);
  if (const auto* dropped = std::get_if<PeerDropped>(&*message))
    log_refusal("peer " + shortened(dropped->address, k_shown), shortened(dropped->why, k_shown));
}

void Peers::take(const PeerListening& listening) {
  if (!listening.fault.empty())
    return carrier_fails("nodestage-peer cannot listen: " + listening.fault);
  log::info("nodestage-peer listens on port {}", config_.peer.port);
  carrier_fault_.clear();
  carrier_failed_.reset();
  carrier_pause_ = k_first_pause;
}

void Peers::take(const PeerDelivered& delivered) {
  const auto found = unsent_.find(delivered.id);
  if (found == unsent_.end()) return;
  const Unsent unsent = std::move(found->second);
  unsent_.erase(found);
  give_carrier();
  PeerFault fault;
  if (!delivered.fault.empty())
    fault = {PeerFault::Where::there, shortened(printable(delivered.fault), k_shown)};
  unsent.on_sent(unsent.node, fault);
}

void Peers::take(const PeerReceived& received) const {
  const auto note = decode_peer_note(received.payload);
  if (!note) return log_refusal("peer", note.error().what);
  on_note_(*note, received.address);
}

void Peers::send(PeerNote note, const OnSent& on_sent) {
  const std::vector<std::string> all = std::move(note.to);
  for (auto first = all.begin(); first != all.end();) {
    const auto count = std::min<std::ptrdiff_t>(all.end() - first, k_max_note_destinations);
    note.to.assign(first, first + count);
    first += count;
    note.sequence = next_sequence();
    const SignId id = next_id_++;
    const bool taken = signer_ && unsigned_.size() < k_max_waiting &&
                       signer_->send(encode_sign_request({id, false, encode_peer_note(note)}));
    if (taken) {
      unsigned_.emplace(id, Unsigned{note.to, on_sent});
    } else {
      for (const std::string& node : note.to)
        fail_later(node, "credentials cannot be made now", on_sent);
    }
  }
}

void Peers::probe(const std::string& node, OnSent on_sent) {
  deliver({node, std::move(on_sent), std::make_shared<const std::string>()});
}

void Peers::deliver(Unsent unsent) {
  if (!carrier_ || ungiven_.size() >= k_max_waiting)
    return fail_later(unsent.node, "nodestage-peer is not running now", unsent.on_sent);
  ungiven_.push_back(std::move(unsent));
  give_carrier();
}

void Peers::give_carrier() {
  while (!ungiven_.empty() && unsent_.size() < k_max_given) {
    Unsent next = std::move(ungiven_.front());
    ungiven_.pop_front();
    const std::uint64_t id = next_id_++;
    if (!carrier_->send(encode_peer_message(PeerDeliver{id, next.node, *next.credential}))) {
      fail_later(next.node, "nodestage-peer is not running now", next.on_sent);
      continue;
    }
    if (unsent_.empty()) {
      carrier_spoke_ = loop_.now();
      loop_.after(k_carrier_look, [this] { watch_carrier(); });
    }
    unsent_.emplace(id, std::move(next));
  }
}

void Peers::fail_later(const std::string& node, const std::string& why, const OnSent& on_sent) {
  loop_.after(std::chrono::milliseconds(0), [node, why, on_sent] {
    on_sent(node, {PeerFault::Where::here, why});
  });
}

std::uint64_t Peers::next_sequence() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
  sequence_ = std::max(sequence_ + 1, static_cast<std::uint64_t>(ns));
  return sequence_;
}

}  // namespace nodestage
