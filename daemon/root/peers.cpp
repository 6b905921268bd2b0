#include "daemon/root/peers.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "common/human.hpp"
#include "daemon/root/log.hpp"
#include "daemon/root/privileges.hpp"
#include "daemon/root/refusal_log.hpp"
#include "daemon/root/signer.hpp"

namespace nodestage {
namespace {

constexpr std::chrono::seconds k_restart_pause{1};
constexpr std::chrono::seconds k_munge_retry{10};
constexpr std::uint64_t k_try_munge = 0;  // the id of a request that is for nobody
constexpr std::size_t k_max_waiting = 50'000;

// The body of nodestage-peer's Helper: it becomes the unprivileged program.
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

}  // namespace

void Peers::start(OnNote on_note) {
  on_note_ = std::move(on_note);
  settings_changed();
}

void Peers::settings_changed() {
  if (settings_ && *settings_ == config_.peer) return;
  signer_.reset();
  carrier_.reset();
  signer_ended();
  carrier_ended();
  munge_answered_ = listened_ = false;
  munge_fault_.clear();
  carrier_fault_.clear();
  settings_ = config_.peer;
  if (config_.peer.barrier == UseBarrier::off) return;
  start_signer();
  start_carrier();
}

std::optional<std::string> Peers::off() const {
  if (config_.peer.barrier == UseBarrier::off) return "the configuration says so";
  if (!munge_answered_ && !munge_fault_.empty()) return munge_fault_;
  if (!listened_ && !carrier_fault_.empty()) return carrier_fault_;
  return {};
}

void Peers::start_signer() {
  auto helper = Helper::start(
      loop_, [user = config_.peer.user] { return run_signer(user); },
      [this](std::string_view packet) { from_signer(packet); },
      [this] {
        signer_.reset();
        signer_ended();
        start_again(&Peers::start_signer);
      });
  if (!helper) {
    spdlog::error("the signer for other nodes cannot be started: {}", helper.error().what);
    return start_again(&Peers::start_signer);
  }
  signer_ = std::move(*helper);
  try_munge();
}

void Peers::start_carrier() {
  auto helper = Helper::start(
      loop_, [&peer = config_.peer] { return become_carrier(peer.program, peer.user); },
      [this](std::string_view packet) { from_carrier(packet); },
      [this] {
        spdlog::error("nodestage-peer has ended; it is started again");
        if (carrier_fault_.empty()) carrier_fault_ = "nodestage-peer cannot be started";
        carrier_.reset();
        carrier_ended();
        start_again(&Peers::start_carrier);
      });
  if (!helper) {
    spdlog::error("nodestage-peer cannot be started: {}", helper.error().what);
    return start_again(&Peers::start_carrier);
  }
  carrier_ = std::move(*helper);
  const auto number = [](std::uint64_t value) { return static_cast<std::uint32_t>(value); };
  carrier_->send(encode_peer_message(
      PeerSettings{number(config_.peer.port), number(config_.peer.io_wait_s),
                   number(config_.peer.max_connections), config_.peer.addresses}));
}

void Peers::start_again(void (Peers::*child)()) {
  loop_.after(k_restart_pause, [this, child] {
    const bool runs = child == &Peers::start_signer ? signer_ != nullptr : carrier_ != nullptr;
    if (!runs && config_.peer.barrier != UseBarrier::off) (this->*child)();
  });
}

// Until MUNGE has answered once.
void Peers::try_munge() {
  if (munge_timer_) loop_.cancel(*munge_timer_);
  munge_timer_.reset();
  if (!signer_ || munge_answered_) return;
  signer_->send(encode_sign_request({k_try_munge, ""}));
  munge_timer_ = loop_.after(k_munge_retry, [this] { try_munge(); });
}

void Peers::from_signer(std::string_view packet) {
  auto reply = decode_sign_reply(packet);
  if (!reply) return;
  if (reply->fault.empty() && !munge_answered_) {
    spdlog::info("MUNGE answers: nodes of a job can tell each other that they are ready");
    munge_answered_ = true;
  }
  if (reply->fault != munge_fault_ && !reply->fault.empty()) {
    spdlog::warn("no credential for other nodes: {}", printable(reply->fault));
  }
  munge_fault_ = reply->fault;
  const auto found = unsigned_.find(reply->id);
  if (found == unsigned_.end()) return;
  const Unsigned request = std::move(found->second);
  unsigned_.erase(found);
  for (const std::string& node : request.to) {
    if (!reply->fault.empty()) {
      request.on_sent(node, reply->fault);
    } else {
      deliver(node, reply->credential, request.on_sent);
    }
  }
}

void Peers::from_carrier(std::string_view packet) {
  const auto message = decode_peer_message(packet);
  if (!message) return;
  if (const auto* listening = std::get_if<PeerListening>(&*message)) take(*listening);
  if (const auto* delivered = std::get_if<PeerDelivered>(&*message)) take(*delivered);
  if (const auto* received = std::get_if<PeerReceived>(&*message)) take(*received);
  if (const auto* dropped = std::get_if<PeerDropped>(&*message)) {
    log_refusal("peer " + dropped->address, dropped->why);
  }
}

void Peers::take(const PeerListening& listening) {
  carrier_fault_ = listening.fault;
  if (listening.fault.empty()) {
    listened_ = true;
    spdlog::info("nodestage-peer listens on port {}", config_.peer.port);
  } else {
    spdlog::error("nodestage-peer cannot listen on port {}: {}", config_.peer.port,
                  printable(listening.fault));
  }
}

void Peers::take(const PeerDelivered& delivered) {
  const auto found = unsent_.find(delivered.id);
  if (found == unsent_.end()) return;
  const Unsent unsent = std::move(found->second);
  unsent_.erase(found);
  unsent.on_sent(unsent.node, printable(delivered.fault));
}

void Peers::take(const PeerReceived& received) const {
  const auto note = decode_peer_note(received.payload);
  if (!note) return log_refusal("peer", note.error().what);
  on_note_(*note);
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
                       signer_->send(encode_sign_request({id, encode_peer_note(note)}));
    if (taken) {
      unsigned_.emplace(id, Unsigned{note.to, on_sent});
    } else {
      for (const std::string& node : note.to) on_sent(node, "credentials cannot be made now");
    }
  }
}

void Peers::probe(const std::string& node, OnSent on_sent) {
  deliver(node, "", std::move(on_sent));
}

void Peers::deliver(const std::string& node, const std::string& credential, OnSent on_sent) {
  const std::uint64_t id = next_id_++;
  const bool taken = carrier_ && unsent_.size() < k_max_waiting &&
                     carrier_->send(encode_peer_message(PeerDeliver{id, node, credential}));
  if (!taken) return on_sent(node, "nodestage-peer does not run now");
  unsent_.emplace(id, Unsent{node, std::move(on_sent)});
}

void Peers::signer_ended() {
  for (const auto& [id, request] : std::exchange(unsigned_, {})) {
    for (const std::string& node : request.to) request.on_sent(node, "the signer has ended");
  }
}

void Peers::carrier_ended() {
  for (const auto& [id, unsent] : std::exchange(unsent_, {})) {
    unsent.on_sent(unsent.node, "nodestage-peer has ended");
  }
}

std::uint64_t Peers::next_sequence() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
  sequence_ = std::max(sequence_ + 1, static_cast<std::uint64_t>(ns));
  return sequence_;
}

}  // namespace nodestage
