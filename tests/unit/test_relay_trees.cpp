// The streams of directories: which node writes one, who reads it, and how it breaks.
#include <doctest/doctest.h>

#include <optional>

#include "daemon/worker/piece/tree_stream.hpp"
#include "daemon/worker/spool/item_relay.hpp"
#include "relay_run.hpp"
#include "texts.hpp"
#include "tree_records.hpp"
#include "type_of_file_system.hpp"

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

  // answer_wait_s: 0: the default.
  TreeNode(const Scratch& scratch, std::uint64_t window, std::uint32_t limit_s,
           std::uint32_t answer_wait_s)
      : node(window, open_original, limit_s), directory(scratch.path()) {
    node.order.relay.file_systems = {type_of_file_system(directory)};
    REQUIRE(::stat(directory.c_str(), &info) == 0);
    sources.emplace(node.order.relay, node.board_fd(), node.spool());
    REQUIRE(sources->expect(directory, info));
    sources->begin(1);
    if (answer_wait_s != 0) node.order.relay.answer_wait_s = answer_wait_s;
    node.start();  // its thread reads the order
  }
  std::unique_ptr<RelayedTree> claim(std::uint64_t wanted = 7) {
    std::string why;
    const auto identity = directory_identity_of(info, wanted);
    const auto place =
        must(sources->claim({directory, identity, RelayKind::directory}, meter, why));
    CAPTURE(why);
    return std::make_unique<RelayedTree>(place, *sources, meter);
  }
};

RelayedTree::Part part_of(RelayedTree& tree) { return must(tree.await_part()); }

// Nodes in a row, of which the first is to write the stream and the others are to read it.
struct TreeRow {
  Scratch scratch;
  std::vector<std::unique_ptr<TreeNode>> nodes;

  // answer_wait_s: of the first nodes; the others have the default.
  explicit TreeRow(std::size_t count, std::uint64_t window = 8 * k_mib, std::uint32_t limit_s = 60,
                   const std::vector<std::uint32_t>& answer_wait_s = {}) {
    for (std::size_t i = 0; i < count; ++i)
      nodes.push_back(std::make_unique<TreeNode>(scratch, window, limit_s,
                                                 i < answer_wait_s.size() ? answer_wait_s[i] : 0));
    nodes[0]->node.set_head();
    for (std::size_t i = 1; i < count; ++i) nodes[i]->node.set_link(nodes[i - 1]->node);
  }
  // Claimed by the node, which has that part in it.
  std::unique_ptr<RelayedTree> claim(std::size_t i, RelayedTree::Part part,
                                     std::uint64_t wanted = 7) {
    auto tree = nodes[i]->claim(wanted);
    REQUIRE(part_of(*tree) == part);
    return tree;
  }
  std::unique_ptr<RelayedTree> written(std::size_t i = 0) {
    return claim(i, RelayedTree::Part::writes);
  }
  std::unique_ptr<RelayedTree> read(std::size_t i = 1) {
    return claim(i, RelayedTree::Part::reads);
  }
  TreeNode& operator[](std::size_t i) { return *nodes[i]; }
};

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
  const std::string text = noise(5 * k_mib + 123);
  TreeRow row(3);
  const auto written = row.written();
  const auto read = row.read(1);
  const auto read_last = row.read(2);
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
  const std::string text = noise(9 * k_mib + 1);
  TreeRow row(2, k_mib);
  const auto written = row.written();
  const auto read = row.read();
  std::string got;
  std::thread one([&] { got = all_of(*read); });
  CHECK(put(*written, text));
  written->end();
  one.join();
  CHECK((got == text));
}

TEST_CASE("without another node, a stream waits for nobody, and who comes late reads alone") {
  TreeRow row(2, k_mib);
  const auto written = row.written();
  CHECK(put(*written, noise(3 * k_mib)));
  const auto late = row.written(1);  // for those behind it
  CHECK(has(late->close().why, "its beginning is gone"));
}

TEST_CASE("a stream that its writer does not end is broken, and another try finds the next one") {
  TreeRow row(2);
  auto written = row.written();
  auto read = row.read();
  const std::string text = noise(k_mib);
  CHECK(put(*written, text));
  SUBCASE("its copy has failed") {
    written.reset();
    CHECK((all_of(*read) == text));
    CHECK(read->has_broken());
    CHECK_FALSE(read->is_refused());
    CHECK(has(read->close().why, "its staging sends no more of it"));
    written = row[0].claim();
    read = row[1].claim();
    REQUIRE(part_of(*written) == RelayedTree::Part::writes);
    REQUIRE(part_of(*read) == RelayedTree::Part::reads);
    CHECK(put(*written, "again"));
    written->end();
    CHECK(all_of(*read) == "again");
    CHECK_FALSE(read->has_broken());
  }
  SUBCASE("its relay worker is gone: this node writes it for those behind") {
    row[0].node.stop();
    all_of(*read);
    CHECK(read->has_broken());
    read->close();
    read = row.written(1);
  }
}

TEST_CASE("a writer that has died is noticed by its silence") {
  TreeRow row(1, 8 * k_mib, 1);
  const auto written = row.written();
  CHECK(in_time([&] { return row[0].node.is_in(RelaySlotState::over); }));
  CHECK(field_text(row[0].node.slot().why) == "its staging says nothing");
  CHECK_FALSE(put(*written, "x"));
}

TEST_CASE("other entries of the same directory are another stream") {
  TreeRow row(2, 8 * k_mib, 60, {1, 1});
  const auto written = row.claim(0, RelayedTree::Part::writes, 1);
  row[0].sources->end();
  const auto other = row.claim(1, RelayedTree::Part::writes, 2);
}

TEST_CASE("a tree beyond the bounds has no stream: all who read it learn that at once, for good") {
  using namespace tree_records;
  TreeRow row(3, 8 * k_mib, 60, {3600});
  const auto written = row.written();
  const auto read = row.read(1);
  const auto read_last = row.read(2);
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
  const auto late = row.claim(1, RelayedTree::Part::alone);
  CHECK(late->close().why == why);
}
