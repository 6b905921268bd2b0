#include "daemon/worker/relay/relay.hpp"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "common/wire/status_file.hpp"
#include "daemon/worker/basis/log.hpp"

namespace nodestage {
namespace {

// Several times a second, as relay_board.hpp promises for `beat`.
constexpr std::chrono::milliseconds k_beat{200};
// All wait for the plan, which the daemon writes into a file.
constexpr std::chrono::milliseconds k_plan_step{10};

}  // namespace

Relay::Relay(const RelayOrder& order, const Descriptors& descriptors, Board board,
             OpenOriginal open)
    : board_(std::move(board)),
      rate_(descriptors.rate),
      plan_fd_(descriptors.plan),
      basis_{order, *board_, descriptors.spool, rate_, std::move(open)},
      table_(basis_),
      server_(basis_, table_) {}

Result<std::unique_ptr<Relay>> Relay::make(const RelayOrder& order, const Descriptors& descriptors,
                                           OpenOriginal open) {
  TRY_ASSIGN(Board board, Board::map(descriptors.board));
  return std::unique_ptr<Relay>(new Relay(order, descriptors, std::move(board), std::move(open)));
}

Relay::~Relay() {
  stop();
  basis_.threads.await_end(RelayClock::time_point::max());
}

std::uint16_t Relay::listen() {
  const Status started = server_.start();
  if (!started) no_port_ = started.error().what;
  return server_.port();
}

// By the plan; or by the staging worker, which needs the room that the spool takes.
bool Relay::is_off() {
  if (board_->is_off != 0) return true;
  is_planned_ = basis_.plan.look(plan_fd_);
  if (!is_planned_) return false;
  const RelayPlan plan = basis_.plan.await(RelayClock::now(), basis_.stop);
  if (plan.part != RelayPart::off) return false;
  set_field(board_->why, plan.why);
  board_->is_off = 1;
  raise(board_->news);
  return true;
}

bool Relay::is_over() {
  if (board_->staging_is_over == 0) return false;
  if (board_->lanes == 0) return true;  // there was nothing to relay
  const auto now = RelayClock::now();
  if (!staging_over_since_) staging_over_since_ = now;
  const auto since = std::max(*staging_over_since_, server_.last_served());
  return server_.successors() == 0 && now >= since + basis_.silence();
}

void Relay::run() {
  board_->magic = k_relay_board_magic;
  while (!basis_.stop && !is_off() && !is_over()) {
    const std::uint32_t seen = board_->asks;
    ++board_->beat;
    table_.tend();
    const bool awaits_plan = !is_planned_ && RelayClock::now() < basis_.plan_limit();
    await_raise(board_->asks, seen, awaits_plan ? k_plan_step : k_beat);
  }
  stop();
}

void Relay::stop() {
  basis_.stop = true;
  server_.stop();
  table_.stop();
  for (auto* word : {&board_->asks, &board_->moves, &board_->news}) raise(*word);
}

bool Relay::await_end(RelayClock::time_point until) {
  const bool have_ended = basis_.threads.await_end(until);
  if (board_->is_off != 0 && ::ftruncate(basis_.spool_fd, 0) == 0) raise(board_->news);
  return have_ended;
}

namespace {

// For threads to end; only one that hangs in a file system takes longer.
constexpr std::chrono::seconds k_end_limit{2};

int report(WorkerPhase phase, const std::string& cause, std::uint16_t port) {
  StatusHeader header{};
  header.magic = k_status_magic;
  header.phase = static_cast<std::uint32_t>(phase);
  header.relay_port = port;
  set_field(header.cause, cause);
  const Status written = write_status_header(k_worker_status_fd, header);
  if (!written) log_line(written.error().text());
  return phase == WorkerPhase::failed ? 1 : 0;
}

int fail(const std::string& cause) {
  log_line("relay: failed: " + cause);
  return report(WorkerPhase::failed, cause, 0);
}

}  // namespace

int run_relay(const RelayOrder& order) {
  if (!order.has_board) return fail("the daemon has given no board");
  auto relay = Relay::make(order, {});
  if (!relay) return fail(relay.error().text());
  const std::uint16_t port = (*relay)->listen();
  if (port == 0) log_line("relay: no port to listen on: " + (*relay)->no_port());
  report(WorkerPhase::working, "", port);
  (*relay)->run();
  const int code = report(WorkerPhase::done, "", 0);
  if (!(*relay)->await_end(RelayClock::now() + k_end_limit)) ::_exit(code);
  return code;
}

}  // namespace nodestage
