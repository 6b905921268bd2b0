#include <doctest/doctest.h>

#include "common/talk/summary.hpp"
#include "daemon/root/jobs/waiting.hpp"

using namespace nodestage;

namespace {

const std::string k_job_directory = "/localscratch/a.1.0";

ItemRecord item(ItemState state, const std::string& name, const std::string& destination) {
  ItemRecord record{};
  record.state = static_cast<std::uint32_t>(state);
  set_field(record.name, name);
  set_field(record.destination, k_job_directory + "/" + destination);
  return record;
}

WorkerStatus three() {
  WorkerStatus status;
  status.phase = WorkerPhase::ready;
  status.items = {item(ItemState::done, "DATA", "data"),
                  item(ItemState::working, "_2ND", "sets/two.h5"),
                  item(ItemState::failed, "TWO", "2nd")};
  return status;
}

// The names of the items that `name` means.
std::string meant_by(const std::string& name) {
  return dataset_names(choose_awaited(three(), {name}, k_job_directory).status);
}

}  // namespace

TEST_CASE("a name is taken as people write it") {
  CHECK(meant_by("DATA") == "DATA");
  CHECK(meant_by("data") == "DATA");
  CHECK(meant_by("NODESTAGE_DATASET_DATA") == "DATA");
  CHECK(meant_by("nodestage_dataset_2nd") == "");
  CHECK(meant_by("nodestage_dataset__2nd") == "_2ND");
  CHECK(meant_by("NODESTAGE_DATASET") == "DATA");
  CHECK(meant_by("sets/two.h5") == "_2ND");
  CHECK(meant_by("sets/two.h5/") == "_2ND");
  CHECK(meant_by(k_job_directory + "/sets/two.h5") == "_2ND");
  // The variable's name before a destination.
  CHECK(meant_by("2nd") == "_2ND");
  CHECK(meant_by(k_job_directory + "/2nd") == "TWO");
  CHECK(meant_by("").empty());
  CHECK(meant_by("/").empty());
  CHECK(meant_by(std::string(256, 'x')).empty());
}

TEST_CASE("a name longer than its field is still found") {
  const std::string name(300, 'A');
  WorkerStatus status;
  status.items = {item(ItemState::done, name, "x")};
  CHECK(choose_awaited(status, {name.substr(0, 256)}, k_job_directory).unknown.empty());
  CHECK(choose_awaited(status, {"nodestage_dataset_" + name}, k_job_directory).unknown.empty());
}

TEST_CASE("names that mean nothing, twice the same, and none at all") {
  const auto some = choose_awaited(three(), {"data", "x", "DATA", "y"}, k_job_directory);
  CHECK(some.unknown == std::vector<std::string>{"x", "y"});
  CHECK(some.status.items.size() == 1);
  CHECK(choose_awaited(three(), {}, k_job_directory).status.items.size() == 3);
  CHECK(choose_awaited({}, {}, k_job_directory).unknown.empty());
  CHECK(choose_awaited({}, {"NODESTAGE_DATASET"}, k_job_directory).unknown.size() == 1);
}

TEST_CASE("failures of items are listed with their causes") {
  WorkerStatus status = three();
  CHECK_FALSE(all_ended(status));
  set_field(status.items[2].note, "no such file\nCheck \x1b[2J the path");
  CHECK(failures(status, Optional::counts, "") ==
        "dataset 'TWO': no such file\nCheck \\x1b[2J the path");
  CHECK(failures(status, Optional::counts, "the worker died")
            .starts_with("dataset '_2ND': the worker died\ndataset 'TWO': "));
  status.items[2].flags = k_item_optional;
  CHECK(failures(status, Optional::is_left_out, "").empty());
  CHECK_FALSE(failures(status, Optional::counts, "").empty());
  status.items[1].state = static_cast<std::uint32_t>(ItemState::skipped);
  CHECK(all_ended(status));
  CHECK(all_ended({}));
}

TEST_CASE("what a hostile worker says stays in bounds") {
  WorkerStatus status;
  ItemRecord record{};
  record.state = static_cast<std::uint32_t>(ItemState::failed);
  std::fill(std::begin(record.name), std::end(record.name), '\x01');  // no NUL
  std::fill(std::begin(record.note), std::end(record.note), '\x01');
  status.items.assign(64, record);
  CHECK(failures(status, Optional::counts, "").size() < 48 * 1024);
  CHECK(dataset_names(status).size() < 80 * 1024);
  CHECK(dataset_names(status).find('\x01') == std::string::npos);
}

TEST_CASE("the progress of what is awaited counts async items") {
  WorkerStatus status = three();
  for (auto& each : status.items) each.flags = k_item_async;
  CHECK(progress_of(status).items == 0);
  const Progress progress = progress_of(status, Counted::all);
  CHECK(progress.items == 3);
  CHECK(progress.items_done == 2);
}
