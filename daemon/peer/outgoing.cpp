#include "daemon/peer/outgoing.hpp"

#include <asio/buffer.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>

#include "common/text/human.hpp"
#include "common/wire/wire.hpp"

namespace nodestage {

Delivery::Delivery(const Means& means, PeerDeliver order)
    : means_(means), order_(std::move(order)), socket_(means.io), timer_(means.io) {}

void Delivery::start(OnReport on_report, OnRelease on_release) {
  on_report_ = std::move(on_report);
  on_release_ = std::move(on_release);
  due_ = Clock::now() + means_.limit;
  await_time(due_);
  look_up();
}

void Delivery::look_up() {
  if (auto found = means_.book.known(order_.node)) return take_addresses(std::move(*found));
  means_.background.run([&book = means_.book, node = order_.node] { return book.find(node); },
                        [self = shared_from_this()](Result<Addresses> found) {
                          if (self->ended_) return self->on_release_();
                          self->take_addresses(std::move(found));
                        });
}

void Delivery::take_addresses(Result<Addresses> found) {
  step_ = Step::connect;
  if (!found) return end(found.error().what);
  if (found->empty()) return end(printable(order_.node) + ": the name has no address");
  addresses_ = std::move(*found);
  try_next();
}

// The addresses that are left share the time that is left: one that swallows packets must not use
// up the turn of the others.
void Delivery::try_next() {
  const Clock::time_point now = Clock::now();
  if (tried_ == addresses_.size() || (now >= due_ && tried_ > 0)) return end(faults_);
  const auto left = static_cast<Clock::rep>(addresses_.size() - tried_);
  const Address address = addresses_[tried_++];
  timed_out_ = false;
  await_time(now + (due_ - now) / left);
  std::error_code ignored;
  socket_.close(ignored);
  socket_.async_connect({address, means_.port},
                        [self = shared_from_this()](const std::error_code& ec) {
                          if (!self->ended_) self->connected(ec);
                        });
}

void Delivery::connected(const std::error_code& ec) {
  if (ec || timed_out_) {
    faults_ +=
        (faults_.empty() ? "" : "; ") + place() + ": " + (timed_out_ ? no_answer() : ec.message());
    return try_next();
  }
  if (order_.credential.empty()) return end("");
  step_ = Step::talk;
  await_time(due_);
  send();
}

void Delivery::send() {
  WireEncoder length;
  length.u32(static_cast<std::uint32_t>(order_.credential.size()));
  frame_ = std::string(k_peer_frame_magic) + length.data() + order_.credential;
  // The read reports a fault; it also gets an answer that came before the fault.
  asio::async_write(socket_, asio::buffer(frame_),
                    [self = shared_from_this()](const std::error_code&, std::size_t) {});
  await_reply();
}

void Delivery::await_reply() {
  asio::async_read(socket_, asio::buffer(&reply_, 1),
                   [self = shared_from_this()](const std::error_code& ec, std::size_t) {
                     if (self->ended_) return;
                     if (!ec) return self->judge_reply();
                     self->end(self->place() + ": closed without an answer (" + ec.message() +
                               "): see the log of nodestaged there");
                   });
}

void Delivery::judge_reply() {
  if (reply_ == k_peer_taken) return end("");
  if (reply_ == k_peer_refused)
    return end(place() + " refused it: see the log of nodestaged there");
  end(place() + ": what answers there is not nodestage-peer");
}

// A replaced wait may already be due: its handler then finds that a later one is running.
void Delivery::await_time(Clock::time_point due) {
  timer_.expires_at(due);
  timer_.async_wait([self = shared_from_this(), due](const std::error_code& ec) {
    if (!ec && !self->ended_ && self->timer_.expiry() == due) self->time_out();
  });
}

void Delivery::time_out() {
  if (step_ == Step::look_up) {
    return end(printable(order_.node) + ": the name was not looked up within " +
               std::to_string(means_.limit.count()) + " s: does the resolver answer?");
  }
  if (step_ == Step::talk) return end(place() + ": " + no_answer());
  timed_out_ = true;
  std::error_code ignored;
  socket_.close(ignored);  // connected() goes on
}

void Delivery::end(const std::string& fault) {
  if (ended_) return;
  ended_ = true;
  timer_.cancel();
  std::error_code ignored;
  socket_.close(ignored);
  on_report_(fault);
  if (step_ != Step::look_up) on_release_();
}

std::string Delivery::place() const {
  return printable(order_.node) + " (" + address_text(addresses_[tried_ - 1]) + ") port " +
         std::to_string(means_.port);
}

std::string Delivery::no_answer() const {
  return "no answer within " + std::to_string(means_.limit.count()) + " s";
}

void Outgoing::deliver(PeerDeliver order) {
  if (active_ >= k_max_deliveries) return waiting_.push_back(std::move(order));
  start(std::move(order));
}

void Outgoing::start(PeerDeliver order) {
  ++active_;
  const std::uint64_t id = order.id;
  const auto delivery = std::make_shared<Delivery>(means_, std::move(order));
  delivery->start(
      [this, id](const std::string& fault) {
        channel_.say(PeerDelivered{id, fault});
      },
      [this] { released(); });
}

// From the loop, not here: a delivery that fails at once would start the next one within its end.
void Outgoing::released() {
  asio::post(means_.io, [this] {
    --active_;
    if (waiting_.empty()) return;
    PeerDeliver next = std::move(waiting_.front());
    waiting_.pop_front();
    start(std::move(next));
  });
}

}  // namespace nodestage
