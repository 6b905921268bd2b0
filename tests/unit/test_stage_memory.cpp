#include <doctest/doctest.h>

#include "stage_run.hpp"

using namespace nodestage;
namespace fs = std::filesystem;

namespace {

// A job with a directory in memory, in place of a tmpfs another one of the scratch directory's.
struct MemoryRun : StageRun {
  MemoryRun() {
    REQUIRE(in_data("mkdir mem d && head -c 3000000 /dev/zero >d/big && echo text >d/text && "
                    "tar cf d.tar d && bzip2 -k d.tar") == 0);
    order.memory.directory = data() + "/mem";
    order.memory.most_bytes = 8'000'000;
  }
  DatasetItem& in_memory(const std::string& name, const std::string& destination) {
    DatasetItem& item = add(name);
    item.destination = destination;
    item.storage = Storage::memory;
    return item;
  }
  [[nodiscard]] bool in_mem(const std::string& test) const {
    return shell(order.memory.directory, test) == 0;
  }
};

}  // namespace

TEST_CASE("a dataset in memory has a link in the job directory, and its variable the real path") {
  MemoryRun run;
  run.in_memory("d.tar", "x/set").strip = 1;
  run.add("d/text");
  run.order.cache = "/cache";
  run.order.cache_min_age_s = 0;
  REQUIRE(run.run() == 0);
  const std::string path = run.order.memory.directory + "/x/set";
  CHECK(fs::read_symlink(run.job() + "/x/set") == path);
  CHECK(fs::is_regular_file(path + "/text"));
  CHECK(fs::is_regular_file(fs::symlink_status(run.job() + "/text")));
  CHECK(run.status.environment.at(0) == "NODESTAGE_DATASET=" + path);
  CHECK(run.status.environment.at(2) == "NODESTAGE_DATASET_TEXT=" + run.job() + "/text");
  CHECK(run.note(0) == "in memory");
  CHECK(run.note(1).empty());
  CHECK(run.status.items[0].source_mark == 0);  // What is in memory cannot be kept for others.
  CHECK(run.status.items[1].source_mark != 0);
  CHECK(run.in_mem("test \"$(ls -A)\" = x"));
  CHECK(run.in_job("test ! -e .nodestage-partial"));
}

TEST_CASE("all items in memory share the job's memory, and those on the disk do not") {
  MemoryRun run;
  run.in_memory("d/big", "a");
  run.add("d/big").destination = "disk";
  SUBCASE("one fits") {
    REQUIRE(run.run() == 0);
    CHECK(run.in_mem("test -f a"));
  }
  SUBCASE("two do not") {
    run.in_memory("d/big", "b");
    CHECK(run.run() == 1);
    CHECK(
        run.has_cause("/d/big and another dataset together need 5.7 MiB of memory, but in=memory "
                      "may take 5.7 MiB in all: 75% of the 7.6 MiB that the job has on node n1"));
    CHECK(run.has_cause("\nAsk for more memory (--mem=9M or more)"));
    CHECK(run.in_mem("test -z \"$(ls -A)\""));
  }
  SUBCASE("the second one is optional") {
    run.in_memory("d/big", "b").optional = true;
    REQUIRE(run.run() == 0);
    CHECK(run.in_mem("test \"$(ls -A)\" = a"));
    CHECK(run.state(2) == ItemState::failed);
  }
}

TEST_CASE("what has no known size stops at the job's share") {
  MemoryRun run;
  run.order.memory.most_bytes = 2'000'000;
  run.in_memory("d.tar.bz2", "x");
  CHECK(run.run() == 1);
  CHECK(run.has_cause("in=memory may take 1.4 MiB in all"));
  CHECK(run.in_mem("test -z \"$(ls -A)\""));
}

TEST_CASE("without a directory in memory, the job fails with the reason") {
  MemoryRun run;
  run.order.memory.directory.clear();
  run.order.memory.refusal = "/dev/shm: is not a tmpfs";
  run.in_memory("d.tar", "x");
  CHECK(run.run() == 1);
  CHECK(run.has_cause("data cannot be staged in memory on node n1: /dev/shm: is not a tmpfs\n"));
}

TEST_CASE("two items cannot have one destination, wherever they lie") {
  MemoryRun run;
  run.in_memory("d.tar", "x");
  run.add("d/text").destination = "x/text";
  CHECK(run.run() == 1);
  CHECK(run.has_cause("one inside of the other"));
}
