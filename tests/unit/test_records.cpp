#include <doctest/doctest.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "common/wire/node_report.hpp"
#include "daemon/root/table/records.hpp"
#include "scratch.hpp"

using namespace nodestage;
namespace fs = std::filesystem;

namespace {

struct Kept {
  Scratch scratch;
  Config config;

  Kept() {
    spdlog::set_level(spdlog::level::off);
    fs::create_directory(scratch / "state");
  }
  [[nodiscard]] Records open() const { return {scratch / "state", config}; }
  [[nodiscard]] std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(scratch / "state/records"), fs::directory_iterator()));
  }
  void make_older(const std::string& name, std::chrono::hours age) const {
    const fs::path path = scratch / ("state/records/" + name);
    fs::last_write_time(path, fs::last_write_time(path) - age);
  }
};

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("records are found by job, by their user and root alone, also by the next daemon") {
  const Kept kept;
  {
    Records records = kept.open();
    records.keep({1, 0}, 1000, "one");
    records.keep({1, 1}, 1000, "again");
    records.keep({2, 0}, 1001, "two");
  }
  struct stat info {};
  REQUIRE(::stat((kept.scratch / "state/records/1.0.1000.json").c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0600);
  const Records records = kept.open();
  CHECK(records.find(1, 1000) == Texts{"one", "again"});
  CHECK(records.find(1, 0) == Texts{"one", "again"});
  CHECK(records.find(1, 1001).empty());
  CHECK(records.find(2, 1001) == Texts{"two"});
  CHECK(records.find(3, 0).empty());
}

TEST_CASE("the same run again replaces its record, also when the job id has come to another user") {
  const Kept kept;
  Records records = kept.open();
  records.keep({1, 0}, 1000, "one");
  records.keep({1, 0}, 1000, "new");
  CHECK(records.find(1, 0) == Texts{"new"});
  records.keep({1, 0}, 1001, "other");
  CHECK(records.find(1, 1000).empty());
  CHECK(records.find(1, 0) == Texts{"other"});
  CHECK(kept.files() == 1);
}

TEST_CASE("the oldest go first, beyond the number that is kept") {
  Kept kept;
  kept.config.records.keep = 2;
  kept.open().keep({5, 0}, 1000, "five");
  kept.make_older("5.0.1000.json", std::chrono::hours(2));
  Records records = kept.open();
  records.keep({9, 0}, 1000, "nine");
  records.keep({7, 0}, 1000, "seven");
  CHECK(kept.files() == 2);
  CHECK(records.find(5, 0).empty());
  CHECK(records.find(7, 0) == Texts{"seven"});
  kept.config.records.keep = 0;
  records.trim();
  CHECK(kept.files() == 0);
  records.keep({8, 0}, 1000, "eight");
  CHECK(kept.files() == 0);
}

TEST_CASE("what is too old is not told, and goes") {
  Kept kept;
  kept.config.records.days = 2;
  kept.open().keep({1, 0}, 1000, "one");
  kept.make_older("1.0.1000.json", std::chrono::hours(24));
  CHECK(kept.open().find(1, 0) == Texts{"one"});
  kept.make_older("1.0.1000.json", std::chrono::hours(25));
  CHECK(kept.open().find(1, 0).empty());
  CHECK(kept.files() == 0);
}

TEST_CASE("files that are no records are left alone, and no directory is no harm") {
  const Kept kept;
  fs::create_directory(kept.scratch / "state/records");
  for (const char* name : {"notes", "1.0.json", "1.0.1000.json.new", "x1.0.1000.json"})
    std::ofstream(kept.scratch / ("state/records/" + std::string(name))) << "x";
  Records records = kept.open();
  CHECK(records.find(1, 0).empty());
  records.trim();
  CHECK(kept.files() == 4);

  Records none(kept.scratch / "missing/state", kept.config);
  none.keep({1, 0}, 1000, "one");
  none.trim();
  CHECK(none.find(1, 0).empty());
}

TEST_CASE("a record that is larger than any of ours is not read") {
  const Kept kept;
  fs::create_directory(kept.scratch / "state/records");
  std::ofstream(kept.scratch / "state/records/1.0.1000.json")
      << std::string(k_max_report_bytes + 1, 'x');
  CHECK(kept.open().find(1, 0).empty());
}
