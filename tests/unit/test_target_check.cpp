#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "common/request/option_text.hpp"
#include "common/request/request_warnings.hpp"
#include "scratch.hpp"
#include "texts.hpp"

using namespace nodestage;
namespace fs = std::filesystem;

namespace {

struct Targets {
  Scratch scratch;
  Targets() {
    fs::create_directory(scratch / "dir");
    fs::create_directory(scratch / "old.tar");
    std::ofstream(scratch / "file") << "x";
    std::ofstream(scratch / "old.csv") << "x";
    fs::create_symlink(scratch / "nowhere", scratch / "link");
  }
  // What is said of an option whose relative target lies there, without the path of the scratch.
  std::string about(const std::string& text) const {
    const auto item = parse_output_option(text, {scratch.path().string(), "/home"});
    REQUIRE(item);
    std::string said = about_target(*item);
    const std::string place = scratch.path().string() + "/";
    for (auto at = said.find(place); at != std::string::npos; at = said.find(place))
      said.erase(at, place.size());
    return said;
  }
};

}  // namespace

TEST_CASE("a target that can be made is passed over") {
  const Targets targets;
  for (const char* text : {"r:new", "r:new/deep/%j", "r:dir", "r:dir/", "r:dir/%x/%j",
                           "r:out.tar.zst", "a.csv:old.csv", "r:old.tar/", "*.pt:dir", "r:file.tar",
                           "old.tar:old.tar", "r:%j", "r:dir,pack", "OUTCAR:file", "r:file"}) {
    INFO(text);
    CHECK(targets.about(text) == "");
  }
}

TEST_CASE("a file where a directory is needed, and the reverse") {
  const Targets targets;
  CHECK(
      targets.about("r:file/") ==
      "the target file/ of 'r' cannot be written: it is a file, which only a file can replace, and "
      "no directory");
  CHECK(has(targets.about("*.csv:old.csv"), "it is a file"));
  CHECK(has(targets.about("a.csv:file/"), "it is a file"));
  CHECK(has(targets.about("r:file/,pack"), "it is a file"));
  CHECK(targets.about("r:file/sub/%j") ==
        "the target file/sub/%j of 'r' cannot be made: file is a file");
  CHECK(has(targets.about("r:old.tar"), "it is a directory, which no archive can replace"));
}

TEST_CASE("a directory that its user may not write to") {
  if (::geteuid() == 0 || ::access("/", W_OK) == 0) return;  // root may write everywhere
  const Targets targets;
  CHECK(targets.about("r:/root/x") ==
        "the target /root/x of 'r' cannot be made: you may not write to /root");
  CHECK(targets.about("r:/no/such/place/%j") ==
        "the target /no/such/place/%j of 'r' cannot be made: you may not write to /");
  CHECK(targets.about("r:/") == "the target / of 'r' cannot be written: you may not write to /");
  fs::permissions(targets.scratch / "dir", fs::perms::owner_read | fs::perms::owner_exec);
  CHECK(has(targets.about("r:dir/%j"), "you may not write to dir"));
  fs::permissions(targets.scratch / "dir", fs::perms::owner_all);
}
