#include <doctest/doctest.h>

#include "common/request/request.hpp"
#include "common/text/path_names.hpp"
#include "common/wire/shared_item.hpp"

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

TEST_CASE("golden JSON of version 1") {
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

TEST_CASE("there and back") {
  CHECK(*decode_request(encode_request(full_request())) == full_request());
  StageRequest odd;
  odd.datasets.push_back({"/p/\xff\xfe\n\"'\\ \xc3\xa9"});
  odd.outputs.push_back({"a b|c;=", "/t\xe9"});
  CHECK(*decode_request(encode_request(odd)) == odd);
}

TEST_CASE("what a user may forge is refused with its place") {
  CHECK(fault_of("").find("not JSON") != std::string::npos);
  CHECK(fault_of("{").find("not JSON") != std::string::npos);
  CHECK(fault_of("[]").find("not an object") != std::string::npos);
  CHECK(fault_of(R"({})").find("version") != std::string::npos);
  CHECK(fault_of(R"({"version":2})").find("version") != std::string::npos);
  CHECK(fault_of(R"({"version":1,"root":true})").find("unknown key \"root\"") != std::string::npos);
  CHECK(fault_of(std::string(k_max_request_bytes + 1, ' ')).find("larger") != std::string::npos);
  CHECK(fault_of(std::string(16000, '[')).size() > 0);
  CHECK(fault_of(R"({"version":1,"umask":-1})").find("umask") != std::string::npos);
  CHECK(fault_of(R"({"version":1,"umask":512})").find("umask") != std::string::npos);
}

TEST_CASE("a forged item is refused") {
  const auto dataset = [](const std::string& fields) {
    return fault_of(R"({"version":1,"datasets":[{)" + fields + "}]}");
  };
  CHECK(dataset(R"("source":"/a","destination":"/etc")").find("below") != std::string::npos);
  CHECK(dataset(R"("source":"/a","destination":"a/../../b")").find("below") != std::string::npos);
  CHECK(dataset(R"("source":"/a","destination":".nodestage-partial")").find("below") !=
        std::string::npos);
  CHECK(dataset(R"("source":"a")").find("absolute") != std::string::npos);
  CHECK(dataset(R"("destination":"a")").find("absolute") != std::string::npos);
  CHECK(dataset(R"("source":"/a\u0000b")").find("NUL") != std::string::npos);
  CHECK(dataset(R"("source":{"hex":"2f00"})").find("NUL") != std::string::npos);
  CHECK(dataset(R"("source":{"hex":"2g"})").find("not a string") != std::string::npos);
  CHECK(dataset(R"("source":{"hex":"2f2"})").find("not a string") != std::string::npos);
  CHECK(dataset(R"("source":"/a","strip":1.5)").find("strip") != std::string::npos);
  CHECK(dataset(R"("source":"/a","extract":"maybe")").find("extract") != std::string::npos);
  CHECK(dataset(R"("source":"/a","optional":1)").find("optional") != std::string::npos);
  CHECK(dataset(R"("source":"/a","shared":1)").find("shared") != std::string::npos);
  CHECK(dataset(R"("source":"/a*","shared":true)").find("glob") != std::string::npos);
  CHECK(dataset(R"("source":"/a*","destination":"d","shared":true)").empty());
  CHECK(dataset(R"("source":"/a","include":"x")").find("include") != std::string::npos);
  CHECK(dataset(R"("source":"/a","newest":100000)").empty());
  CHECK(dataset(R"("source":"/a","newest":100001)").find("newest") != std::string::npos);
  CHECK(dataset(R"("source":"/a","newest":-1)").find("newest") != std::string::npos);
  CHECK(dataset(R"("source":"/a.tar","newest":1)").find("an archive") != std::string::npos);
  CHECK(dataset(R"("source":"/a","newest":1,"shared":true)").find("exclude each other") !=
        std::string::npos);
  const auto output = [](const std::string& fields) {
    return fault_of(R"({"version":1,"outputs":[{"source":"r","target":"/t",)" + fields + "}]}");
  };
  CHECK(output(R"("every":2592000)").empty());
  CHECK(output(R"("every":2592001)").find("every") != std::string::npos);
  CHECK(output(R"("every":1,"pack":true)").find("has an interval, but its target is an archive") !=
        std::string::npos);
  CHECK(output(R"("every":1,"when":"success")").find("when=success") != std::string::npos);
  CHECK(fault_of(R"({"version":1,"outputs":[{"source":"..","target":"/t"}]})").find("below") !=
        std::string::npos);
  CHECK(fault_of(R"({"version":1,"datasets":[{"source":"/d","shared":true}],)"
                 R"("outputs":[{"source":"d/x","target":"/t"}]})")
            .find("read-only") != std::string::npos);
  CHECK(fault_of(R"({"version":1,"outputs":[{"source":"a","target":"t"}]})").find("absolute") !=
        std::string::npos);
  std::string many = R"({"version":1,"datasets":[)";
  for (int i = 0; i < 65; ++i) many += R"({"source":"/a"},)";
  many.back() = ']';
  CHECK(fault_of(many + "}").find("too long") != std::string::npos);
}

TEST_CASE("a forged venv is refused") {
  const auto venv = [](const std::string& fields) {
    return fault_of(R"({"version":1,"venv":{)" + fields + "}}");
  };
  CHECK(venv(R"("source":"/a")").empty());
  CHECK(decode_request(R"({"version":1,"venv":{"source":"/a"}})")->venv->destination == "env");
  CHECK(venv(R"("source":"a")").find("absolute") != std::string::npos);
  CHECK(venv(R"("source":"/a","python":"bin/python3")").find("absolute") != std::string::npos);
  CHECK(venv(R"("source":"/a","python":"-c")").find("absolute") != std::string::npos);
  CHECK(venv(R"("source":"/a","python":"python3")").empty());  // it is looked up on the node
  CHECK(venv(R"("source":"/a","shared":"x")").find("shared") != std::string::npos);
  CHECK(venv(R"("source":"/a","wheels":"w")").find("absolute") != std::string::npos);
  for (const char* bad : {"/etc", "../x", ".nodestage-x", "a:b", "a'b", "a$b", "a\\nb", "a`b"}) {
    CHECK(venv(R"("source":"/a","destination":")" + std::string(bad) + '"').find("below") !=
          std::string::npos);
  }
  for (const char* bad : {"PATH", "=x", "1A=x", "A-B=x", ""}) {
    CHECK(
        venv(R"("source":"/a","environment":[")" + std::string(bad) + R"("])").find("NAME=VALUE") !=
        std::string::npos);
  }
  CHECK(venv(R"("source":"/a","environment":["A=\u0000"])").find("NUL") != std::string::npos);
  CHECK(fault_of(R"({"version":1,"venv":[]})").find("not an object") != std::string::npos);
  CHECK(venv(R"("source":"/a","root":true)").find("unknown key") != std::string::npos);
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
