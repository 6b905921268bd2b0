#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include "common/text/archive_names.hpp"
#include "texts.hpp"

using namespace nodestage;

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
                           "t.part01", "t.tar.2024", "t.tar.asc", "part", "", "/p/"}) {
    CAPTURE(name);
    CHECK(whole_archive(name).empty());
  }
  const auto part = part_name("/p/t.tar.gz_part-07");
  REQUIRE(part);
  CHECK(part->whole == "t.tar.gz");
  CHECK(part->joint == "_part-");
  CHECK(part->number == "07");
  CHECK(part->is_like(*part_name("t.tar.gz_part-112")));
  CHECK_FALSE(part->is_like(*part_name("t.tar.gz_part-aa")));
  CHECK_FALSE(part_name("t.tar.gz.md5"));
  CHECK(whole_zip("/p/data.z01") == "data.zip");
  for (const char* name : {"data.zip", "data.z", "data.z1", "data.z1234", ".z01", "data.zab"}) {
    CAPTURE(name);
    CHECK(whole_zip(name).empty());
  }
  CHECK(is_part_name("x.part01"));
  CHECK(is_part_name("x.003"));
  CHECK_FALSE(is_part_name("x.csv"));
}
