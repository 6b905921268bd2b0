// What one process hands over to another: descriptors of files that are open for reading, and
// nothing else.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>

#include "daemon/worker/read/opened_sources.hpp"
#include "daemon/worker/read/source.hpp"
#include "scratch.hpp"

using namespace nodestage;

namespace {

struct Ends {
  Ends() {
    int both[2] = {-1, -1};
    REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, both) == 0);
    user = Fd(both[0]);
    keeper = Fd(both[1]);
  }
  OpenedItems received() {
    user.reset();
    auto items = receive_items(keeper.get(), is_of_site);
    REQUIRE(items);
    return std::move(*items);
  }
  Fd user;
  Fd keeper;
  IsOfSite is_of_site = [](int) { return true; };
};

struct Site {
  explicit Site(const std::string& name) : path(scratch / name) { std::ofstream(path) << "text"; }
  [[nodiscard]] Fd open(int flags) const { return Fd(::open(path.c_str(), flags | O_CLOEXEC)); }
  Scratch scratch;
  std::string path;
};

}  // namespace

TEST_CASE("a file that is open for reading arrives, and can be read without its path") {
  const Site site("data.tar");
  Ends ends;
  REQUIRE(hand_over(ends.user.get(), 3, site.path, site.open(O_RDONLY).get()));
  REQUIRE(end_item(ends.user.get(), 3, true));
  OpenedItems items = ends.received();
  REQUIRE(items.size() == 1);
  CHECK(items.at(3).is_group);
  REQUIRE(::unlink(site.path.c_str()) == 0);
  std::ofstream(site.path) << "another file of that name";
  OpenedByText opened;
  opened.emplace("as the request has it", std::move(items.at(3)));
  read_opened_only(std::move(opened));
  CHECK_FALSE(find_sources("data.tar"));
  const auto found = find_sources("as the request has it");
  REQUIRE(found);
  CHECK(found->paths == std::vector<std::string>{site.path});
  const auto info = examine_source(site.path);
  REQUIRE(info);
  CHECK(info->st_size == 4);
  CHECK_FALSE(examine_source("/etc/passwd"));
  read_opened_only({});
  CHECK(examine_source("/etc/passwd"));
}

TEST_CASE("what proves no right to read is not taken, and an item must be complete") {
  const Site site("data.tar");
  const auto arrives = [&site](int flags, bool with_end, const std::string& path) {
    Ends ends;
    REQUIRE(hand_over(ends.user.get(), 0, path, site.open(flags).get()));
    if (with_end) REQUIRE(end_item(ends.user.get(), 0, false));
    return !ends.received().empty();
  };
  CHECK(arrives(O_RDONLY, true, site.path));
  CHECK(arrives(O_RDWR, true, site.path));
  CHECK_FALSE(arrives(O_PATH, true, site.path));
  CHECK_FALSE(arrives(O_WRONLY, true, site.path));
  CHECK_FALSE(arrives(O_RDONLY, false, site.path));
  CHECK_FALSE(arrives(O_RDONLY, true, ""));
  CHECK_FALSE(arrives(O_RDONLY, true, std::string("a\0b", 3)));
}

TEST_CASE("two sources of one path, and several without a group, are not taken") {
  const Site site("data.tar");
  const auto arrives = [&site](const std::string& second, bool is_group) {
    Ends ends;
    REQUIRE(hand_over(ends.user.get(), 0, site.path, site.open(O_RDONLY).get()));
    REQUIRE(hand_over(ends.user.get(), 0, second, site.open(O_RDONLY).get()));
    REQUIRE(end_item(ends.user.get(), 0, is_group));
    return !ends.received().empty();
  };
  CHECK(arrives(site.path + "2", true));
  CHECK_FALSE(arrives(site.path, true));
  CHECK_FALSE(arrives(site.path + "2", false));
}

TEST_CASE(
    "directories, pipes and too many files are not taken; a message that is no such one is a "
    "fault") {
  const Site site("data.tar");
  for (const char* path : {"/", "/dev/null", "/proc/self/mem"}) {
    Ends ends;
    const Fd fd(::open(path, O_RDONLY | O_CLOEXEC));
    REQUIRE(hand_over(ends.user.get(), 0, path, fd.get()));
    REQUIRE(end_item(ends.user.get(), 0, false));
    // A file of /proc is regular, and refused for its file system (test_source_trust).
    CHECK(ends.received().size() == (std::string(path) == "/proc/self/mem" ? 1 : 0));
  }
  Ends ends;
  REQUIRE(::send(ends.user.get(), "abc", 3, 0) == 3);
  ends.user.reset();
  CHECK_FALSE(receive_items(ends.keeper.get(), ends.is_of_site));
}

// The file may be one whose server does not answer: what is asked of it comes after the look at its
// mount, and nothing of the item is taken.
TEST_CASE("attack: a file of a file system of the user's is handed over") {
  const Site site("data.tar");
  Ends ends;
  int looks = 0;
  ends.is_of_site = [&looks](int) { return ++looks == 1; };
  REQUIRE(hand_over(ends.user.get(), 0, site.path, site.open(O_RDONLY).get()));
  REQUIRE(end_item(ends.user.get(), 0, false));
  REQUIRE(hand_over(ends.user.get(), 1, site.path, site.open(O_RDONLY).get()));
  REQUIRE(end_item(ends.user.get(), 1, false));
  const OpenedItems items = ends.received();
  CHECK(items.size() == 1);
  CHECK(items.contains(0));
  CHECK(looks == 2);
}
