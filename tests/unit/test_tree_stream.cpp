// The stream of a directory, as another node has sent it: what is believed of it.
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/os/file.hpp"
#include "daemon/worker/piece/tree_stream.hpp"
#include "metered.hpp"
#include "texts.hpp"
#include "tree_records.hpp"

using namespace nodestage;

namespace {

// A slot in which the whole stream has come.
struct SentStream : Metered {
  RelayRules rules;
  Fd board_fd{::memfd_create("board", MFD_CLOEXEC)};
  Fd spool{::memfd_create("spool", MFD_CLOEXEC)};
  Board board;
  RelayedSources sources;
  RelayedTree tree;

  explicit SentStream(const std::string& text)
      : board(made(board_fd.get())),
        sources(rules, board_fd.get(), spool.get()),
        tree({&*board, &board->slots[0], spool.get(), 0, std::uint64_t{4} << 20, 0,
              std::chrono::seconds(60)},
             sources, meter) {
    REQUIRE(pwrite_all(spool.get(), std::as_bytes(std::span(text)), 0));
    board->slots[0].watermark = text.size();
    board->slots[0].is_whole = 1;
  }
  static Board made(int fd) {
    REQUIRE(::ftruncate(fd, k_relay_board_bytes) == 0);
    return must(Board::map(fd));
  }
};

}  // namespace

TEST_CASE("a stream that makes no sense, or has no bounds, is not believed") {
  using namespace tree_records;
  const std::string nul("a\0b", 3);
  std::string bad;
  ExtractRules rules{.xattrs = true};
  SUBCASE("it ends without its last record") {}
  SUBCASE("it ends in a record") { bad = file("a").substr(0, 9); }
  SUBCASE("a record is too long") { bad = "\xff\xff\xff\xff"; }
  SUBCASE("a record has more than a MiB") {
    bad = file("a", 0, {0644, 0, {"user.a", std::string(k_most_tree_record, 'x')}});
  }
  SUBCASE("a record is empty") { bad = std::string(4, '\0'); }
  SUBCASE("a record is of no kind") { bad = std::string("\1\0\0\0\7", 5); }
  SUBCASE("a name leads out") { bad = file("a/../../b"); }
  SUBCASE("a name is absolute") { bad = file("/etc/passwd"); }
  SUBCASE("a file has no name") { bad = file(""); }
  SUBCASE("a name has a NUL") { bad = file(nul); }
  SUBCASE("a part of a name is too long") { bad = file(std::string(256, 'n')); }
  SUBCASE("a file is too deep") { bad = file(deep(1001)); }
  SUBCASE("a directory is too deep") { bad = directory(deep(1001)); }
  SUBCASE("a mode is none") { bad = file("a", 0, {0100644}); }
  SUBCASE("a time is none") { bad = file("a", 0, {0644, 1'000'000'000}); }
  SUBCASE("a size is none") { bad = file("a", std::uint64_t{1} << 63); }
  SUBCASE("a link leads out") { bad = hard_link("a", "../b"); }
  SUBCASE("a link leads too deep") { bad = hard_link("a", deep(20'000)); }
  SUBCASE("a link has a NUL") { bad = soft_link("a", nul); }
  SUBCASE("a link has no target") { bad = soft_link("a", ""); }
  SUBCASE("an attribute has no value") { bad = file("a", 0, {0644, 0, {"user.a"}}); }
  SUBCASE("there are too many attributes") {
    bad = file("a", 0, {0644, 0, std::vector<std::string>(2050, "user.a")});
  }
  SUBCASE("attributes that the site does not want") {
    rules.xattrs = false;
    bad = file("a", 0, {0644, 0, {"user.a", "x"}});
  }
  SUBCASE("data are none") { bad = data(0, 0); }
  SUBCASE("data are too many") { bad = data(0, 1U << 30); }
  SUBCASE("data of no file") { bad = data(0, 1) + "x"; }
  SUBCASE("data behind the end of a file") { bad = file("a", 5) + data(3, 3) + "xxx"; }
  SUBCASE("data far behind the end") { bad = file("a", 5) + data(~std::uint64_t{0}, 3) + "xxx"; }
  SUBCASE("data of a file that come again") {
    bad = file("a", 5) + data(0, 3) + "xxx" + data(2, 1) + "x";
  }
  SUBCASE("data of a file after another entry") {
    bad = file("a", 5) + directory("d") + data(0, 3) + "xxx";
  }
  SentStream sent(file("good", 0, {0644, 5}) + bad);
  TreeStreamReader stream(sent.tree, rules);
  const auto good = must(stream.next());
  CHECK(good.entry.name == "good");
  CHECK(good.entry.mtime->tv_nsec == 5);
  while (stream.next()) continue;
  CHECK(stream.has_broken());
}

TEST_CASE("the deepest tree that is relayed, and data in parts, are right") {
  using namespace tree_records;
  SentStream sent(file(deep(1000), 9) + data(1, 2) + "xx" + data(5, 4) + "xxxx" + end());
  TreeStreamReader stream(sent.tree, {});
  for (const auto kind : {TreeRecord::Kind::entry, TreeRecord::Kind::data, TreeRecord::Kind::data,
                          TreeRecord::Kind::end}) {
    CHECK(must(stream.next()).kind == kind);
  }
}
