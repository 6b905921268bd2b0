#include <doctest/doctest.h>

#include "common/text/glob_text.hpp"

using namespace nodestage;

namespace {

PatternFacts facts() {
  PatternFacts facts;
  facts.job = 42;
  facts.restart = 1;
  facts.user = "alice";
  facts.node = "n1";
  facts.node_index = 3;
  facts.array_job = 40;
  facts.array_task = 7;
  facts.job_name = "train/a";
  return facts;
}

std::string expanded(std::string_view text) {
  const auto result = expand_pattern(text, facts());
  return result ? *result : "fault: " + result.error().what;
}

}  // namespace

TEST_CASE("each pattern of a path is expanded") {
  CHECK(expanded("/out_%j") == "/out_42");
  CHECK(expanded("%A_%a") == "40_7");
  CHECK(expanded("%u-%x-%N-%n-%r") == "alice-train_a-n1-3-1");
  CHECK(expanded("100%%") == "100%");
  CHECK(expanded("") == "");
}

TEST_CASE("a width pads numbers, and only numbers") {
  CHECK(expanded("%4a") == "0007");
  CHECK(expanded("%02j") == "42");
  CHECK(expanded("%99j") == "0000000042");
  CHECK(expanded("%4u") == "alice");
}

TEST_CASE("values are not interpreted again") {
  auto hostile = facts();
  hostile.job_name = "%u/../x";
  CHECK(*expand_pattern("%x", hostile) == "%u_.._x");
}

TEST_CASE("what a pattern inserts is one name, which leads nowhere else") {
  auto hostile = facts();
  const auto with = [&hostile](const char* name, const char* text = "/t/%x") {
    hostile.job_name = name;
    return *expand_pattern(text, hostile);
  };
  CHECK(with(".") == "/t/_");
  CHECK(with("..") == "/t/__");
  CHECK(with("../..") == "/t/.._..");
  CHECK(with("...") == "/t/...");
  CHECK(with(".", "/t/%x%x/a") == "/t/__/a");
  hostile.user = hostile.node = "..";
  CHECK(with("a", "/%u/%N/%x") == "/__/__/a");
}

TEST_CASE("a pattern that is unknown, or whose value is, is named") {
  CHECK(expand_pattern("%z", facts()).error().code == EINVAL);
  CHECK(expand_pattern("50%", facts()).error().code == EINVAL);
  CHECK(expand_pattern("%5", facts()).error().code == EINVAL);
  PatternFacts none;
  for (const char* text : {"%A", "%a", "%n", "%x"}) {
    CHECK(expand_pattern(text, none).error().code == ENODATA);
  }
  CHECK_FALSE(check_pattern("%q"));
  CHECK(check_pattern("%j%%%x"));
}

TEST_CASE("whether nodes get names of their own") {
  CHECK(names_node("/a/%N"));
  CHECK(names_node("/a/%02n"));
  CHECK_FALSE(names_node("/a/%j"));
  CHECK_FALSE(names_node("/a/%%N"));
}

TEST_CASE("whether one of several patterns is there") {
  CHECK(names_any("/a/%4a", "ja"));
  CHECK(names_any("/a/x%j", "ja"));
  CHECK_FALSE(names_any("/a/%A", "ja"));
  CHECK_FALSE(names_any("/a/%%a", "ja"));
}
