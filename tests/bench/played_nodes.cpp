#include "tests/bench/played_nodes.hpp"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <asio/buffer.hpp>
#include <asio/post.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>
#include <cstdio>
#include <memory>
#include <utility>

#include "common/os/wall_clock.hpp"
#include "common/wire/peer_note.hpp"
#include "common/wire/wire.hpp"
#include "daemon/peer/addresses.hpp"
#include "daemon/peer/credential.hpp"
#include "daemon/root/nodes/signer.hpp"

namespace nodestage {
namespace {

using asio::ip::tcp;

constexpr std::uint16_t k_port = 6825;
constexpr std::chrono::seconds k_limit{5};  // as peer.io_wait
constexpr std::uint32_t k_relay_port = 40'000;
constexpr int k_starts_a_turn = 16;

std::string frame_of(const std::string& credential) {
  WireEncoder length;
  length.u32(static_cast<std::uint32_t>(credential.size()));
  return std::string(k_peer_frame_magic) + length.data() + credential;
}

// One connection, from a node to the first one: the frame, and the byte that comes back.
class Sending : public std::enable_shared_from_this<Sending> {
 public:
  Sending(asio::io_context& io, std::string credential, std::function<void(bool)> on_done)
      : socket_(io), timer_(io), frame_(frame_of(credential)), on_done_(std::move(on_done)) {}

  void start(const asio::ip::address& from, const asio::ip::address& to) {
    timer_.expires_after(k_limit);
    timer_.async_wait([self = shared_from_this()](const std::error_code& fault) {
      if (!fault) self->end(false);
    });
    std::error_code fault;
    socket_.open(tcp::v4(), fault);
    if (!fault) socket_.bind({from, 0}, fault);
    if (fault) return end(false);
    socket_.async_connect({to, k_port}, [self = shared_from_this()](const std::error_code& failed) {
      failed ? self->end(false) : self->talk();
    });
  }

 private:
  void talk() {
    asio::async_write(socket_, asio::buffer(frame_),
                      [self = shared_from_this()](const std::error_code&, std::size_t) {});
    asio::async_read(socket_, asio::buffer(&reply_, 1),
                     [self = shared_from_this()](const std::error_code& fault, std::size_t) {
                       self->end(!fault && self->reply_ == k_peer_taken);
                     });
  }

  void end(bool is_taken) {
    if (!on_done_) return;
    timer_.cancel();
    std::error_code ignored;
    socket_.close(ignored);
    std::exchange(on_done_, nullptr)(is_taken);
  }

  tcp::socket socket_;
  asio::steady_timer timer_;
  std::string frame_;
  char reply_ = 0;
  std::function<void(bool)> on_done_;
};

// One connection to a node: a whole frame, which is answered at once.
class Receiving : public std::enable_shared_from_this<Receiving> {
 public:
  using OnCredential = std::function<void(const std::string&)>;
  Receiving(tcp::socket socket, OnCredential on_credential)
      : socket_(std::move(socket)), on_credential_(std::move(on_credential)) {}

  void start() {
    asio::async_read(socket_, asio::buffer(head_),
                     [self = shared_from_this()](const std::error_code& fault, std::size_t) {
                       if (!fault) self->read_credential();
                     });
  }

 private:
  void read_credential() {
    const std::string_view head(head_.data(), head_.size());
    const std::uint32_t length = WireDecoder(head.substr(k_peer_frame_magic.size())).u32();
    if (!head.starts_with(k_peer_frame_magic) || length > k_max_credential_bytes) return;
    credential_.resize(length);
    asio::async_read(socket_, asio::buffer(credential_),
                     [self = shared_from_this()](const std::error_code& fault, std::size_t) {
                       if (fault) return;
                       self->on_credential_(self->credential_);
                       self->answer();
                     });
  }

  void answer() {
    asio::async_write(socket_, asio::buffer(&k_peer_taken, 1),
                      [self = shared_from_this()](const std::error_code&, std::size_t) {});
  }

  tcp::socket socket_;
  std::array<char, 8> head_{};
  std::string credential_;
  OnCredential on_credential_;
};

std::string played_name(std::size_t number) {
  std::array<char, 16> name{};
  std::snprintf(name.data(), name.size(), "c%04zu", number);
  return name.data();
}

}  // namespace

Result<PlayedCredentials> PlayedCredentials::by(const std::string& key_file) {
  PlayedCredentials made;
  const passwd* entry = ::getpwnam("nodestage");
  if (entry == nullptr) return Error{ENOENT, "there is no user nodestage"};
  made.peer_uid_ = entry->pw_uid;
  if (key_file.empty()) return made;
  KeyLocations places;
  places.key_file = key_file;
  TRY_ASSIGN(auto keys, read_cluster_keys(places));
  if (keys) made.keys_.emplace(std::move(*keys), wall_ms());
  return made;
}

Result<std::string> PlayedCredentials::make(const std::string& payload) {
  return keys_ ? keys_->make(payload, wall_ms()) : make_credential(payload, peer_uid_);
}

// munged opens it only for the user that it is for.
Result<std::string> PlayedCredentials::open(const std::string& credential) {
  if (keys_) return keys_->open(credential, wall_ms());
  if (::seteuid(peer_uid_) != 0) return system_error("seteuid");
  auto payload = munge_opener()(credential);
  if (::seteuid(0) != 0) return system_error("seteuid");
  return payload;
}

PlayedNodes::PlayedNodes(asio::io_context& io, Job job, PlayedCredentials credentials)
    : io_(io), job_(std::move(job)), credentials_(std::move(credentials)), acceptor_(io) {
  for (std::size_t number = 1; number <= job_.count; ++number) {
    const std::string address =
        job_.net + "." + std::to_string(number / 250) + "." + std::to_string(number % 250 + 1);
    by_address_[address] = nodes_.size();
    Node& node = nodes_.emplace_back();
    node.name = played_name(number);
    node.address = asio::ip::make_address(address);
  }
}

Status PlayedNodes::listen() {
  std::error_code fault;
  acceptor_.open(tcp::v4(), fault);
  if (!fault) acceptor_.set_option(asio::socket_base::reuse_address(true), fault);
  if (!fault) acceptor_.bind({tcp::v4(), k_port}, fault);
  if (!fault) acceptor_.listen(asio::socket_base::max_listen_connections, fault);
  if (fault) return Error{fault.value(), "port 6825: " + fault.message()};
  accept();
  return {};
}

std::chrono::milliseconds PlayedNodes::interval() const {
  return std::chrono::milliseconds(std::clamp<std::size_t>(10 * job_.count, 2000, 30'000));
}

PeerNote PlayedNodes::note_of(std::size_t index) {
  PeerNote note;
  note.to = {job_.first_name};
  note.from = nodes_[index].name;
  note.job = job_.number;
  sequence_ = std::max(sequence_ + 1, wall_ns());
  note.sequence = sequence_;
  if (nodes_[index].state) note.body = *nodes_[index].state;
  return note;
}

Status PlayedNodes::report(std::size_t first, std::size_t last, const NodeNote& note, Joins joins) {
  std::deque<std::string> credentials;
  for (std::size_t index = first - 1; index < last; ++index) {
    Node& node = nodes_[index];
    node.state = note;
    node.is_taken = false;
    node.joins = joins == Joins::yes;
    ++node.round;
    TRY_ASSIGN(std::string made, credentials_.make(encode_peer_note(note_of(index))));
    credentials.push_back(std::move(made));
  }
  sent_ = std::chrono::steady_clock::now();
  verdict_first_ = {};
  start(first - 1, std::make_shared<std::deque<std::string>>(std::move(credentials)));
  return {};
}

// A few in a turn: each node sends as soon as it is connected, whatever the others do.
void PlayedNodes::start(std::size_t index,
                        const std::shared_ptr<std::deque<std::string>>& credentials) {
  for (int i = 0; i < k_starts_a_turn && !credentials->empty(); ++i) {
    send_state(index++, std::move(credentials->front()));
    credentials->pop_front();
  }
  if (!credentials->empty())
    asio::post(io_, [this, index, credentials] { start(index, credentials); });
}

void PlayedNodes::send(std::size_t index, std::string credential, OnDone on_done) {
  ++counts_.sent;
  std::make_shared<Sending>(io_, std::move(credential),
                            [this, on_done = std::move(on_done)](bool is_taken) {
                              if (!is_taken) ++counts_.not_taken;
                              on_done(is_taken);
                            })
      ->start(nodes_[index].address, job_.first);
}

void PlayedNodes::send_state(std::size_t index, std::string credential) {
  send(index, std::move(credential), [this, index, round = nodes_[index].round](bool is_taken) {
    Node& node = nodes_[index];
    if (node.round != round) return;
    if (is_taken) taken_ = std::chrono::steady_clock::now();
    node.is_taken = node.is_taken || is_taken;
    const std::chrono::milliseconds jitter(index % 1000);
    repeat(index, is_taken ? interval() : std::chrono::seconds(1) + jitter);
  });
}

void PlayedNodes::repeat(std::size_t index, std::chrono::milliseconds pause) {
  const auto timer = std::make_shared<asio::steady_timer>(io_, pause);
  timer->async_wait([this, timer, index, round = nodes_[index].round](const std::error_code&) {
    if (nodes_[index].round != round || nodes_[index].verdict) return;
    auto made = credentials_.make(encode_peer_note(note_of(index)));
    if (made) send_state(index, std::move(*made));
  });
}

void PlayedNodes::join(std::size_t index) {
  PeerNote note = note_of(index);
  RelayNote body;
  body.word = RelayWord::join;
  body.port = k_relay_port;
  note.body = body;
  auto made = credentials_.make(encode_peer_note(note));
  if (made) {
    send(index, std::move(*made), [this, index](bool is_taken) {
      if (!is_taken) {
        const auto timer = std::make_shared<asio::steady_timer>(io_, std::chrono::seconds(1));
        timer->async_wait([this, timer, index](const std::error_code&) { join(index); });
      }
    });
  }
}

void PlayedNodes::accept() {
  acceptor_.async_accept([this](const std::error_code& fault, tcp::socket socket) {
    if (fault == asio::error::operation_aborted) return;
    std::error_code unknown;
    const auto here = fault ? tcp::endpoint() : socket.local_endpoint(unknown);
    const auto found = by_address_.find(address_text(here.address()));
    if (!fault && !unknown && found != by_address_.end()) {
      std::make_shared<Receiving>(std::move(socket), [this, index = found->second](
                                                         const std::string& credential) {
        take(index, credential);
      })->start();
    }
    accept();
  });
}

void PlayedNodes::take(std::size_t index, const std::string& credential) {
  const auto [found, is_new] = opened_.try_emplace(credential);
  if (is_new) {
    ++counts_.credentials;
    const auto payload = credentials_.open(credential);
    if (!payload) std::fprintf(stderr, "bench-nodes: %s\n", payload.error().what.c_str());
    auto note = payload ? decode_peer_note(*payload) : Result<PeerNote>(payload.error());
    if (note) found->second = std::move(*note);
  }
  if (found->second) hear(index, *found->second);
}

void PlayedNodes::hear(std::size_t index, const PeerNote& note) {
  Node& node = nodes_[index];
  const bool is_for_it = std::find(note.to.begin(), note.to.end(), node.name) != note.to.end();
  if (!is_for_it || note.from != job_.first_name || note.job != job_.number) {
    std::fprintf(stderr, "bench-nodes: a note that is not for %s\n", node.name.c_str());
    return;
  }
  if (const auto* relay = std::get_if<RelayNote>(&note.body)) {
    if (relay->word == RelayWord::welcome && node.joins) {
      node.joins = false;
      join(index);
    } else if (relay->word == RelayWord::answer && !node.has_answer) {
      node.has_answer = true;
      answer_ = std::chrono::steady_clock::now();
    }
  }
  const auto* job = std::get_if<JobNote>(&note.body);
  if (job == nullptr) return;
  ++(job->verdict == Verdict::open ? counts_.open_notes : counts_.verdicts);
  if (job->verdict == Verdict::open || node.verdict) return;
  node.verdict = *job;
  verdict_ = std::chrono::steady_clock::now();
  if (verdict_first_ == Time()) verdict_first_ = verdict_;
}

bool PlayedNodes::are_taken(std::size_t first, std::size_t last) const {
  return std::all_of(nodes_.begin() + static_cast<std::ptrdiff_t>(first - 1),
                     nodes_.begin() + static_cast<std::ptrdiff_t>(last),
                     [](const Node& node) { return node.is_taken || node.verdict; });
}

bool PlayedNodes::have_answers(std::size_t first, std::size_t last) const {
  return std::all_of(nodes_.begin() + static_cast<std::ptrdiff_t>(first - 1),
                     nodes_.begin() + static_cast<std::ptrdiff_t>(last),
                     [](const Node& node) { return node.has_answer; });
}

bool PlayedNodes::have_verdicts(std::size_t first, std::size_t last) const {
  return std::all_of(nodes_.begin() + static_cast<std::ptrdiff_t>(first - 1),
                     nodes_.begin() + static_cast<std::ptrdiff_t>(last),
                     [](const Node& node) { return node.verdict.has_value(); });
}

std::string PlayedNodes::words(std::size_t first) const {
  const auto& verdict = nodes_[first - 1].verdict;
  if (!verdict || verdict->verdict == Verdict::open) return "open";
  return (verdict->verdict == Verdict::ready ? "ready" : "failed") +
         (verdict->text.empty() ? "" : ": " + verdict->text);
}

}  // namespace nodestage
