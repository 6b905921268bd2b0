// Attack: the request in the job's environment is not the plugin's. Whoever submits can write any
// bytes there; what is let through must still keep every promise of a request.
#include <doctest/doctest.h>

#include "common/request/request.hpp"
#include "common/text/path_names.hpp"
#include "mutations.hpp"

using namespace nodestage;

namespace {

StageRequest good_request() {
  StageRequest request{.wait = StageWait::node, .umask = 027};
  request.datasets.push_back(
      {"/p/data.tar", "a/data", "DATA", Extract::no, 2, {"*.png"}, {"a", "b"}, true, true});
  request.datasets.push_back({"/p/\xff\xfe*.tar"});
  request.outputs.push_back({"results", "/out_%j", When::failure, true});
  request.outputs.push_back({"a b/c", "/t"});
  return request;
}

// What the worker relies on, without a look of its own.
bool keeps_its_promises(const StageRequest& request) {
  const auto no_nul = [](const std::string& text) { return text.find('\0') == std::string::npos; };
  bool good = request.datasets.size() <= k_max_request_items &&
              request.outputs.size() <= k_max_request_items;
  for (const auto& item : request.datasets) {
    good = good && item.source.starts_with('/') && no_nul(item.source) && no_nul(item.name) &&
           (item.destination.empty() || is_path_below(item.destination));
  }
  for (const auto& item : request.outputs) {
    good =
        good && is_path_below(item.source) && item.target.starts_with('/') && no_nul(item.target);
  }
  return good;
}

std::string dataset_to(const std::string& destination_json) {
  return R"({"version":1,"datasets":[{"source":"/p/d.tar","destination":)" + destination_json +
         "}]}";
}

std::string output_from(const std::string& source_json) {
  return R"({"version":1,"outputs":[{"target":"/p/out","source":)" + source_json + "}]}";
}

}  // namespace

TEST_CASE("20,000 damaged requests are refused or keep every promise of a request") {
  Mutations mutations(20'261'121, {"{",
                                   "}",
                                   "[",
                                   "]",
                                   ",",
                                   ":",
                                   "\"",
                                   "\\u0000",
                                   "\\ud800",
                                   "null",
                                   "-1",
                                   "1e400",
                                   "18446744073709551616",
                                   "true",
                                   "..",
                                   "/../",
                                   "/",
                                   "{\"hex\":\"",
                                   "\"source\":",
                                   "\"destination\":\"../x\"",
                                   std::string(1, '\0'),
                                   "\xc3",
                                   "\"version\":2,"});
  const std::string good = encode_request(good_request());
  unsigned accepted = 0;
  for (int i = 0; i < 20'000; ++i) {
    const std::string json = mutations.of(good);
    const auto request = decode_request(json);
    if (!request) {
      if (request.error().what.empty()) FAIL("a refusal without a word: " << json);
      continue;
    }
    ++accepted;
    if (!keeps_its_promises(*request)) FAIL("let through: " << json);
    const auto again = decode_request(encode_request(*request));
    // A name of odd bytes may need more than 16 KiB in hex; nothing else may be lost.
    if (!again || *again != *request) FAIL("not the same when encoded again: " << json);
  }
  CHECK(accepted > 100);  // else the mutations are too coarse to show anything
}

TEST_CASE("a request as deep, as long or as many as can be is refused, not followed") {
  CHECK_FALSE(decode_request(std::string(k_max_request_bytes, '[')));
  std::string nested =
      R"({"version":1,"datasets":)" + std::string(8000, '[') + std::string(8000, ']') + "}";
  CHECK_FALSE(decode_request(nested));
  CHECK_FALSE(decode_request(std::string(k_max_request_bytes + 1, ' ')));
  StageRequest many;
  for (std::size_t i = 0; i <= k_max_request_items; ++i) many.outputs.push_back({"r", "/t"});
  CHECK_FALSE(decode_request(encode_request(many)));
}

TEST_CASE("no destination of a data set leaves the job directory") {
  for (const char* destination :
       {R"("..")", R"("../x")", R"("a/../../x")", R"("a/..")", R"("/etc")", R"("//etc")", R"(".")",
        R"("./")", R"("/")", R"(".nodestage")", R"("./.nodestage-1")", R"("a\u0000b")",
        R"({"hex":"2e2e"})", R"({"hex":"612f2e2e"})", R"({"hex":"6100"})", R"({"hex":"2f657463"})",
        R"(["a"])", R"(7)"})
    CHECK_FALSE_MESSAGE(decode_request(dataset_to(destination)), destination);
  CHECK(decode_request(dataset_to(R"("a/b")")));
}

TEST_CASE("no source of a stage-out leaves the job directory") {
  for (const char* source :
       {R"("..")", R"("../*")", R"("r/../../etc")", R"("/etc")", R"("")", R"(".")", R"("*/../..")",
        R"(".nodestage")", R"({"hex":"2e2e2f"})", R"("r\u0000")"})
    CHECK_FALSE_MESSAGE(decode_request(output_from(source)), source);
  CHECK(decode_request(output_from(R"("r/*")")));
}

TEST_CASE(
    "relative sources and targets, which a worker would find from its own directory, are refused") {
  CHECK_FALSE(decode_request(R"({"version":1,"datasets":[{"source":"p/d.tar"}]})"));
  CHECK_FALSE(decode_request(R"({"version":1,"datasets":[{"source":""}]})"));
  CHECK_FALSE(decode_request(R"({"version":1,"outputs":[{"source":"r","target":"out"}]})"));
  CHECK_FALSE(decode_request(R"({"version":1,"outputs":[{"source":"r"}]})"));
}
