#include <doctest/doctest.h>

#include "common/talk/summary.hpp"

using namespace nodestage;

namespace {

ItemRecord item(ItemState state, const char* source) {
  ItemRecord record{.state = static_cast<std::uint32_t>(state)};
  set_field(record.source, source);
  set_field(record.what, "tar.gz");
  set_field(record.destination, "/localscratch/a.1.0/data");
  return record;
}

}  // namespace

TEST_CASE("a line says what, where, files, bytes, seconds, rate and note") {
  WorkerStatus status;
  status.items.push_back(item(ItemState::done, "/p/data.tar.gz"));
  status.items[0].files = 60000;
  status.items[0].bytes_written = 4ULL << 30;
  status.items[0].elapsed_ms = 4096;
  set_field(status.items[0].note, "2 devices skipped");
  CHECK(summary_lines(status)[0] ==
        "data.tar.gz (tar.gz) -> /localscratch/a.1.0/data: 60,000 files, 4.0 GiB in 4.1 s (1.0 "
        "GiB/s); 2 devices skipped");
  status.items[0].bytes_written = 300000;
  CHECK(summary_lines(status)[0].ends_with("293.0 KiB in 4.1 s; 2 devices skipped"));
}

TEST_CASE("of what is only linked, the line says where it comes from") {
  WorkerStatus status;
  status.items.push_back(item(ItemState::done, "/p/data.tar"));
  set_field(status.items[0].what, "tar");
  status.items[0].flags = k_item_shared | k_item_linked;
  set_field(status.items[0].note, "shared, already here (staged by job 4711)");
  CHECK(summary_lines(status)[0] ==
        "data.tar (tar) -> /localscratch/a.1.0/data: shared, already here (staged by job 4711)");
  set_field(status.items[0].what, "");
  CHECK(summary_lines(status)[0].starts_with("data.tar -> /localscratch/a.1.0/data: shared, "));
  set_field(status.items[0].note, "a\nb\x1b[2J");
  CHECK(summary_lines(status)[0].ends_with("/data: a. b\\x1b[2J"));
  // Of one that was staged, the figures come first.
  status.items[0].flags = k_item_shared | k_item_whole;
  set_field(status.items[0].note, "shared: kept on this node for your further jobs");
  CHECK(summary_lines(status)[0].ends_with(
      "/data: 0 files, 0 B in 0.0 s; shared: kept on this node for your further jobs"));
  // And if it failed, why.
  status.items[0].state = static_cast<std::uint32_t>(ItemState::failed);
  status.items[0].flags = k_item_linked;
  set_field(status.items[0].note, "why");
  CHECK(summary_lines(status)[0] == "data.tar: not staged: why");
}

TEST_CASE("of an output that was delivered before, the line says what its target has") {
  WorkerStatus status;
  status.items.push_back(item(ItemState::done, "/p/results"));
  ItemRecord& output = status.items[0];
  set_field(output.what, "directory");
  output.files_in_all = 4;
  output.bytes_in_all = 1153434;
  output.deliveries = 7;
  CHECK(delivery_lines(status)[0] ==
        "results (directory) -> /localscratch/a.1.0/data: up to date: 4 files, 1.1 MiB in 7 "
        "deliveries");
  output.files = 1;
  output.bytes_written = 4;
  CHECK(delivery_lines(status)[0].ends_with(
      ": 1 file, 4 B in 0.0 s; up to date: 4 files, 1.1 MiB in 7 deliveries"));
  CHECK(status_items(status, WorkerTask::push)[0].files == 4);
  CHECK(status_items(status, WorkerTask::push)[0].bytes_written == 1153434);
  output.pruned = 2;
  CHECK(delivery_lines(status)[0].ends_with(" in 7 deliveries, 2 files pruned"));
  CHECK(status_items(status, WorkerTask::push)[0].note == "2 files pruned");
  output.deliveries = 1;  // this one
  CHECK(delivery_lines(status)[0].ends_with(": 1 file, 4 B in 0.0 s"));
}

TEST_CASE("failed, skipped and unfinished items") {
  WorkerStatus status;
  for (const auto state : {ItemState::failed, ItemState::skipped, ItemState::working}) {
    status.items.push_back(item(state, "/p/x.tar/"));
    set_field(status.items.back().note, "why");
  }
  status.items[0].flags = k_item_optional;
  const auto lines = summary_lines(status);
  CHECK(lines[0] == "x.tar (tar.gz): not staged (optional, the job goes on): why");
  CHECK(lines[1] == "x.tar (tar.gz): skipped: why");
  CHECK(lines[2] == "x.tar (tar.gz): not finished");
  // The cause of an installer has many lines.
  set_field(status.items[0].note, "pip failed:\nno such package");
  CHECK(summary_lines(status)[0] ==
        "x.tar (tar.gz): not staged (optional, the job goes on): pip failed:. no such package");
  CHECK(user_summary(status) ==
        std::vector<std::string>{
            "x.tar (tar.gz): not staged (optional, the job goes on): pip failed:",
            "  no such package", "x.tar (tar.gz): skipped: why", "x.tar (tar.gz): not finished"});
}

TEST_CASE("a push has a line for each output that was asked for") {
  WorkerStatus status{.phase = WorkerPhase::done};
  for (const char* source : {"results", "logs", "other"}) {
    status.items.push_back(item(ItemState::done, source));
    set_field(status.items.back().what, "");
    set_field(status.items.back().destination, "/t");
  }
  ItemRecord& other = status.items[2];
  other.state = static_cast<std::uint32_t>(ItemState::skipped);
  CHECK(push_lines(status) == std::vector<std::string>{"results -> /t: 0 files, 0 B in 0.0 s",
                                                       "logs -> /t: 0 files, 0 B in 0.0 s"});
  CHECK(is_all_delivered(status, PushAsked::all));
  CHECK(is_all_delivered(status, PushAsked::by_name));
  // What is not there yet is no fault, unless it was asked for by its name.
  set_field(other.note, "is not there yet");
  CHECK(push_lines(status)[2] == "other: skipped: is not there yet");
  CHECK(is_all_delivered(status, PushAsked::all));
  CHECK_FALSE(is_all_delivered(status, PushAsked::by_name));
  status.items[0].flags = k_item_unsettled;
  status.items[0].elapsed_ms = 3000;
  set_field(status.items[0].note, "1 file was being written");
  CHECK(push_lines(status)[0] ==  // a rate of nothing is none
        "results -> /t: 0 files, 0 B in 3.0 s; 1 file was being written");
  CHECK_FALSE(is_all_delivered(status, PushAsked::all));
  status.items[0].flags = 0;
  status.items[1].state = static_cast<std::uint32_t>(ItemState::failed);
  set_field(status.items[1].note, "No space left on device");
  CHECK(push_lines(status)[1] == "logs -> /t: not delivered: No space left on device");
  CHECK_FALSE(is_all_delivered(status, PushAsked::all));
  status.items[1].state = static_cast<std::uint32_t>(ItemState::working);
  CHECK_FALSE(is_all_delivered(status, PushAsked::all));
  status.items.resize(1);
  CHECK(is_all_delivered(status, PushAsked::all));
  status.phase = WorkerPhase::failed;
  CHECK_FALSE(is_all_delivered(status, PushAsked::all));
  CHECK(status_items(status, WorkerTask::push)[0].kind == ItemKind::output);
}

TEST_CASE("what a worker wrote cannot drive a terminal") {
  WorkerStatus status;
  status.items.push_back(item(ItemState::failed, "/p/\x1b[2J.tar"));
  set_field(status.items[0].note, "a\nb\x1b]0;x\x07");
  CHECK(summary_lines(status)[0].find_first_of("\x1b\n\x07") == std::string::npos);
  CHECK(summary_lines(status)[0].ends_with(": a. b\\x1b]0;x\\x07"));
}

TEST_CASE("progress counts what the job waits for") {
  WorkerStatus status{.phase = WorkerPhase::working};
  for (const auto state : {ItemState::done, ItemState::working, ItemState::working}) {
    status.items.push_back(item(state, "/p/x.tar"));
    status.items.back().bytes_read = 10;
    status.items.back().bytes_total = 100;
    status.items.back().files = 1;
  }
  status.items[2].flags = k_item_async;
  Progress progress = progress_of(status);
  CHECK(progress.phase == ProgressPhase::staging);
  CHECK(progress.items == 2);
  CHECK(progress.items_done == 1);
  CHECK(progress.bytes_read == 20);
  CHECK(progress.bytes_total == 200);
  CHECK(progress.files == 2);
  CHECK(progress.current == "x.tar");
  status.items[1].bytes_total = 0;
  CHECK(progress_of(status).bytes_total == 0);
  status.items[1].state = static_cast<std::uint32_t>(ItemState::waiting);
  CHECK(progress_of(status).current == "x.tar");
  status.items[1].bytes_read = 0;
  CHECK(progress_of(status).current == "x.tar");
  status.phase = WorkerPhase::starting;
  CHECK(progress_of(status).current.empty());
}

TEST_CASE("progress shows the environment that is built, without the figures of others") {
  WorkerStatus status{.phase = WorkerPhase::working};
  status.items.push_back(item(ItemState::done, "/p/x.tar"));
  status.items.back().bytes_read = status.items.back().bytes_total = 100;
  status.items.back().files = 1;
  status.items.push_back(item(ItemState::working, "/p/requirements.txt"));
  status.items.back().flags = k_item_venv;
  set_field(status.items.back().what, "requirements");
  set_field(status.items.back().note, "");
  Progress progress = progress_of(status);
  CHECK(progress.current == "requirements.txt: its installer starts");
  CHECK(progress.bytes_read == 0);
  CHECK(progress.files == 0);
  set_field(status.items[1].note, "Installing numpy");
  CHECK(progress_of(status).current == "requirements.txt: Installing numpy");
  // What waits was looked at, and is not what happens now.
  status.items[0].state = static_cast<std::uint32_t>(ItemState::waiting);
  CHECK(progress_of(status).current == "requirements.txt: Installing numpy");
  status.items[0].state = static_cast<std::uint32_t>(ItemState::working);
  progress = progress_of(status);
  CHECK(progress.current == "x.tar");
  CHECK(progress.bytes_total == 100);
}
