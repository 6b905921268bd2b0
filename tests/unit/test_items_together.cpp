// Items of one request that exclude each other.
#include <doctest/doctest.h>

#include "common/request/destinations.hpp"
#include "option_items.hpp"
#include "texts.hpp"

using namespace nodestage;

TEST_CASE("an environment and a dataset in one place") {
  StageRequest request;
  request.venv = VenvItem{};
  request.venv->source = "/p/venv";
  request.datasets.push_back(dataset("/p/a.tar"));
  CHECK(check_together(request));
  request.datasets.push_back(dataset("/p/b.tar:env/data"));
  const Status status = check_together(request);
  REQUIRE_FALSE(status);
  CHECK(has(status.error().what, "the environment '/p/venv' would both go to $SLURM_TMPDIR/env"));
}

TEST_CASE("what is shared has one destination, beside all others") {
  const auto refused = [](std::vector<DatasetItem> items) {
    StageRequest request;
    request.datasets = std::move(items);
    const Status status = check_together(request);
    return status ? "" : status.error().what;
  };
  CHECK(has(refused({dataset("/p/*.tar,shared")}),
            "'/p/*.tar' is a glob without a destination: each match would go to a name of its own, "
            "and only one can be shared; give it a destination: "
            "--stage-dataset=SOURCE:DEST,shared"));
  CHECK(refused({dataset("/p/*.tar:all,shared")}).empty());
  CHECK(refused({dataset("/p/*.tar")}).empty());
  CHECK(has(refused({dataset("/p/a.tar:a,shared"), dataset("/p/b.tar:a/b")}), "would both go to"));
  CHECK(has(refused({dataset("/p/a.tar:a"), dataset("/p/b.tar:a/b,shared")}), "would both go to"));
  CHECK(refused({dataset("/p/a.tar,shared"), dataset("/p/b.tar,shared")}).empty());
}

TEST_CASE("nothing is staged out of what is shared") {
  StageRequest request;
  request.datasets = {dataset("/p/data.tar,shared"), dataset("/p/own.tar"),
                      dataset("/p/*:all/of,shared")};
  request.venv = *parse_venv_option("/p/r.txt,shared", k_place);
  const auto refused = [&request](std::string_view source) {
    request.outputs = {output(std::string(source) + ":/t")};
    const Status status = check_together(request);
    return status ? "" : status.error().what;
  };
  CHECK(refused("data/out") ==
        "no result can be written to $SLURM_TMPDIR/data/out, because '/p/data.tar' is shared at "
        "$SLURM_TMPDIR/data, and what is shared is read-only; write results elsewhere below "
        "$SLURM_TMPDIR, or remove the key shared");
  for (const char* below : {"data", "./data//", "data/*", "all/of/x", "env", "env/lib"})
    CHECK(has(refused(below), "what is shared is read-only"));
  CHECK(has(refused("env/lib"), "because '/p/r.txt' is shared at $SLURM_TMPDIR/env"));
  for (const char* beside : {"own", "own/x", "data2", "dat*", "all", "all/on", "env.log"})
    CHECK(refused(beside).empty());
  request.datasets.clear();
  request.venv->shared = false;
  CHECK(refused("env/lib").empty());
}

TEST_CASE("items of one request that exclude each other are refused") {
  const auto together = [](std::initializer_list<const char*> texts) {
    StageRequest request;
    for (const char* text : texts) request.datasets.push_back(dataset(text));
    const Status status = check_together(request);
    return status ? std::string() : status.error().what;
  };
  CHECK(together({"/a/x.tar", "/a/y.tar"}).empty());
  CHECK(has(together({"/a/x.tar", "/b/x.zip"}), "'/a/x.tar' and '/b/x.zip' would both go to"));
  CHECK(together({"/a/x.tar", "/b/x.tar:x2"}).empty());
  CHECK(has(together({"/a/x.tar:d", "/b/y.tar:d/sub"}), "would both go to"));
  CHECK(has(together({"/a/x.tar:d/sub", "/b/y.tar:d"}), "would both go to"));
  CHECK(together({"/a/x.tar:d", "/b/y.tar:d2"}).empty());
  CHECK(has(together({"/a/a-b.tar", "/b/a_b.tar"}), "NODESTAGE_DATASET_A_B"));
  CHECK(together({"/a/a-b.tar,name=one", "/b/a_b.tar"}).empty());
}

TEST_CASE("a target that would become an archive which cannot be written") {
  CHECK(has(output_fault("r:/t.7z"), "archives of the kind .7z cannot be written, only read"));
  CHECK(has(output_fault("r:/t.tar.Z,pack"), "archives of the kind .tar.z cannot be written"));
  // A file that is an archive already is copied.
  CHECK(parse_output_option("r.7z:/t.7z", k_place));
  CHECK(parse_output_option("r:/t.zip", k_place));
}
