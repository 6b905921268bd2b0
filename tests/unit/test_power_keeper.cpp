#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "common/os/file.hpp"
#include "daemon/root/held/power_keeper.hpp"
#include "scratch.hpp"
#include "texts.hpp"

using namespace nodestage;

namespace {

// A daemon with a scontrol that keeps SuspendExcNodes in a file, and with a program to notify.
// Both write what they were called with.
class PowerSite {
 public:
  PowerSite() {
    write_program("scontrol", R"sh(
case "$1 $2" in
"show config")
  echo "SuspendExcNodes         = $(cat DIR/list)"
  echo "SuspendProgram          = $(cat DIR/program)"
  exit ;;
"show hostnames")
  echo "$3" | tr , '\n'
  exit ;;
esac
echo "$@" >>DIR/calls
[ ! -e DIR/broken ] || { echo "no such thing"; exit 1; }
case $2 in
SuspendExcNodes+=*) [ "$(cat DIR/list)" = "(null)" ] && echo "${2#*=}" >DIR/list || echo "$(cat DIR/list),${2#*=}" >DIR/list ;;
SuspendExcNodes-=*) sed -i "s/,*${2#*=}//; s/^$/(null)/" DIR/list ;;
esac
)sh");
    write_program("notify", "echo \"notify $*\" >>DIR/calls\n");
    write("list", "(null)");
    write("program", "/usr/bin/slurm_suspend");
    config_.slurm.scontrol = scratch_ / "scontrol";
    config_.daemon.state_dir = scratch_.path().string();
    config_.hold.keep_powered = true;
    start();
  }

  // As a daemon that starts: what the last one has said is in its file.
  void start() {
    keeper_.reset();
    table_.emplace(loop_, journal_, counters_);
    for (const std::uint32_t job : held_) add(job);
    keeper_.emplace(PowerKeeper::Places{loop_, config_, *table_});
    keeper_->look();
  }
  void hold(std::uint32_t job) {
    held_.push_back(job);
    add(job);
    keeper_->look();
  }
  void release() {
    for (const std::uint32_t job : std::exchange(held_, {})) table_->forget({job, 0});
    keeper_->look();
  }
  // Runs until this was said, after what was said before.
  void until(const std::string& said) {
    expected_ += said;
    const auto end = Clock::now() + std::chrono::seconds(180);
    while (calls() != expected_ && Clock::now() < end) run(20);
    CHECK(calls() == expected_);
  }
  // Runs until scontrol has changed the list to this.
  void until_list(const std::string& list) {
    const auto end = Clock::now() + std::chrono::seconds(180);
    while (this->list() != list + "\n" && Clock::now() < end) run(20);
    CHECK(this->list() == list + "\n");
  }
  // Runs for a while, in which nothing may be said.
  void nothing_more() {
    run(500);
    CHECK(calls() == expected_);
  }
  void pass(std::chrono::seconds time) { loop_.advance(time); }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(scratch_ / name) << text << '\n';
  }
  void remove(const std::string& name) const { ::unlink((scratch_ / name).c_str()); }
  [[nodiscard]] std::string list() const {
    return read_file(AT_FDCWD, scratch_ / "list", 1 << 20).value();
  }
  Config& config() { return config_; }
  [[nodiscard]] std::string path(const std::string& name) const { return scratch_ / name; }

 private:
  void write_program(const std::string& name, std::string script) const {
    for (std::size_t at = 0; (at = script.find("DIR", at)) != std::string::npos;)
      script.replace(at, 3, scratch_.path().string());
    std::ofstream(scratch_ / name) << "#!/bin/sh\n" << script;
    ::chmod((scratch_ / name).c_str(), 0755);
  }
  void add(std::uint32_t job) {
    JobRecord record;
    record.begin.job = job;
    record.begin.node = "n1";
    record.in_hold = true;
    REQUIRE(table_->add(std::move(record)));
  }
  [[nodiscard]] std::string calls() const {
    const auto text = read_file(AT_FDCWD, scratch_ / "calls", 1 << 20);
    return text ? *text : "";
  }
  void run(int milliseconds) {
    loop_.after(std::chrono::milliseconds(milliseconds), [this] { loop_.stop(); });
    REQUIRE(loop_.run());
  }

  Scratch scratch_;
  Config config_;
  Loop loop_ = std::move(*Loop::create());
  Counters counters_;
  Journal journal_ = std::move(*Journal::open(scratch_.path().string()));
  std::optional<JobTable> table_;
  std::optional<PowerKeeper> keeper_;
  std::vector<std::uint32_t> held_;
  std::string expected_;
};

}  // namespace

TEST_CASE("power: a node is listed while it holds results, once for all of them") {
  if (skipped_without_root()) return;
  PowerSite site;
  site.nothing_more();
  site.hold(7);
  site.until("update SuspendExcNodes+=n1\n");
  site.until_list("n1");
  site.hold(8);
  site.nothing_more();
  site.release();
  site.until("update SuspendExcNodes-=n1\n");
  site.until_list("(null)");
  site.nothing_more();
}

TEST_CASE("power: a node that the site has listed stays listed") {
  if (skipped_without_root()) return;
  PowerSite site;
  site.write("list", "m1,n1");
  site.hold(7);
  site.nothing_more();
  site.release();
  site.nothing_more();
  CHECK(site.list() == "m1,n1\n");
}

TEST_CASE("power: where Slurm switches nothing off nothing is said") {
  if (skipped_without_root()) return;
  PowerSite site;
  site.write("program", "(null)");
  site.hold(7);
  site.nothing_more();
}

TEST_CASE("power: the next daemon takes back what the last one has said") {
  if (skipped_without_root()) return;
  PowerSite site;
  site.config().hold.notify = site.path("notify");
  site.hold(7);
  site.until("notify begin n1\nupdate SuspendExcNodes+=n1\n");
  site.until_list("n1");
  site.nothing_more();
  site.start();
  site.nothing_more();
  // Switched off meanwhile, or all has left: it is taken back in any case.
  site.config().hold.keep_powered = false;
  site.release();
  site.start();
  site.until("update SuspendExcNodes-=n1\nnotify end n1\n");
  site.start();
  site.nothing_more();
}

TEST_CASE("power: what fails is tried again a minute later, and a list that was lost is mended") {
  if (skipped_without_root()) return;
  PowerSite site;
  site.write("broken", "");
  site.hold(7);
  site.until("update SuspendExcNodes+=n1\n");
  site.nothing_more();
  site.remove("broken");
  site.pass(std::chrono::seconds(61));
  site.until("update SuspendExcNodes+=n1\n");
  site.until_list("n1");
  site.nothing_more();
  site.write("list", "(null)");  // as after a restart of slurmctld
  site.nothing_more();
  site.pass(std::chrono::seconds(301));
  site.until("update SuspendExcNodes+=n1\n");
}
