#include <doctest/doctest.h>

#include "common/request/request.hpp"
#include "common/text/path_names.hpp"
#include "common/wire/worker_order.hpp"
#include "texts.hpp"

using namespace nodestage;

namespace {

StageRequest full_request() {
  StageRequest request;
  request.umask = 027;
  request.wait = StageWait::node;
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
  const std::string json =
      R"({"datasets":[{"links":"follow","newest":3,"source":"/p/run"}],)"
      R"("outputs":[{"every":900,"source":"results","target":"/out_%j"}],"version":1})";
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
  CHECK(has(dataset(R"("source":"/a","newest":1,"shared":true)"), "exclude each other"));
  const auto output = [](const std::string& fields) {
    return fault_of(R"({"version":1,"outputs":[{"source":"r","target":"/t",)" + fields + "}]}");
  };
  CHECK(output(R"("every":2592000)").empty());
  CHECK(has(output(R"("every":2592001)"), "every"));
  CHECK(has(output(R"("every":1,"pack":true)"), "has an interval, but its target is an archive"));
  CHECK(has(output(R"("every":1,"when":"success")"), "when=success"));
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
  StageRequest request;
  request.venv = VenvItem{};
  request.venv->source = "/a/r.txt";
  for (int i = 0; i < 300; ++i)
    request.venv->environment.push_back("EBROOT" + std::to_string(i) + "=/x");
  const auto decoded = decode_request(encode_request(request));
  REQUIRE(decoded);
  CHECK(decoded->venv->environment.size() == 300);
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
