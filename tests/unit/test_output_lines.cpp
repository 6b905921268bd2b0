#include <doctest/doctest.h>

#include "common/talk/summary.hpp"
#include "daemon/root/held/hold.hpp"

using namespace nodestage;

namespace {

ItemRecord item(const char* source, ItemState state, const char* note = "") {
  ItemRecord record{};
  set_field(record.source, source);
  set_field(record.destination, std::string("/t/") + source);
  set_field(record.note, note);
  record.state = static_cast<std::uint32_t>(state);
  record.files = 2;
  return record;
}

WorkerStatus status() {
  WorkerStatus status;
  status.phase = WorkerPhase::failed;
  status.items = {item("a", ItemState::done), item("b", ItemState::failed, "disk full"),
                  item("c", ItemState::skipped, "when=success, and the job failed")};
  return status;
}

JobRecord delivered_job(std::uint32_t node_index = 0, std::uint32_t node_count = 1) {
  JobRecord record;
  record.begin.job = 12;
  record.begin.node = "n1";
  record.begin.node_index = node_index;
  record.begin.node_count = node_count;
  return record;
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("a line for each output, and on nodes after the first none of what is not there") {
  const Lines all = {"a -> /t/a: 2 files, 0 B in 0.0 s", "b -> /t/b: not delivered: disk full",
                     "c: skipped: when=success, and the job failed"};
  CHECK(result_lines(delivered_job(), status()) == all);
  CHECK(result_lines(delivered_job(0, 2), status()) == all);
  CHECK(result_lines(delivered_job(1, 2), status()) == Lines{all[0], all[1]});
  JobRecord pushed = delivered_job();
  pushed.push_has_failed = true;
  CHECK(result_lines(pushed, status()).size() == 4);
}

TEST_CASE("what is held says how to fetch it, and why where no output does") {
  const Lines lines = held_lines(delivered_job(), status(), "stage-out of b failed\nadvice");
  REQUIRE(lines.size() == 4);
  CHECK(lines[3] ==
        "what could not be delivered is kept on this node: `nodestage recover 12 DIR --node=n1` "
        "copies it to DIR");
  CHECK(held_lines(delivered_job(1, 3), status(), "").back() ==
        "what could not be delivered is kept on this node: `nodestage recover 12 DIR --all-nodes` "
        "copies it to DIR/n1");
  const Lines unknown = held_lines(delivered_job(), {}, "the process was\tkilled\nadvice");
  REQUIRE(unknown.size() == 2);
  CHECK(unknown[0] == "results could not be delivered: the process was\\x09killed");
}

TEST_CASE("results that are lost are reported as lost") {
  CHECK(lost_lines(delivered_job(), status(), "cause", Loss::mount).back() ==
        "what could not be delivered is lost with the site's directory");
  const Lines removed = lost_lines(delivered_job(), {}, "/l/a.12.0 was removed", Loss::removed);
  CHECK(removed == Lines{"results could not be delivered: /l/a.12.0 was removed",
                         "the results are lost; tell your site's support"});
}

TEST_CASE("what became of what was held says so") {
  CHECK(released_lines(status(), "") ==
        Lines{"a -> /t/a: 2 files, 0 B in 0.0 s", std::string(k_kept_delivered)});
  CHECK(released_lines(status(), "recovered to /home/\x1b") == Lines{"recovered to /home/\\x1b"});
}
