// Directories that one node of a job reads for all: every tree is the one that a node without the
// relay would have, and so is every fault.
#include <doctest/doctest.h>

#include <functional>

#include "relayed_nodes.hpp"

using namespace nodestage;

namespace {

// What a copy keeps: types, modes, times, sizes, link texts, names of one file, data.
constexpr char k_list[] =
    "cd out && (find . ! -type d -printf '%P %y %#m %T@ %s %l %n\\n' | sort; "
    "find . -type d -printf '%P %#m %T@\\n' | sort) >../../list; cd .. && chmod -R u+rwX out";

constexpr char k_make_tree[] =
    "mkdir -p t/a/b/c t/empty t/closed && echo x >t/closed/y && seq 3000 >t/a/s && ln t/a/s "
    "t/a/b/hard && "
    "ln -s s t/a/link && ln -s ../../nowhere t/out && : >t/zero && "
    "for i in $(seq 300); do printf %${i}d 0 >t/a/b/c/$i; done && head -c 40M /dev/urandom "
    ">t/large && "
    "truncate -s 30M t/sparse && printf 1234 | dd of=t/sparse bs=1 seek=20000000 conv=notrunc "
    "status=none && "
    "printf x >\"t/$(printf 'odd\\n\\001\\377 name')\" && chmod 4755 t/zero && chmod 1777 t/empty "
    "&& "
    "mkfifo t/fifo && setfattr -n user.a -v b t/a/s 2>/dev/null; "
    "echo secret >t/denied && chmod 0400 t/denied && chmod 0666 t/a/b/c/7 && chmod 0500 t/closed "
    "&& "
    "touch -d '2001-02-03 04:05:06.123456789' t/a/s t/a/b t && touch -h -d 2002-03-04 t/a/link";

// Without the relay, on the same source.
std::string list_of(const StageRun& stage) {
  CHECK(stage.in_job(std::string("test -e ../list || { ") + k_list + "; }"));
  return stage.job() + "/../list";
}

bool are_alike(const StageRun& one, const StageRun& other) {
  const std::string first = list_of(one);
  const std::string second = list_of(other);
  return shell("/", "diff -a " + first + " " + second + " && diff -r --no-dereference " +
                        one.job() + "/out " + other.job() + "/out") == 0;
}

struct Trees {
  RelayedNodes nodes{3};
  StageRun plain;

  Trees() {
    // The lists lie beside the jobs' directories.
    for (std::size_t i = 0; i < 3; ++i) prepare(nodes[i].stage);
    prepare(plain);
    REQUIRE(nodes[0].stage.in_data(k_make_tree) == 0);
  }
  static void prepare(const StageRun& stage) {
    const std::string scratch = stage.job() + "/..";
    REQUIRE(::chmod(scratch.c_str(), 0777) == 0);
  }
  void add(const std::function<void(DatasetItem&)>& change = {}) {
    nodes.add("t", change);
    DatasetItem& item = plain.add(nodes[0].stage.data() + "/t");
    item.destination = "out";
    if (change) change(item);
  }
};

}  // namespace

TEST_CASE("a directory is read by one of three nodes, and is on all what a copy of it is") {
  Trees trees;
  std::function<void(DatasetItem&)> change;
  SUBCASE("all of it") {}
  SUBCASE("a part of it") {
    change = [](DatasetItem& item) {
      item.include = {"a", "large"};
      item.exclude = {"*7"};
    };
  }
  SUBCASE("with what its links lead to") {
    REQUIRE(trees.nodes[0].stage.in_data("mkdir o && seq 9 >o/f && ln -s ../o t/other") == 0);
    change = [](DatasetItem& item) { item.links = Links::follow; };
  }
  SUBCASE("what is newest in it") {
    change = [](DatasetItem& item) { item.newest = 2; };
  }
  SUBCASE("with extended attributes") {
    for (std::size_t i = 0; i < 3; ++i) trees.nodes[i].stage.order.extract.xattrs = true;
    trees.plain.order.extract.xattrs = true;
  }
  trees.add(change);
  REQUIRE(trees.plain.run() == 0);
  trees.nodes.start();
  REQUIRE(trees.nodes[0].stage.run() == 0);
  // What the others do not read need not be readable there.
  REQUIRE(trees.nodes[0].stage.in_data("chmod 0 t/a t/closed t/large") == 0);
  for (std::size_t i = 1; i < 3; ++i) {
    CAPTURE(i);
    REQUIRE(trees.nodes[i].stage.run() == 0);
    CHECK(trees.nodes.item(i).bytes_from_nodes > 0);
    CHECK(trees.nodes.item(i).bytes_from_storage == 0);
    CHECK(trees.nodes.item(i).files == trees.plain.status.items.at(0).files);
    CHECK(trees.nodes[i].stage.note().find(" from node before") != std::string::npos);
    const std::string note = trees.nodes[i].stage.note();
    CHECK(note.substr(0, note.rfind("; ")) ==
          (trees.plain.note().empty() ? note.substr(0, note.rfind("; ")) : trees.plain.note()));
  }
  CHECK(trees.nodes.item(0).bytes_from_nodes == 0);
  CHECK(trees.nodes.item(0).bytes_from_storage > 0);
  for (std::size_t i = 0; i < 3; ++i) {
    CAPTURE(i);
    CHECK(are_alike(trees.nodes[i].stage, trees.plain));
  }
}

TEST_CASE("what cannot be read of a directory is the same fault on all nodes") {
  Trees trees;
  REQUIRE(trees.nodes[0].stage.in_data("chmod 0 t/denied") == 0);
  SUBCASE("a file") {}
  SUBCASE("too many files") {
    REQUIRE(trees.nodes[0].stage.in_data("chmod 0400 t/denied") == 0);
    trees.add([](DatasetItem& item) { item.limit_files = 100; });
  }
  if (trees.plain.request.datasets.empty()) trees.add();
  CHECK(trees.plain.run() != 0);
  trees.nodes.start();
  for (std::size_t i = 0; i < 3; ++i) {
    CAPTURE(i);
    CHECK(trees.nodes[i].stage.run() != 0);
    CHECK(trees.nodes[i].stage.status.cause == trees.plain.status.cause);
    CHECK(!trees.nodes[i].stage.status.cause.empty());
  }
}

TEST_CASE("a directory that is too deep to be passed on is copied by each node, without a wait") {
  Trees trees;
  REQUIRE(trees.nodes[0].stage.in_data("mkdir -p t$(printf '/d%.0s' $(seq 1001))") == 0);
  trees.add();
  REQUIRE(trees.plain.run() == 0);
  trees.nodes.start();
  for (std::size_t i = 0; i < 3; ++i) {
    CAPTURE(i);
    REQUIRE(trees.nodes[i].stage.run() == 0);
    CHECK(trees.nodes.item(i).bytes_from_nodes == 0);
    CHECK(trees.nodes.item(i).files == trees.plain.status.items.at(0).files);
    if (i > 0)
      CHECK(trees.nodes[i].stage.note().find("beyond the bounds of what is relayed") !=
            std::string::npos);
  }
}

TEST_CASE("a node that may not read the directory gets nothing of it") {
  Trees trees;
  trees.add();
  trees.nodes.start();
  REQUIRE(trees.nodes[0].stage.run() == 0);
  // The change of its mode is another ctime; that alone would refuse it, too.
  REQUIRE(trees.nodes[0].stage.in_data("chmod 0100 t") == 0);
  CHECK(trees.nodes[1].stage.run() != 0);
  CHECK(trees.nodes[1].stage.status.cause.find("/t: cannot be read: Permission denied") !=
        std::string::npos);
}

TEST_CASE("a directory that differs on a node is read there") {
  Trees trees;
  trees.add();
  trees.nodes.start();
  REQUIRE(trees.nodes[0].stage.run() == 0);
  REQUIRE(trees.nodes[0].stage.in_data("echo new >t/new") == 0);
  REQUIRE(trees.nodes[1].stage.run() == 0);
  CHECK(trees.nodes[1].stage.in_job("grep -q new out/new"));
  CHECK(trees.nodes.item(1).bytes_from_nodes == 0);
  REQUIRE(trees.nodes[2].stage.run() == 0);
  CHECK(trees.nodes[2].stage.in_job("grep -q new out/new"));
  CHECK(trees.nodes.item(2).bytes_from_storage == 0);
}

TEST_CASE("with other options, a directory is another source") {
  Trees trees;
  trees.nodes.add("t");
  trees.nodes[1].stage.request.datasets[0].exclude = {"a"};
  trees.nodes.start();
  REQUIRE(trees.nodes[0].stage.run() == 0);
  REQUIRE(trees.nodes[1].stage.run() == 0);
  CHECK(trees.nodes[1].stage.in_job("test -e out/large -a ! -e out/a"));
  CHECK(trees.nodes.item(1).bytes_from_nodes == 0);
}
