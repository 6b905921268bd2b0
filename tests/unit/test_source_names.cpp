#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "common/request/request_warnings.hpp"
#include "common/request/source_names.hpp"
#include "common/wire/worker_order.hpp"
#include "scratch.hpp"
#include "texts.hpp"

using namespace nodestage;

namespace {

struct Named {
  Scratch scratch;
  PatternFacts facts;

  Named() {
    facts.job = 12;
    facts.user = "alice";
    facts.node = "../x";
    facts.node_index = 1;
    facts.array_job = 10;
    facts.array_task = 3;
  }
  void make(const std::string& name) const { std::ofstream(scratch / name) << "x"; }
  [[nodiscard]] std::string of(const std::string& name) const {
    StageRequest request;
    request.datasets.emplace_back().source = scratch / name;
    const Status expanded = expand_sources(request, facts);
    if (!expanded) return expanded.error().text();
    return request.datasets.front().source.substr(std::string(scratch / "").size());
  }
};

}  // namespace

TEST_CASE("a source has the patterns of targets, and their values are single names") {
  const Named named;
  CHECK(named.of("s-%4a-%A-%j-%n-%u.tar") == "s-0003-10-12-1-alice.tar");
  CHECK(named.of("%u/%N/%r") == "alice/.._x/0");
  CHECK(named.of("100%%/%a") == "100%/3");
  CHECK(named.of("shard-%a-*.tar") == "shard-3-*.tar");
  CHECK(named.of("plain") == "plain");
}

TEST_CASE("what exists as it is written, or is no text of patterns, stays so") {
  const Named named;
  for (const std::string name : {"at%a", "x%%"}) named.make(name);
  for (const std::string name :
       {"at%a", "x%%", "{at,on}%a", "{at%a/x,on}-%n", "50%", "data%*", "%z", "%x-%a"}) {
    CAPTURE(name);
    CHECK(named.of(name) == name);
    CHECK_FALSE(has_patterns(named.scratch / name));
  }
  CHECK(named.of("**/at%a") == "**/at3");  // behind that, nothing is searched
  CHECK(named.of("{at,s%a}") == "{at,s3}");
  CHECK(named.of("at*%a") == "at*3");
  CHECK(has(about_percent_sign(named.scratch / "at%a"),
            "at%a exists, so the % in it is taken as it is, not as a pattern"));
  CHECK(about_percent_sign(named.scratch / "on%a") == "");
  CHECK(check_source_pattern(named.scratch / "at%a"));
  CHECK(
      has(check_source_pattern(named.scratch / "50%").error().what, "write %% for a percent sign"));
  CHECK(has(check_source_pattern(named.scratch / "%x").error().what,
            "unknown pattern %x (known: %j %A %a %u %N %n %r, and %% for a percent sign)"));
}

TEST_CASE("a directory that exists as it is written has no patterns, and what is behind it can") {
  const Named named;
  std::filesystem::create_directories(named.scratch / "50%done/at%a");
  for (const std::string name : {"new.tar", "*.tar", "at%a/x"}) {
    CAPTURE(name);
    CHECK(named.of("50%done/" + name) == "50%done/" + name);
    CHECK(check_source_pattern(named.scratch / ("50%done/" + name)));
  }
  CHECK(named.of("50%done/at%a/{x,y}-%a") == "50%done/at%a/{x,y}-3");
  CHECK(named.of("50%done/on%a/%n") == "50%done/on3/1");
  CHECK(has_index(named.scratch / "50%done/s-%a"));
  CHECK_FALSE(has_index(named.scratch / "50%done/at%a/s-%n"));
  CHECK_FALSE(check_source_pattern(named.scratch / "50%done/%z"));
  CHECK(*names_before_start(named.scratch / "50%done/s-%a", "4", WhichTasks::all) ==
        std::vector<std::string>{named.scratch / "50%done/s-4"});
}

TEST_CASE("what cannot be examined may exist as it is written") {
  const Named named;
  std::filesystem::create_symlink("loop", named.scratch / "loop");
  CHECK(named.of("loop/%a") == "loop/%a");
  CHECK(check_source_pattern(named.scratch / "loop/%z"));
  named.make("file");
  CHECK(named.of("file/%a") == "file/3");
  const std::string many(300, 'x');
  CHECK(named.of(many + "/%a") == many + "/3");
}

TEST_CASE("a pattern without a value is a fault that names the source") {
  Named named;
  named.facts.array_task.reset();
  CHECK(has(named.of("s-%a"),
            "s-%a: %a is the index of an array's task, and this job is no array\n"
            "Submit it as one (--array=0-9), or write %% for a percent sign"));
  CHECK(named.of("s-%A") == "s-10");
  named.facts.node_index.reset();
  CHECK(has(named.of("%n"), "is not known on this node\nwrite %% for a percent sign"));
}

TEST_CASE("an optional source without a value, or a destination, keeps its text") {
  Named named;
  named.facts.array_task.reset();
  StageRequest request;
  for (const char* source : {"/p/s-%a", "/p/.%r/..", "/p/s-%n"}) {
    request.datasets.emplace_back().source = source;
    request.datasets.back().optional = true;
  }
  CHECK(expand_sources(request, named.facts));
  CHECK(request.datasets[0].source == "/p/s-%a");
  CHECK(request.datasets[1].source == "/p/.%r/..");
  CHECK(request.datasets[2].source == "/p/s-1");
  CHECK_FALSE(request.datasets[0].names_node);
  CHECK(request.datasets[2].names_node);
}

TEST_CASE("further sources of an item have patterns, too") {
  Named named;
  StageRequest request;
  DatasetItem& item = request.datasets.emplace_back();
  item.source = "/p/plain";
  item.also = {"/p/s-%a", "/p/s-%n"};
  CHECK(source_with_index(item) == "/p/s-%a");
  CHECK(needs_step_names(request));
  CHECK(expand_sources(request, named.facts));
  CHECK(item.also == std::vector<std::string>{"/p/s-3", "/p/s-1"});
  CHECK(item.names_node);
  item.also = {"/p/s-%a"};
  named.facts.array_task.reset();
  CHECK(has(expand_sources(request, named.facts).error().what, "this job is no array"));
}

TEST_CASE("a source by an array's task is checked again: its destination is another one") {
  const Named named;
  StageRequest request;
  DatasetItem& item = request.datasets.emplace_back();
  item.source = "/p/%u";
  PatternFacts facts = named.facts;
  facts.user = "..";
  CHECK(expand_sources(request, facts));
  CHECK(request.datasets.front().source == "/p/__");
  item.source = "/p/s%a";
  item.shared = true;
  request.outputs.push_back({"s3/mine", "/t"});
  CHECK(has(expand_sources(request, facts).error().what, "is shared at $SLURM_TMPDIR/s3"));
  request.outputs.clear();
  request.datasets.emplace_back().source = "/q/s3";
  request.datasets.front().source = "/p/s%a";
  CHECK(has(expand_sources(request, facts).error().what, "would both go to $SLURM_TMPDIR/s3"));
}

TEST_CASE("only what a step reports is waited for") {
  for (const auto& row : {std::pair{"/p/%4a.tar", true},
                          {"/p/%A", true},
                          {"/p/50%done/%a", true},
                          {"/p/%n%j%u", false},
                          {"/p/%%a", false},
                          {"/p/50%", false}}) {
    const auto [source, waits] = row;
    CAPTURE(row.first);
    StageRequest request;
    request.datasets.emplace_back().source = source;
    request.outputs.push_back({"out", "/t/%a"});
    const std::string text = encode_request(request);
    CHECK(may_need_step_names(text) == waits);
    CHECK(*decode_request(text) == request);
  }
}

TEST_CASE("at submission, the sources of an array's first and last task are looked for") {
  const Named named;
  StageRequest request;
  request.datasets.emplace_back().source = named.scratch / "s-%a";
  named.make("s-1");
  CHECK(look_at_request(request, Start::later, "1").warnings.empty());
  const RequestLook look = look_at_request(request, Start::later, "1-7");
  REQUIRE(look.warnings.size() == 1);
  CHECK(has(look.warnings.front(), "s-7 does not exist yet"));
}

TEST_CASE("the indices of an array are read as sbatch reads them") {
  using Indices = std::vector<std::uint32_t>;
  CHECK(*indices_of_array("0-3") == Indices{0, 1, 2, 3});
  CHECK(*indices_of_array("7") == Indices{7});
  CHECK(*indices_of_array("5,1-9:4%2") == Indices{1, 5, 9});
  for (const char* text : {"[0-2,7]", "[0-2,7]%2", "[0-2,7%2]"}) {
    CAPTURE(text);
    CHECK(*indices_of_array(text) == Indices{0, 1, 2, 7});
  }
  for (const char* text : {"", "%2", "a", "3-1", "1-", "-1", "1,", "1-9:0", "0-4000001",
                           "99999999999", "0-3%2,7", "0-3%", "[0-3", "[]"}) {
    CAPTURE(text);
    CHECK(has(indices_of_array(text).error().what, "indices as sbatch takes them"));
  }
  const auto names = [](const std::string& array, WhichTasks which) {
    return *names_before_start("/p/none-%2a", array, which);
  };
  CHECK(names("0-2", WhichTasks::all).size() == 3);
  CHECK(names("8-12", WhichTasks::first_and_last) ==
        std::vector<std::string>{"/p/none-08", "/p/none-12"});
  CHECK(names_before_start("/p/none-%j", "1", WhichTasks::all).error().code == ENODATA);
  CHECK(names_before_start("/p/none-%n", "", WhichTasks::all)->front() == "/p/none-0");
  CHECK(
      has(names_before_start("/p/none-%A", "", WhichTasks::all).error().what, "%A is the job ID"));
  CHECK(has(no_array("/p/50%done/none-%a").what, "%a is the index"));
}
