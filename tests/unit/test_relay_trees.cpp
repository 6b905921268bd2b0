// The streams of directories: which node writes one, who reads it, and how it breaks.
#include <doctest/doctest.h>

#include <filesystem>
#include <optional>

#include "common/os/mounts.hpp"
#include "daemon/worker/piece/tree_stream.hpp"
#include "daemon/worker/spool/item_relay.hpp"
#include "relay_run.hpp"
#include "tree_records.hpp"

using namespace nodestage;

namespace {

// A node whose staging worker is this test.
struct TreeNode {
  RelayNode node;
  RateLimit rate{-1};
  const std::atomic<bool> stop = false;
  Meter meter{rate, stop};
  std::optional<RelayedSources> sources;
  std::string directory;
  struct stat info {};

  explicit TreeNode(const Scratch& scratch, std::uint64_t window = 8 * k_mib,
                    std::uint32_t limit_s = 60)
      : node(window, open_original, limit_s), directory(scratch.path()) {
    const Fd here(::open(directory.c_str(), O_PATH | O_CLOEXEC));
    const auto text = read_mountinfo();
    REQUIRE(text);
    const auto mount = find_mount(*text, mount_of(here.get()));
    REQUIRE(mount);
    node.order.relay.file_systems = {std::string(mount->type)};
    REQUIRE(::stat(directory.c_str(), &info) == 0);
    sources.emplace(node.order.relay, node.board_fd(), node.spool());
    REQUIRE(sources->expect(directory, info));
    sources->begin(1);
    node.start();
  }
  std::unique_ptr<RelayedTree> claim(std::uint64_t wanted = 7) {
    std::string why;
    const auto place = sources->claim_directory(directory, info, wanted, meter, why);
    CAPTURE(why);
    REQUIRE(place);
    return std::make_unique<RelayedTree>(*place, *sources, meter);
  }
};

RelayedTree::Part part_of(RelayedTree& tree) {
  const auto part = tree.await_part();
  REQUIRE(part);
  return *part;
}

bool put(RelayedTree& tree, const std::string& text) {
  return tree.write(std::as_bytes(std::span(text)));
}

// All of it, or what came before it broke.
std::string all_of(RelayedTree& tree) {
  std::string all;
  std::vector<std::byte> block(100'000);
  for (;;) {
    const auto count = tree.read(block);
    if (!count || *count == 0) return all;
    all.append(reinterpret_cast<const char*>(block.data()), *count);
  }
}

}  // namespace

TEST_CASE("the first node writes a directory's stream, and the others read it") {
  const Scratch scratch;
  const std::string text = noise(5 * k_mib + 123);
  TreeNode head(scratch);
  TreeNode link(scratch);
  TreeNode last(scratch);
  head.node.set_head();
  link.node.set_link(head.node);
  last.node.set_link(link.node);
  auto written = head.claim();
  REQUIRE(part_of(*written) == RelayedTree::Part::writes);
  auto read = link.claim();
  auto read_last = last.claim();
  REQUIRE(part_of(*read) == RelayedTree::Part::reads);
  REQUIRE(part_of(*read_last) == RelayedTree::Part::reads);
  std::string got;
  std::string got_last;
  std::thread one([&] { got = all_of(*read); });
  std::thread other([&] { got_last = all_of(*read_last); });
  CHECK(put(*written, text));
  written->end();
  written->close();
  one.join();
  other.join();
  CHECK((got == text));
  CHECK((got_last == text));
  CHECK_FALSE(read->has_broken());
  CHECK(read->close().from_nodes == text.size());
  CHECK(read_last->close().node == "before");
}

TEST_CASE("a stream is longer than its ring, and waits for those who read it") {
  const Scratch scratch;
  const std::string text = noise(9 * k_mib + 1);
  TreeNode head(scratch, k_mib);
  TreeNode link(scratch, k_mib);
  head.node.set_head();
  link.node.set_link(head.node);
  auto written = head.claim();
  REQUIRE(part_of(*written) == RelayedTree::Part::writes);
  auto read = link.claim();
  REQUIRE(part_of(*read) == RelayedTree::Part::reads);
  std::string got;
  std::thread one([&] { got = all_of(*read); });
  CHECK(put(*written, text));
  written->end();
  one.join();
  CHECK((got == text));
}

TEST_CASE("without another node, a stream waits for nobody, and who comes late reads alone") {
  const Scratch scratch;
  TreeNode head(scratch, k_mib);
  TreeNode link(scratch, k_mib);
  head.node.set_head();
  link.node.set_link(head.node);
  auto written = head.claim();
  REQUIRE(part_of(*written) == RelayedTree::Part::writes);
  CHECK(put(*written, noise(3 * k_mib)));
  auto late = link.claim();
  CHECK(part_of(*late) == RelayedTree::Part::writes);  // for those behind it
  CHECK(late->close().why.find("its beginning is gone") != std::string::npos);
}

TEST_CASE("a stream that its writer does not end is broken, and another try finds the next one") {
  const Scratch scratch;
  TreeNode head(scratch);
  TreeNode link(scratch);
  head.node.set_head();
  link.node.set_link(head.node);
  auto written = head.claim();
  REQUIRE(part_of(*written) == RelayedTree::Part::writes);
  auto read = link.claim();
  REQUIRE(part_of(*read) == RelayedTree::Part::reads);
  const std::string text = noise(k_mib);
  CHECK(put(*written, text));
  SUBCASE("its copy has failed") {
    written.reset();
    CHECK((all_of(*read) == text));
    CHECK(read->has_broken());
    CHECK_FALSE(read->is_refused());
    CHECK(read->close().why.find("its staging sends no more of it") != std::string::npos);
    written = head.claim();
    read = link.claim();
    REQUIRE(part_of(*written) == RelayedTree::Part::writes);
    REQUIRE(part_of(*read) == RelayedTree::Part::reads);
    CHECK(put(*written, "again"));
    written->end();
    CHECK(all_of(*read) == "again");
    CHECK_FALSE(read->has_broken());
  }
  SUBCASE("its relay worker is gone: this node writes it for those behind") {
    head.node.stop();
    all_of(*read);
    CHECK(read->has_broken());
    read->close();
    read = link.claim();
    CHECK(part_of(*read) == RelayedTree::Part::writes);
  }
}

TEST_CASE("a writer that has died is noticed by its silence") {
  const Scratch scratch;
  TreeNode head(scratch, 8 * k_mib, 1);
  head.node.set_head();
  auto written = head.claim();
  REQUIRE(part_of(*written) == RelayedTree::Part::writes);
  CHECK(in_time([&] { return head.node.is_in(RelaySlotState::over); }));
  CHECK(field_text(head.node.slot().why) == "its staging says nothing");
  CHECK_FALSE(put(*written, "x"));
}

TEST_CASE("other entries of the same directory are another stream") {
  const Scratch scratch;
  TreeNode head(scratch);
  TreeNode link(scratch);
  link.node.order.relay.answer_wait_s = head.node.order.relay.answer_wait_s = 1;
  head.node.set_head();
  link.node.set_link(head.node);
  auto written = head.claim(1);
  REQUIRE(part_of(*written) == RelayedTree::Part::writes);
  head.sources->end();
  auto other = link.claim(2);
  CHECK(part_of(*other) == RelayedTree::Part::writes);
}

TEST_CASE("a tree beyond the bounds has no stream: all who read it learn that at once, for good") {
  using namespace tree_records;
  const Scratch scratch;
  TreeNode head(scratch);
  TreeNode link(scratch);
  TreeNode last(scratch);
  head.node.order.relay.answer_wait_s = 3600;
  head.node.set_head();
  link.node.set_link(head.node);
  last.node.set_link(link.node);
  auto written = head.claim();
  REQUIRE(part_of(*written) == RelayedTree::Part::writes);
  auto read = link.claim();
  REQUIRE(part_of(*read) == RelayedTree::Part::reads);
  auto read_last = last.claim();
  REQUIRE(part_of(*read_last) == RelayedTree::Part::reads);
  const ExtractRules rules;
  TreeStreamWriter writer(*written, rules);
  struct stat info {};
  writer.symlink("a", "b", info);
  SUBCASE("it is too deep") { writer.symlink(deep(1001), "b", info); }
  SUBCASE("a link is too long") { writer.hard_link("b", std::string(40'000, 'x')); }
  TreeStreamReader stream(*read, rules);
  CHECK_FALSE(stream.next());  // what was not complete is not sent
  CHECK(stream.has_broken());
  CHECK(read->is_refused());
  writer.end({});
  all_of(*read_last);
  CHECK(read_last->has_broken());
  CHECK(read_last->is_refused());
  const std::string why = "something in it is beyond the bounds of what is relayed";
  CHECK(read->close().why == why);
  CHECK(read_last->close().why == why);
  // A node that comes later does not wait for a stream, either.
  auto late = link.claim();
  CHECK(part_of(*late) == RelayedTree::Part::alone);
  CHECK(late->close().why == why);
}
