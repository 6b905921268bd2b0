#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "cli/base/conversation.hpp"
#include "scratch.hpp"
#include "texts.hpp"

using namespace nodestage;

TEST_CASE("the options become the request that the plugin would make") {
  const auto request =
      to_request({{"/p/a.tar:x,strip=1", "/p/b"}, {"/v"}, {"r:/o/%j,when=failure"}});
  REQUIRE(request);
  REQUIRE(request->datasets.size() == 2);
  CHECK(request->datasets[0].source == "/p/a.tar");
  CHECK(request->datasets[0].destination == "x");
  CHECK(request->datasets[0].strip == 1);
  CHECK(request->datasets[1].source == "/p/b");
  REQUIRE(request->venv);
  CHECK(request->venv->source == "/v");
  REQUIRE(request->outputs.size() == 1);
  CHECK(request->outputs[0].target == "/o/%j");
  CHECK(request->outputs[0].when == When::failure);
}

TEST_CASE("a fault names the option and its text") {
  const Error unknown = must_fail(to_request({{"/a,foo=1"}, {}, {}}));
  CHECK(unknown.text().starts_with("--stage-dataset: unknown key 'foo'"));
  CHECK(has(unknown.text(), "\n  --stage-dataset=/a,foo=1\n                     ^~~~~\nkeys: "));
  const Error second = must_fail(to_request({{}, {"/v", "/w"}, {}}));
  CHECK(second.text().starts_with("--stage-venv: a job can have one virtual environment"));
  CHECK(second.text().ends_with("\n  --stage-venv=/w\n               ^~"));
  const Error same = must_fail(to_request({{"/a/x.tar", "/b/x.tar"}, {}, {}}));
  CHECK(same.text().starts_with("--stage-dataset: '/a/x.tar' and '/b/x.tar' would both go"));
  CHECK(same.text().ends_with("\n  --stage-dataset=/b/x.tar\n                  ^~~~~~~~"));
  CHECK(has(must_fail(to_request({{}, {}, {"r:/o/%q"}})).text(), "unknown pattern %q"));
}

TEST_CASE("an environment that is there needs nothing for a build") {
  const auto there = must(to_request({{}, {"/"}, {}}));
  CHECK(there.venv->environment.empty());
  CHECK(there.venv->python.empty());
}

TEST_CASE("a file that exists under another reading of the text is refused with what to write") {
  const Scratch scratch;
  for (const char* name : {"images.tar", "data:v2.tar", "both", "both:x"})
    std::ofstream(scratch / name) << "x";
  const auto fault_of = [&](const std::string& text) {
    const auto request = to_request({{scratch / text.c_str()}, {}, {}});
    return request ? "" : request.error().text();
  };
  CHECK(has(fault_of("images.tar/"),
            "/images.tar/ is a file, not a directory: write it without the "
            "'/' at its end"));
  CHECK(has(fault_of("images.tar/:x,optional"), "is a file, not a directory"));
  CHECK(has(fault_of("data:v2.tar"), "/data does not exist, and "));
  CHECK(has(fault_of("data:v2.tar"), "write \\: for a colon in a path, as in data\\:v2.tar\n"));
  CHECK(fault_of("images.tar") == "");
  CHECK(fault_of("data\\:v2.tar") == "");
  CHECK(fault_of("both:x") == "");
  CHECK(fault_of("later:v2.tar") == "");
  const Error venv = must_fail(to_request({{}, {scratch / "images.tar/"}, {}}));
  CHECK(venv.text().starts_with("--stage-venv: "));
}

TEST_CASE("a part of an environment is refused, with the environment") {
  const Scratch scratch;
  std::filesystem::create_directories(scratch / "e/bin");
  for (const char* name : {"e/pyvenv.cfg", "e/bin/activate"}) std::ofstream(scratch / name) << "x";
  for (const char* part : {"e/bin/activate", "e/bin/", "e/pyvenv.cfg"}) {
    const Error refused = must_fail(to_request({{}, {scratch / part}, {}}));
    CHECK(has(refused.text(), "e: write --stage-venv=" + (scratch / "e")));
  }
  CHECK(to_request({{}, {scratch / "e"}, {}}));
  CHECK(must(to_request({{}, {scratch / "e,python=keep"}, {}})).venv->python == "keep");
  CHECK(must(to_request({{}, {scratch / "r.txt,python=keep"}, {}})).venv->python == "keep");
}

TEST_CASE("a directory can be shared") {
  const Scratch scratch;
  const std::string directory = scratch / "my env";
  std::filesystem::create_directory(directory);
  const auto both = must(to_request({{directory + ":d,shared"}, {directory + ",shared"}, {}}));
  CHECK(both.datasets[0].shared);
  CHECK(both.venv->shared);
}

TEST_CASE("a result in what is shared is refused, whichever option comes last") {
  const Error refused = must_fail(to_request({{"/p/data.tar,shared"}, {}, {"data/out:/t"}}));
  CHECK(refused.text().starts_with(
      "--stage-out: no result can be written to $SLURM_TMPDIR/data/out, because '/p/data.tar'"));
}
