// Trees over which their users have mounted something when they are to be removed.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "job_site.hpp"
#include "sharing_site.hpp"

using namespace nodestage;
namespace fs = std::filesystem;

namespace {

// Runs `test` in a name space of mounts of its own; it returns the number of what is wrong, or 0.
void with_mounts(const std::function<int()>& test) {
  constexpr int k_no_mounts = 77;
  const pid_t child = ::fork();
  if (child == 0) {
    const bool is_alone =
        ::unshare(CLONE_NEWNS) == 0 && ::mount("", "/", "", MS_REC | MS_PRIVATE, "") == 0;
    ::_exit(is_alone ? test() : k_no_mounts);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == k_no_mounts) {
    MESSAGE("skipped: needs root to mount");
    return;
  }
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

bool cover(const std::string& path) {
  return ::mount(path.c_str(), path.c_str(), "", MS_BIND, "") == 0;
}

// The tree in the trash that was an entry of the cache.
std::string moved(const SharingSite& site) {
  for (const auto& entry : fs::directory_iterator(site.scratch / ".nodestage/trash")) {
    const std::string tree = entry.path().string();
    if (fs::is_regular_file(fs::symlink_status(tree + "/data"))) return tree;
  }
  return "none";
}

}  // namespace

TEST_CASE("attack: a mount over a kept item does not keep it in the cache") {
  with_mounts([] {
    SharingSite site;
    site.stage(1);
    if (!cover(site.kept_path(k_a, "data"))) return 1;
    site.over(1);
    if (site.kept() != 0 || site.trees("trash") != 2) return 2;
    if (!fs::is_empty(site.scratch / ".nodestage-cache")) return 3;
    const std::string tree = moved(site);
    struct stat info {};
    if (::stat(tree.c_str(), &info) != 0 || info.st_uid != SharingSite::user()) return 4;
    // Both are in the one list of what is to be removed, and then of what could not be.
    for (int i = 0; i < 3; ++i) {
      while (site.workers.end(WorkerTask::remove)) continue;
      site.pass(std::chrono::seconds(3));
    }
    const Metrics metrics = site.jobs->metrics();
    const bool is_in = metrics.trash_trees == 2 && metrics.stuck_trees == 2;
    return ::umount((tree + "/data").c_str()) == 0 && is_in ? 0 : 5;
  });
}

// Only root can bring that about.
TEST_CASE(
    "what cannot be removed from the cache is tried again, and does not stand before others") {
  with_mounts([] {
    SharingSite site;
    for (const auto& [job, key] : {std::pair(1U, k_a), std::pair(2U, k_b)}) {
      site.ask(job, {{key, "data"}});
      auto items = site.do_all(job);
      items[0].bytes_written = 1000;
      if (!site.workers.say(WorkerTask::stage, job, WorkerPhase::done, items)) return 7;
      site.end_stage(job);
      site.over(job);
      site.compare("1.0");
    }
    const std::string entry = site.kept_directory(k_a);
    if (!cover(entry)) return 1;
    const auto rows = site.jobs->drop(0, {site.entry(k_a)});
    if (site.kept() != 2 || rows.size() != 1 || rows[0].fault.empty()) return 2;
    site.ask(3, {{k_a, "data"}});
    if (site.order(3).at(0).role != ShareRole::own) return 3;
    site.over(3);
    site.config.cache.max_bytes = 1;
    site.pass(std::chrono::seconds(10));
    if (site.kept() != 1 || site.jobs->cache(0)[0].name != site.entry(k_a)) return 4;
    if (::umount(entry.c_str()) != 0) return 5;
    site.pass(std::chrono::seconds(10));
    return fs::is_empty(site.scratch / ".nodestage-cache") ? 0 : 6;
  });
}

TEST_CASE("attack: a mount over a kept item while no daemon runs, and what no record names") {
  for (const bool has_record : {true, false}) {
    with_mounts([has_record] {
      SharingSite site;
      site.stage(1);
      if (!cover(site.kept_path(k_a, "data"))) return 1;
      if (!has_record) fs::remove(site.kept_directory(k_a) + ".record");
      site.boot = "another boot";
      site.start_daemon();
      if (site.kept() != 0 || !fs::is_empty(site.scratch / ".nodestage-cache")) return 2;
      return ::umount((moved(site) + "/data").c_str()) == 0 ? 0 : 3;
    });
  }
}

TEST_CASE("attack: a mount over the job directory while the job ends: known, and tried again") {
  with_mounts([] {
    SharingSite site;
    site.jobs->begin(site.request(1));
    site.workers.finish(WorkerTask::stage, WorkerPhase::done);
    site.wait(1);
    site.end(1);
    if (!cover(site.job_path(1))) return 1;
    site.workers.finish(WorkerTask::stage_out, WorkerPhase::done);
    for (const bool is_restarted : {false, true}) {
      if (is_restarted) site.start_daemon();
      site.pass(std::chrono::seconds(70));
      const auto covered = site.jobs->place({1, 0}).directories;
      if (site.state_of(1) != "gone" || site.jobs->metrics().stuck_trees != 1) return 2;
      if (covered != std::vector<std::string>{"alice.1.0"}) return 3;
    }
    if (::umount(site.job_path(1).c_str()) != 0) return 4;
    site.pass(std::chrono::seconds(70));
    return site.state_of(1).empty() && site.trees("trash") == 1 ? 0 : 5;
  });
}

TEST_CASE(
    "attack: a remover that its owner has stopped: root's own removes that tree and the next") {
  SharingSite site;
  for (const char* name : {"one", "two"}) {
    REQUIRE(site.areas.make_directory(name, SharingSite::user(), SharingSite::group()));
    std::ofstream(site.scratch / (std::string(name) + "/file")).close();
    REQUIRE(site.areas.move_to_trash(name, SharingSite::user(), SharingSite::group()));
  }
  const auto uid = [&site] {
    const auto* remover = site.workers.find(WorkerTask::remove);
    return remover == nullptr ? k_no_number : remover->as<RemoveOrder>().uid;
  };
  const auto empty = [&site] {
    for (const auto& tree : fs::directory_iterator(site.scratch / ".nodestage/trash"))
      fs::remove(tree.path() / "file");
  };
  site.trash.sweep();
  CHECK(uid() == SharingSite::user());
  REQUIRE(site.workers.end(WorkerTask::remove, {WorkerEnd::Kind::over_limit, "came no further"}));
  CHECK(uid() == 0);
  empty();
  REQUIRE(site.workers.end(WorkerTask::remove));
  CHECK(uid() == 0);
  REQUIRE(site.workers.end(WorkerTask::remove));
  CHECK(site.trees("trash") == 0);
}

TEST_CASE("an epilog that looks for whom to kill learns which processes are the daemon's workers") {
  JobSite site;
  CHECK(site.jobs->place({7, 0}).workers.empty());
  site.accept(site.request(7));
  const auto* staging = site.workers.find(WorkerTask::stage);
  REQUIRE(staging != nullptr);
  CHECK(site.jobs->place({7, 0}).workers == std::vector<std::string>{std::to_string(staging->id)});
}

namespace {

struct TrashSite : JobSite {
  void throw_away(const std::string& name, std::uint32_t uid) {
    fs::create_directory(scratch / name);
    REQUIRE(areas.move_to_trash(name, uid, uid));
  }
  [[nodiscard]] std::string only_tree() const {
    const fs::directory_iterator list(scratch / ".nodestage/trash");
    REQUIRE(list != fs::directory_iterator());
    return list->path();
  }
  [[nodiscard]] std::vector<std::uint32_t> owners_at_work() const {
    std::vector<std::uint32_t> owners;
    for (const auto& started : workers.alive) owners.push_back(head_of(started.order).uid);
    return owners;
  }
  // The remover that was started first has done its work.
  void end_first() { REQUIRE(workers.end(WorkerTask::remove)); }
};

}  // namespace

TEST_CASE("the trash is listed once, and what comes later is known") {
  TrashSite site;
  site.throw_away("old", 7);
  auto next = Areas::open(site.scratch.path(), ::geteuid());
  REQUIRE(next);
  CHECK(next->trees_in_trash() == 1);
  REQUIRE(next->take_new_trash().size() == 1);
  fs::create_directory(site.scratch / ".nodestage/trash/7.7.1");  // only a list would show it
  CHECK(next->take_new_trash().empty());
  fs::create_directory(site.scratch / "new");
  REQUIRE(next->move_to_trash("new", 8, 8));
  REQUIRE(next->move_to_trash("missing", 9, 9));
  const auto trash = next->take_new_trash();
  REQUIRE(trash.size() == 1);
  CHECK(trash[0].uid == 8);
  CHECK(next->trees_in_trash() == 2);
  CHECK(next->has_trash_of(8));
  CHECK_FALSE(next->has_trash_of(9));
  REQUIRE(next->remove_trash(trash[0]));
  CHECK_FALSE(next->has_trash_of(8));
}

TEST_CASE("what somebody else has removed from the trash is gone") {
  TrashSite site;
  site.throw_away("old", 7);
  fs::remove_all(site.only_tree());
  site.trash.sweep();
  CHECK(site.workers.alive.empty());
  CHECK(site.areas.trees_in_trash() == 0);
}

TEST_CASE("owners take turns, however many trees one of them has") {
  TrashSite site;
  for (const char* which : {"a", "b", "c"})
    for (std::uint32_t uid = 1; uid <= 9; ++uid) site.throw_away(which + std::to_string(uid), uid);
  site.trash.sweep();
  CHECK(site.owners_at_work() == std::vector<std::uint32_t>{1, 2, 3, 4, 5, 6, 7, 8});
  site.end_first();
  CHECK(site.owners_at_work() == std::vector<std::uint32_t>{2, 3, 4, 5, 6, 7, 8, 9});
  site.end_first();
  CHECK(site.owners_at_work() == std::vector<std::uint32_t>{3, 4, 5, 6, 7, 8, 9, 1});
  while (site.workers.end(WorkerTask::remove)) {
  }
  CHECK(site.trees("trash") == 0);
  CHECK(site.areas.trees_in_trash() == 0);
}

TEST_CASE("one sweep starts a bounded number of removals, and those after it the rest") {
  TrashSite site;
  constexpr std::size_t k_links = 500;
  for (std::size_t i = 0; i < k_links; ++i) {
    fs::create_symlink("nowhere", site.scratch / "link");
    REQUIRE(site.areas.move_to_trash("link", 7, 7));
  }
  site.trash.sweep();
  CHECK(site.trees("trash") > k_links / 2);
  for (int i = 0; i < 8; ++i) site.pass(std::chrono::seconds(1));
  CHECK(site.trees("trash") == 0);
}

TEST_CASE("a large file is removed by a worker, a small one at once") {
  for (const bool is_large : {false, true}) {
    TrashSite site;
    std::ofstream(site.scratch / "data").close();
    if (is_large) fs::resize_file(site.scratch / "data", 8 << 20);
    REQUIRE(site.areas.move_to_trash("data", JobSite::user(), JobSite::group()));
    site.trash.sweep();
    CHECK((site.workers.find(WorkerTask::remove) != nullptr) == is_large);
    if (!is_large) continue;
    CHECK(fs::file_size(site.only_tree() + "/file") == 8 << 20);
    CHECK(fs::status(site.only_tree()).permissions() == fs::perms::owner_all);
    fs::remove(site.only_tree() + "/file");  // as the worker does
    site.end_first();
    CHECK(site.trees("trash") == 0);
  }
}

TEST_CASE("what is removed for its space is not removed at the lowest priority") {
  for (const bool is_needed : {false, true}) {
    TrashSite site;
    site.throw_away("old", JobSite::user());
    if (is_needed) site.trash.hurry(JobSite::user());
    site.trash.sweep();
    CHECK(site.workers.order<RemoveOrder>().is_urgent == is_needed);
  }
}

TEST_CASE("a tree that could not be removed is tried again") {
  TrashSite site;
  site.throw_away("old", JobSite::user());
  const std::string tree = site.only_tree();
  std::ofstream(tree + "/planted").close();
  site.trash.sweep();
  REQUIRE(site.workers.end(WorkerTask::remove));  // its owner's, and then root's
  REQUIRE(site.workers.end(WorkerTask::remove));
  site.trash.sweep();
  CHECK(site.workers.find(WorkerTask::remove) == nullptr);
  fs::remove(tree + "/planted");
  site.pass(std::chrono::seconds(70));
  REQUIRE(site.workers.end(WorkerTask::remove));
  CHECK(site.trees("trash") == 0);
}
