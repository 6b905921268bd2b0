// The table of formats, the documents that list them, and how many sources another one touches.
#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <iterator>
#include <set>
#include <sstream>
#include <string>

#include "common/text/archive_names.hpp"
#include "texts.hpp"

namespace fs = std::filesystem;
using namespace nodestage;

namespace {

std::string between(const std::string& text, const std::string& begin, const std::string& end) {
  const std::size_t at = text.find(begin);
  REQUIRE(at != std::string::npos);
  return text.substr(at, text.find(end, at + begin.size()) - at);
}

std::set<std::string> words_of(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, ' ');
  std::istringstream words(text);
  return {std::istream_iterator<std::string>(words), {}};
}

// The names of codings that are among these words.
std::set<std::string> codings_in(const std::string& text) {
  const auto words = words_of(text);
  std::set<std::string> found;
  for (const CodingRow& row : k_codings)
    if (words.count(std::string(row.name)) != 0) found.emplace(row.name);
  return found;
}

template <typename Wanted>
std::set<std::string> codings_with(Wanted&& wanted) {
  std::set<std::string> names;
  for (const CodingRow& row : k_codings)
    if (row.coding != Coding::plain && wanted(row)) names.emplace(row.name);
  return names;
}

}  // namespace

TEST_CASE("the documents list the codings that the table has") {
  const auto all = codings_with([](const CodingRow&) { return true; });
  const std::string manual = source_text("docs/nodestage.7");
  CHECK(codings_in(between(manual, "or compressed\nby", "(.Z)")) == all);
  CHECK(codings_in(between(source_text("docs/user.md"), "plain or compressed by", "(`.Z`)")) ==
        all);
  const auto written = codings_with([](const CodingRow& row) { return !row.written.empty(); });
  CHECK(codings_in(between(manual, "the latter also", ".\n")) == written);
}

TEST_CASE("docs/building.md says which library each coding is for") {
  const std::string building = source_text("docs/building.md");
  for (const CodingRow& row : k_codings) {
    if (row.library.empty() || row.library == "ISA-L") continue;  // ISA-L has a text of its own
    const std::string library(row.library == "bzip2" ? "BZip2" : row.library);
    CAPTURE(library);
    const std::string line = building.find("\n| " + library + " |") != std::string::npos
                                 ? between(building, "\n| " + library + " |", " |\n")
                                 : between(building, "\n| lib" + library + " |", " |\n");
    CHECK(codings_in(line.substr(line.rfind('|'))).count(std::string(row.name)) == 1);
  }
}

TEST_CASE("no suffix stands twice, and each coding has a name for its tars") {
  std::set<std::string_view> suffixes;
  for (const ArchiveName& name : archive_names()) {
    CAPTURE(name.suffix);
    CHECK(suffixes.insert(name.suffix).second);
    CHECK(archive_name("a" + std::string(name.suffix)) == &name);
  }
  for (const CodingRow& row : k_codings) {
    const std::string ending = row.suffix.empty() ? "" : "." + std::string(row.suffix);
    const ArchiveName* name = archive_name("a.tar" + ending);
    REQUIRE(name != nullptr);
    CHECK(name->coding == row.coding);
    CHECK(name->container == Container::tar);
  }
}

// What CONTRIBUTING.md says of a compressed format. The third source is the decoder itself.
TEST_CASE("a coding that needs no treatment of its own is named in two sources") {
  for (const std::string coding : {"lz4", "compress", "lzma", "lzip"}) {
    std::set<std::string> sources;
    for (const char* house : {"common", "daemon", "plugin", "cli"}) {
      for (const auto& entry :
           fs::recursive_directory_iterator(fs::path(NODESTAGE_SOURCE_DIR) / house)) {
        const std::string suffix = entry.path().extension();
        if (suffix != ".cpp" && suffix != ".hpp") continue;
        if (file_text(entry.path()).find("Coding::" + coding) != std::string::npos)
          sources.insert(entry.path().filename());
      }
    }
    CAPTURE(coding);
    CHECK(sources == std::set<std::string>{"archive_names.hpp", "codecs.hpp"});
  }
}
