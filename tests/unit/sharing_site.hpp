// A site on which jobs share what they stage: its workers say what they are told to say.
#pragma once

#include <doctest/doctest.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <variant>
#include <vector>

#include "common/text/human.hpp"
#include "daemon/root/cache/cache_area.hpp"
#include "job_site.hpp"

namespace nodestage {

inline const std::string k_a(k_share_key_bytes, 'a');
inline const std::string k_b(k_share_key_bytes, 'b');

struct Wish {
  std::string key;   // "": it must not be kept
  std::string name;  // of the tree
  std::uint64_t bytes = 1000;
};

struct SharingSite : JobSite {
  explicit SharingSite(std::uint64_t max_jobs = 1) {
    config.cache.keep_free_percent = 0;
    config.staging.max_jobs = max_jobs;
  }
  [[nodiscard]] std::string job_path(std::uint32_t job, const std::string& name = "") const {
    return scratch / ("alice." + std::to_string(job) + ".0" + (name.empty() ? "" : "/" + name));
  }
  [[nodiscard]] std::string entry(const std::string& key) const {
    return std::to_string(user()) + "." + key;
  }
  // The directory of the entry in the cache, by its record or draft; "none" if it has none.
  [[nodiscard]] std::string kept_directory(const std::string& key) const {
    for (const auto& file : std::filesystem::directory_iterator(scratch / ".nodestage-cache")) {
      if (!file.is_regular_file()) continue;
      const auto known = decode_entry(file_text(file.path()));
      if (known && known->name == entry(key)) return file.path().parent_path() / known->directory;
    }
    return "none";
  }
  [[nodiscard]] std::string kept_path(const std::string& key, const std::string& name) const {
    return kept_directory(key) + "/" + name;
  }
  // A link to itself until the tree is there.
  [[nodiscard]] bool is_pending(const std::string& key) const {
    const std::string path = kept_path(key, "data");
    return std::filesystem::is_symlink(path) && std::filesystem::read_symlink(path) == path;
  }
  void begin(std::uint32_t job, std::uint32_t uid = user()) {
    Begin begin = request(job);
    begin.uid = uid;
    begin.request = R"({"shared":true})";
    accept(begin);
  }
  static std::vector<ItemRecord> records_of(const std::vector<Wish>& wishes) {
    std::vector<ItemRecord> items;
    for (const Wish& wish : wishes) {
      ItemRecord item{.state = static_cast<std::uint32_t>(ItemState::done),
                      .flags = k_item_shared,
                      .bytes_total = wish.bytes};
      set_field(item.name, wish.key);
      set_field(item.what, wish.name);
      set_field(item.source, "/p/" + wish.name + ".tar");
      set_field(item.note, wish.key.empty() ? "it was changed less than a minute ago" : "");
      items.push_back(item);
    }
    return items;
  }
  // The job's worker has found out what it wants.
  void identify(std::uint32_t job, const std::vector<Wish>& wishes) {
    REQUIRE(workers.say(WorkerTask::identify, job, WorkerPhase::done, records_of(wishes)));
    REQUIRE(workers.end(WorkerTask::identify, k_code_0, job));
  }
  void ask(std::uint32_t job, const std::vector<Wish>& wishes) {
    begin(job);
    identify(job, wishes);
  }
  // The step of the job that was started last.
  [[nodiscard]] Step step_of(std::uint32_t job) const {
    using Events = const JobEvents&;
    return Events(*jobs).step_of({job, 0});
  }
  // Of a job that has one shared item.
  ShareRole role_of(std::uint32_t job) {
    REQUIRE(order(job).size() == 1);
    return order(job)[0].role;
  }
  [[nodiscard]] std::vector<SharedItem> order(std::uint32_t job) {
    const auto* started = workers.find(WorkerTask::stage, job);
    return started == nullptr ? std::vector<SharedItem>() : started->as<StageOrder>().shared;
  }
  [[nodiscard]] bool stages(std::uint32_t job) {
    return workers.find(WorkerTask::stage, job) != nullptr;
  }
  // The worker's records of what it was told to do, which it has done.
  std::vector<ItemRecord> do_all(std::uint32_t job, std::uint32_t flag_of_leads = k_item_whole) {
    std::vector<ItemRecord> items;
    for (const SharedItem& shared : order(job)) {
      const std::string name =
          shared.path.empty() ? "own" + std::to_string(shared.item) : last_part(shared.path);
      const std::string at = job_path(job, name);
      ItemRecord item{.state = static_cast<std::uint32_t>(ItemState::done), .flags = k_item_shared};
      set_field(item.destination, at);
      if (shared.role == ShareRole::link) {
        std::filesystem::create_symlink(shared.path, at);
        item.flags |= k_item_linked;
      } else {
        // A file: without root, a directory that is not writable cannot be moved.
        std::ofstream(at) << "of job " << job;
        ::chmod(at.c_str(), 0400);
        if (::geteuid() == 0) REQUIRE(::chown(at.c_str(), user(), group()) == 0);
        if (shared.role == ShareRole::lead) item.flags |= flag_of_leads;
      }
      items.push_back(item);
    }
    return items;
  }
  // The worker that stages says so.
  void say(std::uint32_t job, WorkerPhase phase, const std::vector<ItemRecord>& items) {
    REQUIRE(workers.say(WorkerTask::stage, job, phase, items));
  }
  void finish_with(std::uint32_t job, const std::vector<ItemRecord>& items) {
    say(job, WorkerPhase::done, items);
    end_stage(job);
  }
  void finish(std::uint32_t job, std::uint32_t flag_of_leads = k_item_whole) {
    finish_with(job, do_all(job, flag_of_leads));
  }
  // A job that shares one item stages it; then it is over, too.
  void stage(std::uint32_t job, const std::string& key = k_a) {
    ask(job, {{key, "data"}});
    finish(job);
  }
  void stage_and_end(std::uint32_t job, const std::string& key = k_a) {
    stage(job, key);
    over(job);
  }
  // What a further job with that item is to do.
  ShareRole role_asked(std::uint32_t job, const std::string& key = k_a) {
    ask(job, {{key, "data"}});
    return role_of(job);
  }
  // The job may run while its second item, which is async, is still staged. The worker's records.
  std::vector<ItemRecord> stage_all_but_late(std::uint32_t job) {
    ask(job, {{k_a, "data"}, {k_b, "late"}});
    auto items = do_all(job);
    items[1].state = static_cast<std::uint32_t>(ItemState::working);
    items[1].flags |= k_item_async;
    say(job, WorkerPhase::ready, items);
    return items;
  }
  void finish_late(std::uint32_t job, std::vector<ItemRecord> items) {
    items[1].state = static_cast<std::uint32_t>(ItemState::done);
    say(job, WorkerPhase::done, items);
  }
  void end_stage(std::uint32_t job, const WorkerEnd& how = k_code_0) {
    REQUIRE(workers.end(WorkerTask::stage, how, job));
    tick();
  }
  // What was published is told from what is changed later: jobs that use it become ready.
  void tick() { pass(std::chrono::milliseconds(80)); }
  // The daemon has looked at what its workers report before they exit, and its clock has gone on.
  void poll() { pass(std::chrono::milliseconds(320)); }
  // Its results are delivered, and all is over.
  void over(std::uint32_t job) {
    end(job);
    if (workers.find(WorkerTask::stage, job) != nullptr) end_stage(job, k_dead);
    if (workers.find(WorkerTask::stage_out, job) == nullptr) return;
    workers.say(WorkerTask::stage_out, job, WorkerPhase::done, {});
    workers.end(WorkerTask::stage_out, k_code_0, job);
  }
  // The comparison of the one tree that waits for it.
  void compare(const std::string& newest) {
    ItemRecord item{};
    set_field(item.name, newest);
    auto* started = workers.find(WorkerTask::compare);
    REQUIRE(started != nullptr);
    REQUIRE(
        workers.say(WorkerTask::compare, head_of(started->order).job, WorkerPhase::done, {item}));
    REQUIRE(workers.end(WorkerTask::compare));
  }
  [[nodiscard]] std::size_t kept() const { return jobs->cache(0).size(); }
  [[nodiscard]] std::string text_in(std::uint32_t job, const std::string& name) const {
    return file_text(job_path(job, name));
  }
};

// With cache.scope = "readers": the keeper says the same of the sources as the jobs' own workers.
struct ReadersSite : SharingSite {
  ReadersSite() : SharingSite(8) {
    config.cache.scope = ShareScope::readers;
    config.cache.keeper = ::geteuid() == 0 ? "daemon" : ::getpwuid(::geteuid())->pw_name;
    jobs->settings_changed();
  }
  void ask(std::uint32_t job, const std::vector<Wish>& wishes, std::uint32_t uid = user()) {
    begin(job, uid);
    REQUIRE(workers.say(WorkerTask::look, job, WorkerPhase::done, records_of(wishes)));
    REQUIRE(workers.end(WorkerTask::look, k_code_0, job));
    identify(job, wishes);
  }
  // The names of what the keeper stages for the job now, in this order; none if it does not.
  [[nodiscard]] std::vector<std::string> keeps(std::uint32_t job) {
    std::vector<std::string> names;
    const auto* keep = workers.find(WorkerTask::keep, job);
    if (keep == nullptr) return names;
    for (const SharedItem& shared : keep->as<KeepOrder>().shared)
      names.push_back(last_part(shared.path));
    return names;
  }
  // The keeper has staged so many of these, and works on the next one.
  void keep(std::uint32_t job, std::size_t done) {
    const auto* started = workers.find(WorkerTask::keep, job);
    REQUIRE(started != nullptr);
    const auto& order = started->as<KeepOrder>();
    std::vector<ItemRecord> items(order.shared.size());
    for (std::size_t i = 0; i < done; ++i) {
      const std::string parent = order.directory + "/" + std::to_string(i);
      const std::string at = parent + "/" + last_part(order.shared[i].path);
      std::filesystem::create_directory(parent);
      std::ofstream(at) << "kept by job " << job;
      ::chmod(at.c_str(), 0444);
      if (::geteuid() == 0) REQUIRE(::chown(at.c_str(), order.uid, order.gid) == 0);
      items[i].state = static_cast<std::uint32_t>(ItemState::done);
      items[i].flags = k_item_shared | k_item_whole;
      set_field(items[i].destination, at);
    }
    if (done < items.size()) items[done].state = static_cast<std::uint32_t>(ItemState::working);
    const auto phase = done < items.size() ? WorkerPhase::working : WorkerPhase::done;
    REQUIRE(workers.say(WorkerTask::keep, job, phase, items));
  }
  void end_keep(std::uint32_t job, const WorkerEnd& how = k_code_0) {
    REQUIRE(workers.end(WorkerTask::keep, how, job));
    tick();
  }
  // It has staged the only one.
  void keep_one(std::uint32_t job) {
    keep(job, 1);
    end_keep(job);
  }
};

}  // namespace nodestage
