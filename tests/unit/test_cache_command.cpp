// `nodestage cache`: names, texts, and the conversation with the daemon.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/cache/cache.hpp"
#include "fake_daemon.hpp"
#include "scratch.hpp"
#include "texts.hpp"

using namespace nodestage;

namespace {

constexpr std::uint64_t k_now = 1'700'000'000;

CacheRow row_of(const std::string& key, std::uint32_t uid = 1001) {
  CacheRow row;
  row.name = std::to_string(uid) + "." + key;
  row.uid = uid;
  row.user = "u" + std::to_string(uid);
  row.what = "tar.gz";
  row.source = "/project/data.tar.gz";
  row.path = "/localscratch/.nodestage-cache/" + row.name + "/data";
  row.job = 4711;
  row.made_at = k_now - 2 * 86'400;
  row.used_at = k_now - 300;
  row.bytes = 3 << 20;
  row.files = 1234;
  row.source_bytes = 1 << 20;
  row.hits = 5;
  return row;
}

const std::string k_one = "0123456789abcdef0123456789abcdef";
const std::string k_other = "0123456789ffffffffffffffffffffff";

// Two entries that differ after ten digits.
CacheRows two_rows() { return {row_of(k_one), row_of(k_other)}; }

// Takes what is written to a descriptor.
class Output {
 public:
  Output(const Scratch& scratch, int fd) : fd_(fd), path_(scratch / "out" + std::to_string(fd)) {
    std::fflush(nullptr);
    old_ = Fd(::fcntl(fd, F_DUPFD_CLOEXEC, 100));
    const Fd file(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    ::dup2(file.get(), fd);
  }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;
  ~Output() { restore(); }
  std::string text() {
    restore();
    return file_text(path_);
  }

 private:
  void restore() {
    std::fflush(nullptr);
    ::dup2(old_.get(), fd_);
  }
  int fd_;
  std::string path_;
  Fd old_;
};

struct Ran {
  int code = 0;
  std::string output;
  std::string errors;
  std::vector<Message> asked;
};

// Runs the verb against a daemon that has these rows. Listing and a name that is refused take one
// conversation, removing takes two.
Ran run(CacheArguments arguments, const CacheRows& rows, std::size_t conversations) {
  const Scratch scratch;
  arguments.socket = scratch / "socket";
  Ran ran;
  const FakeDaemon::Script script = [&](FakePeer& peer) {
    ran.asked.push_back(peer.hear());
    const auto* drop = std::get_if<CacheDrop>(&ran.asked.back());
    for (const CacheRow& row : rows) {
      const bool is_asked =
          drop == nullptr || drop->names.empty() ||
          std::find(drop->names.begin(), drop->names.end(), row.name) != drop->names.end();
      if (is_asked) peer.say(row);
    }
    peer.say(Accepted{});
  };
  Output output(scratch, STDOUT_FILENO);
  Output errors(scratch, STDERR_FILENO);
  {
    const FakeDaemon daemon(arguments.socket, {conversations, script});
    ran.code = cache(arguments);
  }
  ran.errors = errors.text();
  ran.output = output.text();
  return ran;
}

CacheArguments drop_of(std::vector<std::string> names) {
  return {.names = std::move(names), .drop = true};
}

}  // namespace

TEST_CASE("cache: a name is the start of a key, or of the whole name") {
  CacheRows rows = two_rows();
  CHECK(rows_named(rows, "01234567").size() == 2);
  REQUIRE(rows_named(rows, "0123456789f").size() == 1);
  CHECK(rows_named(rows, "0123456789f").front() == &rows[1]);
  CHECK(rows_named(rows, rows[0].name).size() == 1);
  CHECK(rows_named(rows, "1001.0123456789f").size() == 1);
  CHECK(rows_named(rows, "456").empty());
  CHECK(rows_named(rows, "1001").empty());
  // A variable that is not set means nothing, and not all.
  CHECK(rows_named(rows, "").empty());
  CHECK(short_name(rows, rows[0]) == "0123456789a");
  CHECK(short_name(rows, rows[1]) == "0123456789f");
  rows.push_back(row_of(k_one, 1002));
  CHECK(short_name(rows, rows[0]) == rows[0].name);
  CHECK(short_name({rows[0]}, rows[0]) == "01234567");
  for (const CacheRow& row : rows)
    CHECK(rows_named(rows, short_name(rows, row)) == std::vector<const CacheRow*>{&row});
}

TEST_CASE("the cache table shows users, ages and shortened sources") {
  CacheRows rows = two_rows();
  rows[0].jobs = 1;
  rows[1].source = "/project/" + std::string(100, 'x') + "/set.tar";
  rows[1].made_at = k_now + 5;  // by a clock that was set back since
  rows[1].used_at = k_now - 3 * 3600;
  rows[1].jobs = 1200;
  rows[1].what = "";
  rows[1].array_job = 10;
  rows[1].array_task = 3;
  CHECK(
      cache_table(rows, CacheOwners::hide, k_now) ==
      "NAME         SOURCE                                    KIND       SIZE  FILES  STAGED BY   "
      "  AGE  LAST USED     USED BY  HITS\n"
      "0123456789a  /project/data.tar.gz                      tar.gz  3.0 MiB  1,234   job 4711  2 "
      "days  5 min ago       1 job     5\n"
      "0123456789f  /project/xxxxxxxxx...xxxxxxxxxxx/set.tar  -       3.0 MiB  1,234   job 10_3   "
      "  0 s    3 h ago  1,200 jobs     5\n");
  std::string all = cache_table(rows, CacheOwners::name, k_now);
  CHECK(all.starts_with("NAME         USER   SOURCE "));
  CHECK(has(all, "\n0123456789a  u1001  /project/data.tar.gz "));
  rows[0].het_job = 4710;
  all = cache_table(rows, CacheOwners::name, k_now);
  CHECK(has(all, "  job 4710+1  "));
}

TEST_CASE("cache: a sentence when nothing is kept") {
  CHECK(cache_table({}, CacheOwners::hide, k_now) == "this node keeps no shared items of yours\n");
  CHECK(cache_table({}, CacheOwners::name, k_now) == "this node keeps no shared items\n");
}

TEST_CASE("cache: nothing of a row drives the terminal") {
  CacheRow row = row_of(k_one);
  row.name = "1001.\x1b[2J";
  row.user = row.what = row.source = "\x1b]0;x\x07";
  for (const std::string& text : {cache_table({row}, CacheOwners::name, k_now), cache_json({row}),
                                  drop_line(row, short_name({row}, row))})
    CHECK(text.find_first_of("\x1b\x07") == std::string::npos);
}

TEST_CASE("cache: the names and units that the manual promises") {
  const auto json = nlohmann::json::parse(cache_json({row_of(k_one)}));
  CHECK(json == nlohmann::json::parse(R"({"version": 1, "entries": [{
    "name": "1001.0123456789abcdef0123456789abcdef", "uid": 1001, "user": "u1001",
    "what": "tar.gz", "source": "/project/data.tar.gz",
    "path": "/localscratch/.nodestage-cache/1001.0123456789abcdef0123456789abcdef/data",
    "job": 4711, "made": 1699827200, "used": 1699999700, "bytes": 3145728, "files": 1234,
    "source_bytes": 1048576, "hits": 5, "jobs": 0}]})"));
  CHECK(nlohmann::json::parse(cache_json({})) ==
        nlohmann::json::parse(R"({"version": 1, "entries": []})"));
}

TEST_CASE("cache: the list, as the daemon has it") {
  Ran ran = run({}, two_rows(), 1);
  CHECK(ran.code == 0);
  REQUIRE(ran.asked.size() == 1);
  CHECK(std::holds_alternative<CacheQuery>(ran.asked[0]));
  CHECK(has(ran.output, "\n0123456789f  "));
  ran = run({}, {}, 1);
  CHECK(ran.code == 0);
  CHECK(ran.output.starts_with("this node keeps no shared items"));
  CacheArguments arguments{.json = true};
  ran = run(arguments, two_rows(), 1);
  CHECK(ran.code == 0);
  CHECK(nlohmann::json::parse(ran.output)["entries"].size() == 2);
}

TEST_CASE("cache --drop: without a name, all") {
  const Ran ran = run(drop_of({}), two_rows(), 2);
  CHECK(ran.code == 0);
  REQUIRE(ran.asked.size() == 2);
  CHECK(as<CacheDrop>(ran.asked[1]).names.empty());
  CHECK(ran.output ==
        "removed 0123456789a (/project/data.tar.gz, 3.0 MiB, 1,234 files)\n"
        "removed 0123456789f (/project/data.tar.gz, 3.0 MiB, 1,234 files)\n");
  CHECK(ran.errors.empty());
  const Ran nothing = run(drop_of({}), {}, 2);
  CHECK(nothing.code == 0);
  CHECK(nothing.output == "this node keeps nothing to remove\n");
}

TEST_CASE("cache --drop: the daemon is asked for whole names, once each") {
  const Ran ran = run(drop_of({"0123456789f", "1001." + k_other}), two_rows(), 2);
  CHECK(ran.code == 0);
  REQUIRE(ran.asked.size() == 2);
  CHECK(as<CacheDrop>(ran.asked[1]).names == std::vector<std::string>{"1001." + k_other});
  CHECK(ran.output == "removed 0123456789f (/project/data.tar.gz, 3.0 MiB, 1,234 files)\n");
}

TEST_CASE("cache --drop: what jobs use stays, and the exit code shows it") {
  CacheRows rows = two_rows();
  rows[0].jobs = 2;
  rows[1].files = 1;
  const Ran ran = run(drop_of({}), rows, 2);
  CHECK(ran.code == 1);
  CHECK(ran.output ==
        "0123456789a (/project/data.tar.gz, 3.0 MiB, 1,234 files) stays, because 2 jobs use it\n"
        "removed 0123456789f (/project/data.tar.gz, 3.0 MiB, 1 file)\n");
  CHECK(has(ran.errors, "when these jobs have ended"));
}

TEST_CASE("cache --drop: what cannot be removed is not said to be, and the exit code shows it") {
  CacheRows rows = two_rows();
  rows[0].fault = "it cannot be removed, and is tried again: Device or resource busy";
  const Ran ran = run(drop_of({}), rows, 2);
  CHECK(ran.code == 1);
  CHECK(ran.output ==
        "0123456789a (/project/data.tar.gz, 3.0 MiB, 1,234 files) stays: it cannot be removed, and "
        "is tried again: Device or resource busy\n"
        "removed 0123456789f (/project/data.tar.gz, 3.0 MiB, 1,234 files)\n");
  CHECK(has(ran.errors, "not all of it could be removed"));
}

TEST_CASE("cache --drop: a name that is not of one entry removes nothing") {
  for (const char* name : {"", "f", "1001", "01234567"}) {
    CAPTURE(name);
    const Ran ran = run(drop_of({"0123456789f", name}), two_rows(), 1);
    CHECK(ran.code == 2);
    CHECK(ran.asked.size() == 1);
    CHECK(ran.output.empty());
    CHECK(has(ran.errors, "`nodestage cache` lists the names"));
  }
  CHECK(has(run(drop_of({"01234567"}), two_rows(), 1).errors, "is the start of 2 names"));
}

TEST_CASE("cache reports a daemon that does not answer") {
  CacheArguments arguments{.socket = "/nonexistent/socket"};
  const Scratch scratch;
  Output errors(scratch, STDERR_FILENO);
  const int code = cache(arguments);
  CHECK(has(errors.text(), "nodestaged does not answer"));
  CHECK(code == 1);
}
