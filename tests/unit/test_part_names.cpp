// The parts of one file, known and ordered by their names.
#include <doctest/doctest.h>

#include "common/text/human.hpp"
#include "common/text/part_names.hpp"
#include "texts.hpp"

using namespace nodestage;

namespace {

using Names = std::vector<std::string>;

// "WHOLE: PARTS in order / OTHERS", or the fault's cause; names without their directory.
std::string ordered(const Names& names) {
  Names paths;
  for (const std::string& name : names) paths.push_back("/p/" + name);
  const auto parts = order_parts(paths, "/p/*");
  if (!parts) return parts.error().what;
  std::string text = last_part(parts->whole) + ":";
  for (const std::string& path : parts->paths) text += " " + last_part(path);
  if (!parts->others.empty()) text += " /";
  for (const std::string& path : parts->others) text += " " + last_part(path);
  return text;
}

// As split(1) names so many parts.
Names split_names(const std::string& start, const std::string& first, std::size_t length,
                  std::size_t count) {
  Names names;
  const bool has_digits = first == "0";
  const std::size_t letters = has_digits ? 10 : 26;
  std::size_t at = 0;
  for (std::size_t width = length, fixed = 0; names.size() < count; width += 2, ++fixed, at = 0) {
    std::size_t room = letters - 1;  // a first letter that is the last one of all makes it longer
    for (std::size_t i = 1; i < width - fixed; ++i) room *= letters;
    for (; at < room && names.size() < count; ++at) {
      std::string number(width - fixed, first[0]);
      std::size_t rest = at;
      for (std::size_t i = number.size(); i-- > 0; rest /= letters)
        number[i] = static_cast<char>(first[0] + static_cast<char>(rest % letters));
      names.push_back(start + std::string(fixed, has_digits ? '9' : 'z') + number);
    }
  }
  return names;
}

}  // namespace

TEST_CASE("each form of the names of parts is known, and their numbers are numbers") {
  struct Row {
    Names names;
    const char* ordered;
  };
  for (const Row& row : {
           Row{{"d.tar.gz.aa", "d.tar.gz.ab"}, "d.tar.gz: d.tar.gz.aa d.tar.gz.ab"},
           Row{{"d.tar.aaa", "d.tar.aab"}, "d.tar: d.tar.aaa d.tar.aab"},
           Row{{"d.tar.part01", "d.tar.part00"}, "d.tar: d.tar.part00 d.tar.part01"},
           Row{{"d.tar.part1", "d.tar.part10", "d.tar.part2", "d.tar.part3", "d.tar.part4",
                "d.tar.part5", "d.tar.part6", "d.tar.part7", "d.tar.part8", "d.tar.part9"},
               "d.tar: d.tar.part1 d.tar.part2 d.tar.part3 d.tar.part4 d.tar.part5 d.tar.part6 "
               "d.tar.part7 d.tar.part8 d.tar.part9 d.tar.part10"},
           Row{{"d.csv.001", "d.csv.002"}, "d.csv: d.csv.001 d.csv.002"},
           Row{{"d.tar-00", "d.tar-01"}, "d.tar: d.tar-00 d.tar-01"},
           Row{{"d.zip_part-aa", "d.zip_part-ab"}, "d.zip: d.zip_part-aa d.zip_part-ab"},
           Row{{"d.tar.partaa", "d.tar.partab"}, "d.tar: d.tar.partaa d.tar.partab"},
           Row{{"d.7z.001", "d.7z.002"}, "d.7z: d.7z.001 d.7z.002"},
           Row{{"d.z01", "d.z02", "d.zip"}, "d.zip: d.z01 d.z02 d.zip"},
           Row{{"d.zip.001", "d.zip.002"}, "d.zip: d.zip.001 d.zip.002"},
           Row{{"xaa", "xab"}, "x: xaa xab"},
           Row{{"d.tar00", "d.tar01"}, "d.tar: d.tar00 d.tar01"},
           Row{{"d.tar.part1"}, "d.tar: d.tar.part1"},
           Row{{"d.tar.gz"}, "d.tar.gz: d.tar.gz"},
           Row{{"d.zip"}, "d.zip: d.zip"},
       })
    CHECK(ordered(row.names) == row.ordered);
}

TEST_CASE("what split(1) has named is in its order, however long the names become") {
  for (const auto& [first, length, count] :
       {std::tuple<std::string, std::size_t, std::size_t>{"a", 2, 700},
        {"0", 2, 1000},
        {"a", 3, 1000},
        {"0", 3, 901}}) {
    const Names names = split_names("d.tar.gz.", first, length, count);
    Names given = names;
    std::sort(given.begin(), given.end(), std::greater<>());
    const auto parts = must(order_parts(given, "*"));
    CHECK((parts.paths == names));
    CHECK(parts.others.empty());
  }
}

TEST_CASE("what is no part is left out by its name") {
  CHECK(ordered({"d.tar.gz.part1", "d.tar.gz.part1.md5", "d.tar.gz.part2", "d.tar.gz.sha256",
                 "d.tar.gz", "README", "d.tar.gz.part2.asc"}) ==
        "d.tar.gz: d.tar.gz.part1 d.tar.gz.part2 / d.tar.gz.part1.md5 d.tar.gz.sha256 d.tar.gz "
        "README d.tar.gz.part2.asc");
  CHECK(ordered({"d.tar.aa", "d.tar.ab", "d.tar.asc", "d.tar.md", "d.tar.gz", "d.tar.txt"}) ==
        "d.tar: d.tar.aa d.tar.ab / d.tar.asc d.tar.md d.tar.gz d.tar.txt");
  CHECK(ordered({"d.z01", "d.zip", "d.zip.md5"}) == "d.zip: d.z01 d.zip / d.zip.md5");
  CHECK(ordered({"d.7z.001", "d.7z.002", "e-1"}) == "d.7z: d.7z.001 d.7z.002 / e-1");
  const auto parts = must(order_parts({"/p/d.1", "/p/d.2", "/p/d.md5"}, "*"));
  CHECK(left_out_parts(parts) == "left out, as no part of d: d.md5");
  // "gz" is the 189th name of split(1), so it counts where the one before it is there.
  const Names names = split_names("d.tar.", "a", 2, 190);
  CHECK((must(order_parts(names, "*")).paths == names));
}

TEST_CASE("a gap is told by the name of what is missing") {
  const auto missing = [](const char* name, const char* other) {
    return "/p/" + std::string(name) + ": this part is missing, and " + other + " is there";
  };
  CHECK(ordered({"d.part1", "d.part3"}) == missing("d.part2", "d.part3"));
  CHECK(ordered({"d.part08", "d.part02", "d.part01"}) == missing("d.part03", "d.part08"));
  CHECK(ordered({"d.part02", "d.part03"}) == missing("d.part01", "d.part02"));
  CHECK(ordered({"d.aa", "d.ad"}) == missing("d.ab", "d.ad"));
  CHECK(ordered({"d.ab", "d.ac"}) == missing("d.aa", "d.ab"));
  CHECK(ordered({"d.z01", "d.z03", "d.zip"}) == missing("d.z02", "d.z03"));
  CHECK(ordered({"d.z01", "d.z02"}) == missing("d.zip", "d.z02"));
  CHECK(ordered({"d.z00", "d.z01", "d.zip"}) == missing("d.z01", "d.z00"));
  CHECK(ordered({"d.1", "d.01", "d.2"}) ==
        "/p/d.01 and d.1 have the same number among the parts of d");
  CHECK(ordered({"d.1", "d.2", "e.1", "e.2"}) ==
        "/p/*: the matches are parts of several files, /p/d and /p/e");
  CHECK(ordered({"a.csv", "b.csv"}) == "/p/*: no match has the name of a part: a.csv and others");
  CHECK(ordered({"a.bin"}) == "a.bin: a.bin");
  Names many;
  for (std::size_t i = 0; i <= k_most_parts; ++i) many.push_back("d.part" + std::to_string(i));
  CHECK(ordered(many) == "/p/*: more than 10,000 parts of one file");
}

TEST_CASE("parts of unequal size or of another order in time are doubtful") {
  const auto doubt = [](const std::vector<PartLook>& looks) {
    Names paths;
    for (std::size_t i = 1; i <= looks.size(); ++i) paths.push_back("/p/d." + std::to_string(i));
    return doubt_of_parts(paths, looks);
  };
  CHECK(doubt({{100, 0}, {100, 0}, {7, 0}}) == "");
  CHECK(doubt({{100, 0}}) == "");
  CHECK(doubt({{100, 0}, {100, 0}, {102, 0}}) == "");  // split -n 3
  CHECK(doubt({{101, 0}, {100, 0}, {100, 0}}) == "");
  CHECK(doubt({{31, 0}, {35, 0}, {29, 0}, {33, 0}, {40, 0}, {22, 0}}) == "");  // split -l
  const std::string unequal = "the parts are of unequal size: the transfer of ";
  CHECK(doubt({{100, 0}, {60, 0}, {100, 0}, {100, 0}, {7, 0}}) ==
        unequal + "d.2 (60 B) may be incomplete");
  CHECK(doubt({{100, 0}, {60, 0}, {100, 0}, {7, 0}}) == "");  // no rule can be seen
  CHECK(doubt({{9, 0}, {9, 0}, {9, 0}, {4, 0}, {5, 0}, {6, 0}, {7, 0}}) == "");
  CHECK(doubt_of_parts({"/p/d.z01", "/p/d.z02", "/p/d.z03", "/p/d.z04", "/p/d.zip"},
                       {{9, 0}, {9, 0}, {9, 0}, {4, 0}, {7, 0}}) == "");
  CHECK(doubt({{100, 0}, {0, 0}}) == unequal + "d.2 (0 B) may be incomplete");
  CHECK(doubt({{50, 0}, {100, 0}}) == "");
  const std::int64_t day = 86400;
  CHECK(doubt({{9, day}, {9, 2 * day}, {9, 9 * day}}) == "");  // a slow transfer
  CHECK(doubt({{9, day}, {9, day - 600}}) == "");
  CHECK(doubt({{9, 2 * day}, {9, day}, {9, day}}) ==
        "d.2 is 24 h 00 min older than d.1 before it: one of them may be of an earlier version of "
        "the file");
}

TEST_CASE("the option that joins parts can be pasted") {
  CHECK(how_to_join("/p/d.tar.gz.part03") == "--stage-dataset='/p/d.tar.gz.part*:d,join'");
  CHECK(how_to_join("/p/d.tar.aa") == "--stage-dataset='/p/d.tar.*:d,join'");
  CHECK(how_to_join("/p/d.z02") == "--stage-dataset='/p/d.z*:d,join'");
  CHECK(how_to_join("/p/d e.7z.001") == "--stage-dataset='/p/d e.7z.*:d e,join'");
  for (const char* path : {"/p/d", "/p/d,e.tar.aa", "/p/d:e.tar.aa", "/p[1]/d.tar.aa"})
    CHECK(how_to_join(path) == "");
  for (const auto& [glob, whole] : {std::pair{"/p/d.tar.gz.part*", "/p/d.tar.gz"},
                                    {"/p/d.tar.part0[0-9]", "/p/d.tar"},
                                    {"/p/d.csv.part0*", "/p/d.csv"},
                                    {"/p/d.tar.*", "/p/d.tar"},
                                    {"/p/d.tar.0*", "/p/d.tar"},
                                    {"/p/d.tar.a?", "/p/d.tar"},
                                    {"/p/d.tar.gz*", "/p/d.tar.gz"},
                                    {"/p/d.tar.001", "/p/d.tar"},
                                    {"/p/d.z*", "/p/d.zip"},
                                    {"/p/d-2024*", "/p/d-2024"},
                                    {"/p/run*/d.tar.*", "/p/run*/d.tar"},
                                    {"/p/{a/b,c/d}.tar.*", "/p/{a/b,c/d}.tar.*"},
                                    {"/p/x*", "/p/x"},
                                    {"/p/*", "/p/*"}})
    CHECK(whole_of_glob(glob) == whole);
}
