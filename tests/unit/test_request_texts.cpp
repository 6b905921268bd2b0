#include <doctest/doctest.h>

#include "cli/base/request_texts.hpp"

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
  const auto unknown = to_request({{"/a,foo=1"}, {}, {}});
  REQUIRE(!unknown);
  CHECK(unknown.error().what.starts_with("--stage-dataset: unknown key 'foo'"));
  CHECK(unknown.error().what.ends_with("\n  --stage-dataset=/a,foo=1\n                     ^~~~~"));
  const auto second = to_request({{}, {"/v", "/w"}, {}});
  REQUIRE(!second);
  CHECK(second.error().what.starts_with("--stage-venv: a job can have one virtual environment"));
  CHECK(second.error().what.ends_with("\n  --stage-venv=/w\n               ^~"));
  const auto same = to_request({{"/a/x.tar", "/b/x.tar"}, {}, {}});
  REQUIRE(!same);
  CHECK(same.error().what.starts_with("--stage-dataset: '/a/x.tar' and '/b/x.tar' would both go"));
  CHECK(same.error().what.ends_with("\n  --stage-dataset=/b/x.tar\n                  ^~~~~~~~"));
  const auto output = to_request({{}, {}, {"r:/o/%q"}});
  REQUIRE(!output);
  CHECK(output.error().what.find("unknown pattern %q") != std::string::npos);
}

TEST_CASE("an environment that is there needs nothing for a build") {
  const auto there = to_request({{}, {"/"}, {}});
  REQUIRE(there);
  CHECK(there->venv->environment.empty());
  CHECK(there->venv->python.empty());
}
