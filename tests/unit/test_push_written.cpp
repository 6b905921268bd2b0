// Results while the job runs: files that are being written.
#include <doctest/doctest.h>
#include <sys/mman.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "stage_out_job.hpp"

using namespace nodestage;
using Names = std::vector<std::string>;

namespace {

// Not among the worker's own descriptors.
Fd held_open(const fs::path& path) {
  const Fd low(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  return Fd(::fcntl(low.get(), F_DUPFD_CLOEXEC, 100));
}

bool is_uniform(const std::string& text) {
  return text.size() == k_large && text.find_first_not_of(text[0]) == std::string::npos;
}

}  // namespace

TEST_CASE("what is being written is named and left, and comes when it is closed") {
  PushJob job({{"results/done.pt", "whole"}});
  Fd writer = held_open(job.directory / "results/model.pt");
  REQUIRE(write(writer.get(), "ha", 2) == 2);
  job.ask("results", "out");
  CHECK(job.run() == 0);
  CHECK(job.state() == ItemState::done);
  CHECK(job.is_unsettled());
  CHECK(job.note() == "1 file was being written and is left for the next delivery: model.pt");
  CHECK(names_in(job.target / "out") == Names{"done.pt"});
  CHECK(std::count(job.waits.begin(), job.waits.end(), job.rules.between) == 3);
  REQUIRE(write(writer.get(), "lf", 2) == 2);
  writer.reset();
  CHECK(job.run() == 0);
  CHECK_FALSE(job.is_unsettled());
  CHECK(job.note().empty());
  CHECK(job.files() == 1);
  CHECK(file_text(job.target / "out/model.pt") == "half");
}

TEST_CASE("a log that is being written arrives as far as it is, each time and at the end") {
  PushJob job;
  job.rules.log = std::chrono::milliseconds(0);
  fs::create_directories(job.directory / "results");
  Fd writer = held_open(job.directory / "results/train.log");
  Fd other = held_open(job.directory / "results/model.pt");
  REQUIRE(write(other.get(), "\0\1", 2) == 2);
  job.ask("results", "out");
  std::string text;
  for (const std::string line : {"epoch 1\n", "epoch 2\n"}) {
    text += line;
    REQUIRE(write(writer.get(), line.data(), line.size()) == ssize_t(line.size()));
    CHECK(job.run() == 0);
    CHECK(file_text(job.target / "out/train.log") == text);
    check_has(job.note(), {"1 file was still being written, and what was in it when it was opened "
                           "was delivered: train.log",
                           "left for the next delivery: model.pt"});
  }
  // One that is written anew is left, or what was whole would be gone.
  REQUIRE(::ftruncate(writer.get(), 0) == 0);
  REQUIRE(::pwrite(writer.get(), "new", 3, 0) == 3);
  CHECK(job.run() == 0);
  CHECK(file_text(job.target / "out/train.log") == text);
  CHECK(has(job.note(), "2 files were being written"));
  writer.reset();
  other.reset();
  CHECK(job.run_end() == 0);
  CHECK(file_text(job.target / "out/train.log") == "new");
}

TEST_CASE("what was begun, and never settles, is no log, and is delivered at the end") {
  for (const std::string name : {"table.json", "state"}) {
    CAPTURE(name);
    PushJob job;
    fs::create_directory(job.directory / "results");
    const Fd writer = held_open(job.directory / "results" / name);
    REQUIRE(write(writer.get(), "x", 1) == 1);
    job.ask("results", "out");
    for (int i = 0; i < 2; ++i) {
      CHECK(job.run() == 0);
      CHECK(job.is_unsettled());
      CHECK(names_in(job.target / "out").empty());
    }
    REQUIRE(job.run_end() == 0);
    CHECK(file_text(job.target / "out" / name) == "x");
  }
}

TEST_CASE("what is closed while the push waits comes with it; what was renamed, by its new name") {
  PushJob job;
  Fd writer = held_open(job.directory / "model.tmp");
  job.on_wait = [&] {
    if (job.waits.back() != job.rules.between) return;
    writer.reset();
    fs::rename(job.directory / "model.tmp", job.directory / "model.pt");
  };
  job.ask("model.*", "out");
  CHECK(job.run() == 0);
  CHECK_FALSE(job.is_unsettled());
  CHECK(names_in(job.target / "out") == Names{"model.pt"});
}

TEST_CASE("all names of a file that is being written wait for it") {
  PushJob job;
  job.rules.tick = std::chrono::hours(1);
  fs::create_directories(job.directory / "results");
  Fd writer = held_open(job.directory / "results/a");
  fs::create_hard_link(job.directory / "results/a", job.directory / "results/c");
  write_file(job.directory / "results/b", "x");
  job.on_wait = [&] { writer.reset(); };  // between a and c
  job.ask("results", "out");
  job.rules.looks = 1;
  CHECK(job.run() == 0);
  CHECK(job.note() == "2 files were being written and are left for the next delivery: a, c");
  CHECK(job.run() == 0);
  CHECK(inode_of(job.target / "out/a") == inode_of(job.target / "out/c"));
}

TEST_CASE("what is opened for writing during its copy is not whole") {
  PushJob job({{"results/model.pt", std::string(k_large, 'x')}});
  job.ask("results", "out");
  job.rules.looks = 1;
  job.max_rate = 1;  // the copy waits
  Fd writer;
  std::thread program([&] {
    while (leftovers(job.target).empty()) ::usleep(1000);
    writer = held_open(job.directory / "results/model.pt");
    const std::uint64_t no_limit = 0;
    if (::pwrite(k_worker_rate_fd, &no_limit, sizeof no_limit, 0) < 0) abort();
  });
  CHECK(job.run() == 0);
  program.join();
  CHECK(job.is_unsettled());
  CHECK(fs::is_empty(job.target / "out"));
}

TEST_CASE("at the end, what is changed during its copy is copied again, and then kept") {
  for (const unsigned reads : {2U, 1U}) {
    CAPTURE(reads);
    PushJob job({{"results/model.pt", std::string(k_large, 'x')}, {"results/other", "whole"}});
    job.ask("results/*", "out/");
    job.rules.reads = reads;
    job.max_rate = 1;  // the copy waits
    std::thread program([&] {
      const auto has_begun = [&] {
        const auto copies = leftovers(job.target);
        return !copies.empty() && fs::file_size(copies.front()) > 0;
      };
      while (!has_begun()) ::usleep(1000);
      std::fstream file(job.directory / "results/model.pt");  // grows, and has another start
      file << "new" << std::flush;
      file.seekp(0, std::ios::end) << "more" << std::flush;
      const std::uint64_t no_limit = 0;
      if (::pwrite(k_worker_rate_fd, &no_limit, sizeof no_limit, 0) < 0) abort();
    });
    CHECK(job.run_end() == (reads == 1 ? 1 : 0));
    program.join();
    CHECK(has(job.note(), "model.pt: was changed while it was read") == (reads == 1));
    CHECK(leftovers(job.target).empty());
    CHECK(file_text(job.target / "out/other") == "whole");
    CHECK(fs::exists(job.target / "out/model.pt") == (reads == 2));
    if (reads == 2) CHECK(fs::file_size(job.target / "out/model.pt") == k_large + 4);
  }
}

TEST_CASE("at the end, what only grows arrives up to what it was, with a note") {
  for (const char* target : {"out/", "out.tar"}) {
    CAPTURE(target);
    PushJob job;
    const fs::path log = job.directory / "results/train.log";
    write_file(log, std::string(k_large, 'x'));
    job.ask("results/*", target);
    job.rules.reads = 2;
    std::ofstream writer(log, std::ios::app);
    job.on_wait = [&] { writer << "more" << std::flush; };
    job.rules.young = std::chrono::hours(1);  // it waits at each read
    CHECK(job.run_end() == 0);
    CHECK(job.note() ==
          "1 file was still being written, and what was in it when it was opened was "
          "delivered: train.log");
    if (fs::exists(job.target / "out"))
      CHECK(file_text(job.target / "out/train.log") ==
            std::string(k_large, 'x') + "moremore");  // after the first read, and between the two
  }
}

TEST_CASE("a log that is held open comes when it is quiet, and again when it has grown") {
  PushJob job;
  fs::create_directory(job.directory / "results");
  const Fd log = held_open(job.directory / "results/train.log");
  REQUIRE(write(log.get(), "1", 1) == 1);
  job.ask("results", "out");
  job.run();
  CHECK(job.is_unsettled());
  if (is_tmpfs(job.directory)) {
    MESSAGE("skipped: on a tmpfs it comes when it is closed");
    return;
  }
  job.rules.quiet = SettleRules::Time(0);
  REQUIRE(job.run() == 0);
  CHECK_FALSE(job.is_unsettled());
  CHECK(file_text(job.target / "out/train.log") == "1");
  REQUIRE(write(log.get(), "2", 1) == 1);
  REQUIRE(job.run() == 0);
  CHECK(file_text(job.target / "out/train.log") == "12");
}

TEST_CASE("what is mapped in a job directory in memory arrives at the end as it is then") {
  if (!is_tmpfs("/dev/shm")) {
    MESSAGE("skipped: no tmpfs");
    return;
  }
  const InMemory memory;
  PushJob job;
  fs::create_directories(job.directory / "results");
  Fd writer = held_open(job.directory / "results/state");
  REQUIRE(write(writer.get(), "old", 3) == 3);
  char* const mapped =
      static_cast<char*>(mmap(nullptr, 3, PROT_READ | PROT_WRITE, MAP_SHARED, writer.get(), 0));
  REQUIRE(static_cast<void*>(mapped) != MAP_FAILED);
  mapped[0] = 'o';
  writer.reset();
  job.rules.quiet = SettleRules::Time(0);
  job.ask("results", "out");
  CHECK(job.run() == 0);
  mapped[0] = 'b';  // changes no time
  CHECK(job.run_end() == 0);
  munmap(mapped, 3);
  CHECK(file_text(job.target / "out/state") == "bld");
}

TEST_CASE("many that are being written: the first ones by name") {
  PushJob job;
  std::vector<Fd> writers;
  fs::create_directory(job.directory / "results");
  for (int i = 0; i < 7; ++i)
    writers.push_back(held_open(job.directory / "results" / std::to_string(i)));
  job.ask("results", "out");
  job.run();
  CHECK(job.note() ==
        "7 files were being written and are left for the next delivery: 0, 1, 2, 3, 4 and 2 more");
  CHECK(leftovers(job.target).empty());
}

TEST_CASE("a writer that rewrites in place, or renames: what is in the target is a whole version") {
  for (const bool renames : {false, true}) {
    CAPTURE(renames);
    PushJob job;
    job.rules.wait = [](std::chrono::milliseconds time) {
      std::this_thread::sleep_for(std::min(time, std::chrono::milliseconds(20)));
    };
    const fs::path file = job.directory / "results/model.pt";
    write_file(file, std::string(k_large, 'a'));
    job.ask("results", "out");
    std::atomic<bool> is_over = false;
    std::thread writer([&] {
      for (char c = 'b'; !is_over; c = c == 'z' ? 'a' : static_cast<char>(c + 1)) {
        const std::string text(k_large, c);
        const Fd to = held_open(renames ? file.string() + ".tmp" : file.string());
        if (::pwrite(to.get(), text.data(), text.size(), 0) < 0) return;
        if (renames) fs::rename(file.string() + ".tmp", file);
      }
    });
    int torn = 0;
    for (int i = 0; i < 6; ++i) {
      CHECK(job.run() == 0);
      const fs::path there = job.target / "out/model.pt";
      if (fs::exists(there) && !is_uniform(file_text(there))) ++torn;
    }
    is_over = true;
    writer.join();
    CHECK(torn == 0);
    CHECK(job.run() == 0);
    CHECK(is_uniform(file_text(job.target / "out/model.pt")));
    CHECK(file_text(job.target / "out/model.pt") == file_text(file));
  }
}
