#include <doctest/doctest.h>
#include <fcntl.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <sstream>

#include "common/os/file.hpp"
#include "daemon/root/basis/log.hpp"
#include "scratch.hpp"
#include "texts.hpp"

using namespace nodestage;
using namespace std::chrono_literals;

namespace {

// What write() sends to the default logger.
class TextLog {
 public:
  TextLog() : before_(spdlog::default_logger()) {
    const auto sink = std::make_shared<spdlog::sinks::ostream_sink_st>(text_);
    spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", sink));
    spdlog::set_pattern("%l: %v");
  }
  TextLog(const TextLog&) = delete;
  TextLog& operator=(const TextLog&) = delete;
  ~TextLog() { spdlog::set_default_logger(before_); }
  [[nodiscard]] std::string text() const { return text_.str(); }

 private:
  std::ostringstream text_;
  std::shared_ptr<spdlog::logger> before_;
};

JobRecord job() { return {.begin = {.job = 12, .restart = 1, .uid = 1000}}; }

}  // namespace

TEST_CASE("a line for the journal has its job, user and source as fields") {
  const auto fields = log::journal_fields(log::Level::warn, about_item(job(), "/p/a.tar"), "text");
  CHECK(fields.size() == 6);
  check_has(fields, {"MESSAGE=text", "PRIORITY=4", "NODESTAGE_JOB=12.1", "NODESTAGE_UID=1000",
                     "NODESTAGE_ROLE=daemon", "NODESTAGE_ITEM=/p/a.tar"});
  const auto plain = log::journal_fields(log::Level::err, {}, "text");
  CHECK(plain.size() == 3);
  CHECK(has(plain, "PRIORITY=3"));
  CHECK(has(log::journal_fields(log::Level::info, about(job(), "worker"), ""),
            "NODESTAGE_ROLE=worker"));
  CHECK(has(log::journal_fields(log::Level::info, {}, ""), "PRIORITY=6"));
  CHECK(has(log::journal_fields(log::Level::debug, {}, ""), "PRIORITY=7"));
  CHECK(has(log::journal_fields(log::Level::critical, {}, ""), "PRIORITY=2"));
}

TEST_CASE("no text makes a second line or another field") {
  const std::string hostile = "a\nNODESTAGE_UID=0\x1b[2J\xff";
  for (const std::string& field :
       log::journal_fields(log::Level::info, about_item(job(), hostile), hostile)) {
    INFO(field);
    CHECK(std::none_of(field.begin(), field.end(), [](unsigned char c) { return c < 0x20; }));
    CHECK_FALSE(field.starts_with("NODESTAGE_UID=0"));
  }
  const TextLog text;
  log::info(about(job()), "{}", hostile);
  CHECK(text.text() == "info: job=12.1 uid=1000 role=daemon: a; NODESTAGE_UID=0\\x1b[2J\\xff\n");
}

TEST_CASE("a line of text has its level and subject, and debug lines are left out") {
  const TextLog text;
  log::warn("{} things", 3);
  log::info(about(job(), "worker"), "{}", "{}");
  log::info(about_item(job(), "x"), "no more braces");
  log::error(Subject{{}, 5, "remover", "trash/7"}, "stays");
  log::debug("{}", "not wanted");
  CHECK(text.text() ==
        "warning: 3 things\ninfo: job=12.1 uid=1000 role=worker: {}\n"
        "info: job=12.1 uid=1000 role=daemon: no more braces\n"
        "error: item=trash/7 role=remover: stays\n");
}

TEST_CASE("whether a descriptor is journald's stream") {
  const Scratch scratch;
  std::ofstream(scratch / "log");
  const Fd fd(::open((scratch / "log").c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info {};
  REQUIRE(::fstat(fd.get(), &info) == 0);
  const std::string device = std::to_string(info.st_dev);
  const std::string inode = std::to_string(info.st_ino);
  CHECK(log::is_journal_stream((device + ":" + inode).c_str(), fd.get()));
  CHECK_FALSE(log::is_journal_stream(nullptr, fd.get()));
  CHECK_FALSE(log::is_journal_stream("", fd.get()));
  CHECK_FALSE(log::is_journal_stream((device + ":" + inode + "1").c_str(), fd.get()));
  CHECK_FALSE(log::is_journal_stream((device + ":" + inode).c_str(), -1));
}

TEST_CASE("lines about one user are bounded in length and in all, and warnings are still written") {
  JobRecord flooder = job();
  flooder.begin.uid = 4711;
  const std::string path(3900, '\x1b');
  const TextLog text;
  const auto begun = std::chrono::steady_clock::now();
  for (int i = 0; i < 2'000; ++i) log::info(about(flooder), "recovery to {} starts", path);
  // So much in each minute.
  const auto minutes = 1 + (std::chrono::steady_clock::now() - begun) / std::chrono::minutes(1);
  CHECK(text.text().size() < static_cast<std::size_t>(minutes) * 3 * (1 << 20) / 2);
  log::warn(about_item(flooder, path), "recovery failed");
  log::info(about(job()), "ready");
  std::istringstream lines(text.text());
  std::string line;
  while (std::getline(lines, line)) CHECK(line.size() < 2'300);
  CHECK(has(text.text(), "uid=4711 role=daemon: recovery failed\n"));
  CHECK(text.text().ends_with("uid=1000 role=daemon: ready\n"));
}

namespace {

constexpr LogLimit::Moment k_begin{1h};
constexpr std::size_t k_line = k_log_bytes_a_minute / 100;

// How many of `lines` lines are admitted.
int admitted(LogLimit& limit, uid_t user, Weight weight, int lines, LogLimit::Moment now) {
  int count = 0;
  for (int i = 0; i < lines; ++i)
    if (limit.ask(user, weight, k_line, now).is_admitted) ++count;
  return count;
}

}  // namespace

TEST_CASE("a user fills so much of the log in a minute, and leaves room for warnings and others") {
  LogLimit limit;
  CHECK(admitted(limit, 1000, Weight::light, 10'000, k_begin) == 100);
  CHECK(admitted(limit, 1000, Weight::light, 10'000, k_begin + 59s) == 0);
  CHECK(admitted(limit, 1000, Weight::heavy, 10, k_begin) == 10);
  CHECK(admitted(limit, 1001, Weight::light, 10'000, k_begin + 59s) == 100);
}

TEST_CASE("what was left out is reported once, by the first line of a later minute") {
  LogLimit limit;
  admitted(limit, 1000, Weight::light, 250, k_begin);
  // Other users come and go meanwhile.
  for (uid_t user = 2000; user < 2100; ++user)
    CHECK(limit.ask(user, Weight::light, 1, k_begin + 2min).left_out == 0);
  const auto next = limit.ask(1000, Weight::light, 1, k_begin + 3min);
  CHECK(next.is_admitted);
  CHECK(next.left_out == 150);
  CHECK(limit.ask(1000, Weight::light, 1, k_begin + 5min).left_out == 0);
}
