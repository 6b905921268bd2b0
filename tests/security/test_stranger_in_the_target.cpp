// Attack: the target of a stage-out is a directory that others may write to (2777, not sticky).
// While the results arrive, another user renames what was made there and puts links to the owner's
// private files and directories in its place: their modes must stay, and their content must not get
// out.
#include <doctest/doctest.h>

#include <atomic>
#include <functional>
#include <thread>

#include "../unit/stage_out_job.hpp"

using namespace nodestage;

namespace {

constexpr int k_files = 1500;  // so that there is time for it

void make_many(const fs::path& directory) {
  for (int i = 0; i < k_files; ++i) write_file(directory / std::to_string(i), "x");
}

// Runs the job while another thread tries `attack` until it has worked. It may fail for that: then
// the result is held.
bool run_attacked(StageOutJob& job, const std::function<bool()>& attack) {
  std::atomic<bool> is_over = false;
  bool has_worked = false;
  std::thread stranger([&] {
    while (!is_over && !has_worked) has_worked = attack();
  });
  static_cast<void>(job.run());
  is_over = true;
  stranger.join();
  return has_worked;
}

// Puts a link to `to` in the place of what was made.
bool replace(const fs::path& made, const fs::path& to) {
  std::error_code code;
  fs::rename(made, made.string() + ".moved", code);
  if (code) return false;
  fs::create_symlink(to, made);
  return true;
}

}  // namespace

TEST_CASE("a directory that was replaced by a link gets no mode and no time") {
  for (const bool is_inner : {false, true}) {
    CAPTURE(is_inner);
    StageOutJob job;
    const fs::path secret = job.target / "secret";
    write_file(secret, "private");
    fs::permissions(secret, fs::perms(0600));
    const fs::file_time_type time = fs::last_write_time(secret);
    const fs::path source = job.directory / (is_inner ? "results/res" : "res");
    make_many(source);
    fs::permissions(source, fs::perms(0755));
    job.ask(is_inner ? "results" : "res", (job.target / "shared/").string());
    const fs::path made = job.target / (is_inner ? "shared/results/res" : "shared/res");
    REQUIRE(run_attacked(job, [&] { return replace(made, secret); }));
    CHECK((fs::status(secret).permissions() & fs::perms::mask) == fs::perms(0600));
    CHECK(fs::last_write_time(secret) == time);
    if (job.status.phase != WorkerPhase::done) continue;
    // What was made has them, wherever it is now.
    CHECK((fs::status(made.string() + ".moved").permissions() & fs::perms::mask) ==
          fs::perms(0755));
  }
}

TEST_CASE("a hard link is made of what was copied, not of what a link leads to") {
  StageOutJob job;
  const fs::path elsewhere = job.target / "private";
  for (const char* name : {"one", "two"}) write_file(elsewhere / name, "private");
  write_file(job.directory / "results/a/one", "result");
  make_many(job.directory / "results/m");
  fs::create_directories(job.directory / "results/z");
  fs::create_hard_link(job.directory / "results/a/one", job.directory / "results/z/two");
  job.ask("results", (job.target / "shared").string());
  const fs::path target = job.target / "shared";
  const auto attack = [&] {
    std::error_code code;
    for (const char* name : {"a/one", "z/two"}) {
      const fs::path file = target / name;
      if (fs::exists(file, code)) return replace(file.parent_path(), elsewhere);
    }
    return false;
  };
  REQUIRE(run_attacked(job, attack));
  for (const char* name : {"a/one", "z/two", "a.moved/one", "z.moved/two"}) {
    CAPTURE(name);
    const fs::path file = target / name;
    if (fs::is_symlink(file.parent_path()) || !fs::exists(file)) continue;
    CHECK(file_text(file) == "result");
  }
  CHECK(fs::hard_link_count(elsewhere / "one") == 1);
  CHECK(fs::hard_link_count(elsewhere / "two") == 1);
}
