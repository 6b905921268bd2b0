#include <doctest/doctest.h>

#include "common/request/destinations.hpp"
#include "common/request/request.hpp"
#include "common/text/path_names.hpp"
#include "common/wire/worker_order.hpp"
#include "option_items.hpp"
#include "texts.hpp"

using namespace nodestage;

namespace {

StageRequest full_request() {
  StageRequest request{.wait = StageWait::node, .umask = 027};
  request.datasets.push_back({"/p/data.tar",
                              "data",
                              "DATA",
                              Extract::no,
                              2,
                              {"*.png"},
                              {"a", "b"},
                              true,
                              true,
                              TarEnd::optional,
                              true});
  request.outputs.push_back({"results", "/out_%j", When::failure, true});
  request.venv = VenvItem{"/p/r.txt",  "py", "/usr/bin/python3",       {"python/3.11", "gcc"},
                          "/p/wheels", true, {"PATH=/bin", "X_1=a=b"}, true};
  return request;
}

std::string fault_of(std::string_view json) {
  const auto request = decode_request(json);
  return request ? "" : request.error().what;
}

}  // namespace

TEST_CASE("the JSON of a request of version 1 does not change") {
  CHECK(
      encode_request(full_request()) ==
      R"({"datasets":[{"async":true,"destination":"data","eof":"optional","exclude":["a","b"],"extract":"no",)"
      R"("include":["*.png"],"name":"DATA","optional":true,"shared":true,"source":"/p/data.tar","strip":2}],)"
      R"("outputs":[{"pack":true,"source":"results","target":"/out_%j","when":"failure"}],)"
      R"("umask":23,"venv":{"destination":"py","environment":["PATH=/bin","X_1=a=b"],)"
      R"("modules":["python/3.11","gcc"],"optional":true,"python":"/usr/bin/python3",)"
      R"("shared":true,"source":"/p/r.txt","wheels":"/p/wheels"},"version":1,"wait":"node"})");
  CHECK(encode_request({}) == R"({"version":1})");
  CHECK(may_share(encode_request(full_request())));
  CHECK_FALSE(may_share(encode_request({})));
}

TEST_CASE("golden JSON of newest, links, and every") {
  StageRequest request;
  request.datasets.push_back({"/p/run"});
  request.datasets.back().newest = 3;
  request.datasets.back().links = Links::follow;
  request.outputs.push_back({"results", "/out_%j"});
  request.outputs.back().every_s = 900;
  request.outputs.back().prune = true;
  const std::string json =
      R"({"datasets":[{"links":"follow","newest":3,"source":"/p/run"}],)"
      R"("outputs":[{"every":900,"prune":true,"source":"results","target":"/out_%j"}],"version":1})";
  CHECK(encode_request(request) == json);
  REQUIRE(decode_request(json));
  CHECK(*decode_request(json) == request);
}

TEST_CASE("golden JSON of several sources") {
  StageRequest request;
  request.datasets.push_back({"/p/a.tar", "d"});
  request.datasets.back().merge = Merge::last;
  request.datasets.back().also = {"/p/b", "/p/c*"};
  const std::string json =
      R"({"datasets":[{"also":["/p/b","/p/c*"],"destination":"d","merge":"last",)"
      R"("source":"/p/a.tar"}],"version":1})";
  CHECK(encode_request(request) == json);
  REQUIRE(decode_request(json));
  CHECK(*decode_request(json) == request);
}

TEST_CASE("a request is decoded as it was encoded") {
  CHECK(*decode_request(encode_request(full_request())) == full_request());
  StageRequest odd;
  odd.datasets.push_back({"/p/\xff\xfe\n\"'\\ \xc3\xa9"});
  odd.outputs.push_back({"a b|c;=", "/t\xe9"});
  CHECK(*decode_request(encode_request(odd)) == odd);
}

TEST_CASE("what a user may forge is refused with its place") {
  CHECK(has(fault_of(""), "not JSON"));
  CHECK(has(fault_of("{"), "not JSON"));
  CHECK(has(fault_of("[]"), "not an object"));
  CHECK(has(fault_of(R"({})"), "version"));
  CHECK(has(fault_of(R"({"version":2})"), "version"));
  CHECK(has(fault_of(R"({"version":1,"root":true})"), "unknown key \"root\""));
  CHECK(has(fault_of(std::string(k_max_request_bytes + 1, ' ')), "larger"));
  CHECK(fault_of(std::string(16000, '[')).size() > 0);
  CHECK(has(fault_of(R"({"version":1,"umask":-1})"), "umask"));
  CHECK(has(fault_of(R"({"version":1,"umask":512})"), "umask"));
}

TEST_CASE("a forged item is refused") {
  const auto dataset = [](const std::string& fields) {
    return fault_of(R"({"version":1,"datasets":[{)" + fields + "}]}");
  };
  CHECK(has(dataset(R"("source":"/a","destination":"/etc")"), "below"));
  CHECK(has(dataset(R"("source":"/a","destination":"a/../../b")"), "below"));
  CHECK(has(dataset(R"("source":"/a","destination":".nodestage-partial")"), "below"));
  CHECK(has(dataset(R"("source":"a")"), "absolute"));
  CHECK(has(dataset(R"("destination":"a")"), "absolute"));
  CHECK(has(dataset(R"("source":"/a\u0000b")"), "NUL"));
  CHECK(has(dataset(R"("source":{"hex":"2f00"})"), "NUL"));
  CHECK(has(dataset(R"("source":{"hex":"2g"})"), "not a string"));
  CHECK(has(dataset(R"("source":{"hex":"2f2"})"), "not a string"));
  CHECK(has(dataset(R"("source":"/a","strip":1.5)"), "strip"));
  CHECK(has(dataset(R"("source":"/a","extract":"maybe")"), "extract"));
  CHECK(has(dataset(R"("source":"/a","optional":1)"), "optional"));
  CHECK(has(dataset(R"("source":"/a","shared":1)"), "shared"));
  CHECK(has(dataset(R"("source":"/a*","shared":true)"), "glob"));
  CHECK(dataset(R"("source":"/a*","destination":"d","shared":true)").empty());
  CHECK(has(dataset(R"("source":"/a","include":"x")"), "include"));
  CHECK(dataset(R"("source":"/a","newest":100000)").empty());
  CHECK(has(dataset(R"("source":"/a","newest":100001)"), "newest"));
  CHECK(has(dataset(R"("source":"/a","newest":-1)"), "newest"));
  CHECK(has(dataset(R"("source":"/a.tar","newest":1)"), "an archive"));
  const std::string merged = R"("source":"/a","destination":"d","merge":"equal",)";
  CHECK(dataset(merged + R"("also":["/b"])").empty());
  CHECK(has(dataset(merged + R"("also":["b"])"), "absolute"));
  CHECK(has(dataset(merged + R"("also":["/b"],"newest":1)"), "newest"));
  CHECK(has(dataset(R"("source":"/a","destination":"d","also":["/b"])"), "no \"merge\""));
  CHECK(has(dataset(R"("source":"/a","newest":1,"shared":true)"), "exclude each other"));
  const auto output = [](const std::string& fields) {
    return fault_of(R"({"version":1,"outputs":[{"source":"r","target":"/t",)" + fields + "}]}");
  };
  CHECK(output(R"("every":2592000)").empty());
  CHECK(has(output(R"("every":2592001)"), "every"));
  CHECK(has(output(R"("every":1,"pack":true)"), "has an interval, but its target is an archive"));
  CHECK(has(output(R"("every":1,"when":"success")"), "when=success"));
  CHECK(has(output(R"("prune":true,"pack":true)"), "has \"prune\", but its target is an archive"));
  CHECK(has(fault_of(R"({"version":1,"outputs":[{"source":"..","target":"/t"}]})"), "below"));
  CHECK(has(fault_of(R"({"version":1,"datasets":[{"source":"/d","shared":true}],)"
                     R"("outputs":[{"source":"d/x","target":"/t"}]})"),
            "read-only"));
  CHECK(has(fault_of(R"({"version":1,"outputs":[{"source":"a","target":"t"}]})"), "absolute"));
  std::string many = R"({"version":1,"datasets":[)";
  for (int i = 0; i < 65; ++i) many += R"({"source":"/a"},)";
  many.back() = ']';
  CHECK(has(fault_of(many + "}"), "too long"));
}

TEST_CASE("a forged venv is refused") {
  const auto venv = [](const std::string& fields) {
    return fault_of(R"({"version":1,"venv":{)" + fields + "}}");
  };
  CHECK(venv(R"("source":"/a")").empty());
  CHECK(decode_request(R"({"version":1,"venv":{"source":"/a"}})")->venv->destination == "env");
  CHECK(has(venv(R"("source":"a")"), "absolute"));
  CHECK(has(venv(R"("source":"/a","python":"bin/python3")"), "absolute"));
  CHECK(has(venv(R"("source":"/a","python":"-c")"), "absolute"));
  CHECK(venv(R"("source":"/a","python":"python3")").empty());  // it is looked up on the node
  CHECK(has(venv(R"("source":"/a","shared":"x")"), "shared"));
  CHECK(has(venv(R"("source":"/a","wheels":"w")"), "absolute"));
  for (const char* bad : {"/etc", "../x", ".nodestage-x", "a:b", "a'b", "a$b", "a\\nb", "a`b"}) {
    CHECK(has(venv(R"("source":"/a","destination":")" + std::string(bad) + '"'), "below"));
  }
  for (const char* bad : {"PATH", "=x", "1A=x", "A-B=x", ""}) {
    CHECK(
        has(venv(R"("source":"/a","environment":[")" + std::string(bad) + R"("])"), "NAME=VALUE"));
  }
  CHECK(has(venv(R"("source":"/a","environment":["A=\u0000"])"), "NUL"));
  CHECK(has(fault_of(R"({"version":1,"venv":[]})"), "not an object"));
  CHECK(has(venv(R"("source":"/a","root":true)"), "unknown key"));
}

TEST_CASE("a venv's environment may have more variables than a job has items") {
  StageRequest request{.venv = VenvItem{}};
  request.venv->source = "/a/r.txt";
  for (int i = 0; i < 300; ++i)
    request.venv->environment.push_back("EBROOT" + std::to_string(i) + "=/x");
  CHECK(must(decode_request(encode_request(request))).venv->environment.size() == 300);
}

TEST_CASE("paths below the job directory") {
  for (const char* good : {"a", "a b", "a/b", "./a", "a//b/", "..a", "a/.nodestage"})
    CHECK(is_path_below(good));
  for (const char* bad :
       {"", ".", "./", "/", "/a", "..", "../a", "a/..", "a/../b", ".nodestage", "./.nodestage-x"}) {
    CHECK_FALSE(is_path_below(bad));
  }
  CHECK_FALSE(is_path_below(std::string_view("a\0b", 3)));
  CHECK_FALSE(is_path_below(std::string(256, 'a')));
}

// Items of one request that exclude each other.

TEST_CASE("an environment and a dataset in one place") {
  StageRequest request{.venv = VenvItem{}};
  request.venv->source = "/p/venv";
  request.datasets.push_back(dataset("/p/a.tar"));
  CHECK(check_together(request));
  request.datasets.push_back(dataset("/p/b.tar:env/data"));
  const Error status = must_fail(check_together(request));
  CHECK(has(status.what, "the environment '/p/venv' would both go to $SLURM_TMPDIR/env; give"));
}

TEST_CASE("what is shared has one destination, beside all others") {
  const auto refused = [](std::vector<DatasetItem> items) {
    StageRequest request{.datasets = std::move(items)};
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
  StageRequest request{.datasets = {dataset("/p/data.tar,shared"), dataset("/p/own.tar"),
                                    dataset("/p/*:all/of,shared")},
                       .venv = *parse_venv_option("/p/r.txt,shared", k_place)};
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
  const std::string outer = "would both go to $SLURM_TMPDIR/d; give";
  CHECK(has(together({"/a/x.tar:d", "/b/y.tar:d/sub"}), outer));
  CHECK(has(together({"/a/x.tar:d/sub", "/b/y.tar:d"}), outer));
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

TEST_CASE("options with merge and one destination become one item") {
  const auto added = [](const std::vector<std::string>& texts, StageRequest& request) {
    for (const std::string& text : texts) {
      const Status status = add_or_merge(request, dataset(text));
      if (!status) return status.error().what;
    }
    const Status together = check_together(request);
    return together ? "" : together.error().what;
  };
  StageRequest request;
  CHECK(added({"/p/a.tgz:d,merge,strip=1", "/p/b:e", "/p/c*:d,merge,strip=1"}, request).empty());
  REQUIRE(request.datasets.size() == 2);
  CHECK(request.datasets[0].source == "/p/a.tgz");
  CHECK(request.datasets[0].also == std::vector<std::string>{"/p/c*"});
  const auto fault = [&added](const std::vector<std::string>& texts) {
    StageRequest other;
    return added(texts, other);
  };
  CHECK(fault({"/p/a:d,merge,strip=2", "/p/b:d,merge"}) ==
        "'/p/a' and '/p/b' become one tree at $SLURM_TMPDIR/d (merge), but one has strip=2 and the "
        "other has no strip=; give both the same keys, or another destination");
  for (const auto& [one, other, said] :
       {std::array{"merge", "merge=last", "one has merge=equal and the other has merge=last"},
        {"merge,include=a,include=b", "merge",
         "one has include=a,include=b and the other has no "
         "include="},
        {"merge", "merge,shared", "one has no shared and the other has shared"},
        {"merge,name=X", "merge", "one has name=X and the other has no name="}}) {
    const std::string cause = fault({std::string("/p/a:d,") + one, std::string("/p/b:d,") + other});
    const bool has_said = has(cause, said);
    CHECK_MESSAGE(has_said, cause);
  }
  CHECK(fault({"/p/a:d", "/p/b:d,merge"}) ==
        "'/p/a' and '/p/b' would both go to $SLURM_TMPDIR/d; if they are to become one tree, add "
        "the key merge to both: --stage-dataset=SOURCE:DEST,merge; else give one of them another "
        "destination: --stage-dataset=SOURCE:DEST");
  CHECK(has(fault({"/p/a:d,merge", "/p/b:d/e,merge"}),
            "would both go to $SLURM_TMPDIR/d; give one of them another destination"));
  CHECK(has(fault({"/p/a*:d,merge,newest=1", "/p/b*:d,merge,newest=1"}), "with braces"));
  CHECK(has(fault(std::vector<std::string>(k_max_request_items + 1, "/p/a:d,merge")), "more than"));
}

TEST_CASE("numbers in names are ordered as numbers") {
  const std::vector<std::string_view> names = {"a",
                                               "part",
                                               "part01",
                                               "part1",
                                               "part1b",
                                               "part02",
                                               "part9.x",
                                               "part10",
                                               "partx",
                                               "x2y3",
                                               "x2y10",
                                               "x10y1",
                                               "x18446744073709551616"};
  for (std::size_t i = 0; i < names.size(); ++i)
    for (std::size_t k = 0; k < names.size(); ++k) {
      const std::string pair = std::string(names[i]) + " " + std::string(names[k]);
      CHECK_MESSAGE(is_before_by_numbers(names[i], names[k]) == (i < k), pair);
    }
}
