// PushSite: a daemon's jobs with outputs, without root and worker processes: the test says what the
// workers do.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "daemon/root/push/push_plan.hpp"
#include "job_site.hpp"

namespace nodestage {

inline ItemRecord output(const char* source, ItemState state, std::uint32_t flags = 0,
                         const char* note = "") {
  ItemRecord item{};
  set_field(item.source, source);
  set_field(item.destination, "/scratch/out");
  set_field(item.note, note);
  item.state = static_cast<std::uint32_t>(state);
  item.flags = flags;
  item.files = state == ItemState::done ? 3 : 0;
  item.bytes_written = item.files * 10;
  return item;
}

struct PushSite : JobSite {
  void run_job(std::vector<std::uint32_t> every_s = {}) {
    workers.every_s = std::move(every_s);
    accept(request(k_job));
    workers.finish(WorkerTask::stage, k_job, WorkerPhase::done, {});
    wait(k_job);
    REQUIRE(state_of(k_job) == "ready");
    answers.clear();
  }
  Ticket push(std::vector<std::string> names = {}, std::uint8_t waits = 1) {
    return jobs->push({k_job, 1000, waits, std::move(names)}, reply);
  }
  [[nodiscard]] const PushOrder* order() {
    const auto* started = workers.find(WorkerTask::push);
    return started == nullptr ? nullptr : &started->as<PushOrder>();
  }
  void finish(WorkerPhase phase, const std::vector<ItemRecord>& items) {
    REQUIRE(workers.say(WorkerTask::push, k_job, phase, items));
    REQUIRE(workers.end(WorkerTask::push, k_code_0));
  }
  void finish() { finish(WorkerPhase::done, {output("results", ItemState::done)}); }
  template <typename Kind>
  [[nodiscard]] std::size_t count() const {
    return static_cast<std::size_t>(
        std::count_if(answers.begin(), answers.end(),
                      [](const Message& m) { return std::holds_alternative<Kind>(m); }));
  }
  // Ends the push under way, if there is one; whether there was.
  bool finish_one() {
    if (order() == nullptr) return false;
    finish();
    return true;
  }
  // The text of the user's last notice; "" if none was written since the last call.
  std::string notice() {
    auto* started = workers.find(WorkerTask::notice);
    if (started == nullptr) return "";
    const std::string text = started->request;
    workers.end(WorkerTask::notice);
    return text;
  }
};

// With the job running.
struct RunningSite : PushSite {
  explicit RunningSite(std::vector<std::uint32_t> every_s = {}) { run_job(std::move(every_s)); }
};

}  // namespace nodestage
