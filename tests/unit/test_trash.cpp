#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "job_site.hpp"

using namespace nodestage;
namespace fs = std::filesystem;

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
  for (const char* which : {"a", "b", "c"}) {
    for (std::uint32_t uid = 1; uid <= 9; ++uid) site.throw_away(which + std::to_string(uid), uid);
  }
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
    REQUIRE(site.workers.find(WorkerTask::remove) != nullptr);
    CHECK(site.workers.find(WorkerTask::remove)->as<RemoveOrder>().is_urgent == is_needed);
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
