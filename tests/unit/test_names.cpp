#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <set>
#include <sstream>

#include "common/text/archive_names.hpp"
#include "common/text/glob_text.hpp"
#include "texts.hpp"

using namespace nodestage;

namespace {

PatternFacts facts() {
  return {.job = 42,
          .restart = 1,
          .user = "alice",
          .node = "n1",
          .node_index = 3,
          .array_job = 40,
          .array_task = 7,
          .job_name = "train/a"};
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

namespace {

using Use = ArchiveName::Use;

std::string lowered(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return text;
}

// The names in the manual page between `names: USE` and `names end`.
std::set<std::string> manual_names(const std::string& use) {
  const std::string manual = source_text("docs/nodestage.7");
  const std::size_t begin = manual.find("names: " + use + "\n");
  REQUIRE(begin != std::string::npos);
  std::istringstream lines(manual.substr(begin, manual.find("names end", begin) - begin));
  std::set<std::string> names;
  for (std::string word; lines >> word;) {
    if (word.starts_with('.') && word != ".Pa" && word != ".\\\"") names.insert(lowered(word));
  }
  return names;
}

std::set<std::string> table_names(Use use) {
  std::set<std::string> names;
  for (const ArchiveName& name : archive_names()) {
    if (name.use == use) names.insert(std::string(name.suffix));
  }
  return names;
}

}  // namespace

TEST_CASE("the manual page has the names of archives, as the table has them") {
  CHECK(manual_names("extracted") == table_names(Use::extracted));
  CHECK(manual_names("refused") == table_names(Use::refused));
  CHECK(manual_names("copied") == table_names(Use::copied));
}

TEST_CASE("the suffix of an archive is recognised, whatever its case") {
  CHECK(archive_suffix("/p/A.Tar.GZ") == ".tar.gz");
  CHECK(archive_suffix("a.tar.lz") == ".tar.lz");
  CHECK(archive_suffix("a.rar") == ".rar");
  CHECK(archive_suffix("a.tar.br") == ".tar.br");
  CHECK(archive_suffix("a.npz") == "");
  CHECK(archive_suffix("a.bin") == "");
  CHECK(check_written_archive(".tar.zst"));
  CHECK(check_written_archive(""));
  CHECK(check_written_archive(".npz"));
  CHECK(check_written_archive(".tar.lz").error().what ==
        "archives of the kind .tar.lz cannot be written, only read");
  CHECK(check_written_archive(".zpaq").error().what ==
        "archives of the kind .zpaq cannot be written");
}

TEST_CASE("a part of a split archive is known by its name") {
  CHECK(whole_archive("/p/t.tar.gz.part00") == "t.tar.gz");
  CHECK(whole_archive("v.7z.002") == "v.7z");
  CHECK(whole_archive("t.tar.ab") == "t.tar");
  CHECK(whole_archive("t.zip_part-aa") == "t.zip");
  CHECK(whole_archive("t.tar.part1") == "t.tar");
  for (const char* name : {"t.tar", "t.tar.gz", "t.zip.gz", "t.tar.br", "t.tar.md5", "t.tar.1",
                           "t.part01", "t.tar.2024", "t.tar.asc", "part", "", "/p/"})
    CHECK_MESSAGE(whole_archive(name).empty(), name);
  CHECK(whole_zip("/p/data.z01") == "data.zip");
  for (const char* name : {"data.zip", "data.z", "data.z1", "data.z1234", ".z01", "data.zab"})
    CHECK_MESSAGE(whole_zip(name).empty(), name);
  CHECK(is_part_name("x.part01"));
  CHECK(is_part_name("x.003"));
  CHECK_FALSE(is_part_name("x.csv"));
}
