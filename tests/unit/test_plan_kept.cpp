// `nodestage plan`: whether this node keeps a shared item.
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "cli/plan/plan.hpp"
#include "common/request/submission.hpp"
#include "daemon/worker/share/identify.hpp"
#include "fake_daemon.hpp"
#include "scratch.hpp"
#include "texts.hpp"

using namespace nodestage;

namespace {

// A node whose daemon has these rows, and a request for data.bin.
struct Node {
  Scratch scratch;
  std::vector<CacheRow> rows;
  std::string settings = "[cache]\nmin_age = 0\n";
  std::string keys = ",shared";
  bool is_named = true;

  Node() {
    std::ofstream(scratch / "data.bin") << "data";
    std::ofstream(scratch / "other.bin") << "other";
  }

  [[nodiscard]] std::string text() const {
    StageRequest request;
    REQUIRE(add_dataset(request, (scratch / "other.bin") + ":other"));
    REQUIRE(add_dataset(request, (scratch / "data.bin") + keys));
    return must(request_text(request));
  }

  // The name under which a node of these settings has it.
  [[nodiscard]] std::string name(const ExtractRules& extract = {}) const {
    IdentifyOrder order;
    order.uid = ::getuid();
    order.cache = "/elsewhere";
    order.extract = extract;
    order.cache_min_age_s = 0;
    const auto request = must(decode_request(text()));
    const auto found = identities_of(order, request);
    REQUIRE(found.size() == 2);
    CHECK(found[0].key.empty());
    CHECK(found[0].why_not.empty());
    REQUIRE(found[1].key.size() == k_share_key_bytes);
    return std::to_string(order.uid) + "." + found[1].key;
  }

  void keep(const std::string& name, std::uint32_t job) {
    CacheRow row{.name = name, .job = job};
    rows.push_back(row);
  }

  // The second item; `last` ends the daemon's answer.
  [[nodiscard]] PlanItem find(const Message& last = Accepted{}) const {
    std::ofstream(scratch / "nodestaged.toml") << settings;
    std::vector<PlanItem> items(2);
    items[1].is_shared = true;
    items[1].has_source = is_named;
    const FakeDaemon daemon(scratch / "socket", {[&](FakePeer& peer) {
                              CHECK(std::holds_alternative<CacheQuery>(peer.hear()));
                              for (const auto& row : rows) peer.say(row);
                              peer.say(last);
                            }});
    find_kept(text(), scratch / "socket", scratch / "nodestaged.toml", items);
    CHECK(items[0].kept == KeptHere::unknown);
    return items[1];
  }
};

}  // namespace

TEST_CASE("plan: a shared item that is on this node, and one that is not") {
  Node node;
  CHECK(node.find().kept == KeptHere::miss);
  CHECK(kept_text(node.find()).starts_with("not on this node yet"));
  const std::string name = node.name();
  node.keep("1" + name, 4);  // another user's
  CHECK(node.find().kept == KeptHere::miss);
  node.keep(name, 4711);
  CHECK(node.find().kept == KeptHere::hit);
  CHECK(kept_text(node.find()) == "already on this node (staged by job 4711)");
  node.rows.back().array_job = 4700;
  node.rows.back().array_task = 3;
  CHECK(kept_text(node.find()) == "already on this node (staged by job 4700_3)");
  // Another umask, another option, another content: another tree.
  const mode_t mask = ::umask(077);
  CHECK(node.find().kept == (mask == 077 ? KeptHere::hit : KeptHere::miss));
  ::umask(mask);
  node.keys = ",shared,extract=no";
  CHECK(node.find().kept == KeptHere::miss);
  node.keys = ",shared";
  CHECK(node.find().kept == KeptHere::hit);
  std::ofstream(node.scratch / "data.bin") << "more data";
  CHECK(node.find().kept == KeptHere::miss);
}

TEST_CASE("plan: the settings of this node's daemon are in the key of a shared item") {
  Node node;
  ExtractRules extract{.special = Special::keep};
  node.keep(node.name(extract), 7);
  CHECK(node.find().kept == KeptHere::miss);
  node.settings += "[extract]\nspecial = \"keep\"\n";
  CHECK(node.find().kept == KeptHere::hit);
}

TEST_CASE("plan: what this node would not keep, with the reason") {
  Node node;
  node.keep(node.name(), 7);
  node.settings = "[cache]\nmin_age = 0\nnever = [\"" + node.scratch.path().string() + "\"]\n";
  CHECK(kept_text(node.find()).starts_with("would not be kept: this site keeps nothing from"));
  node.settings = "[cache]\nenabled = false\n";
  CHECK(kept_text(node.find()) == "would not be kept: this node keeps no shared data");
}

TEST_CASE("plan: what was changed just now is not on this node yet") {
  Node node;
  node.keep(node.name(), 7);
  CHECK(node.find().kept == KeptHere::hit);
  // A file that the daemon would refuse counts for nothing: the default is a minute.
  node.settings = "[cache]\nmin_age = \"none\"\n";
  CHECK(node.find().kept == KeptHere::miss);  // by its bytes, it has another key
  std::filesystem::resize_file(node.scratch / "data.bin", 65 << 20);  // beyond what is read
  CHECK(node.find().kept == KeptHere::miss);
}

TEST_CASE("plan: without an answer nothing is known of a shared item") {
  Node node;
  node.keep(node.name(), 7);
  const PlanItem refused = node.find(Refused{RefusalReason::not_permitted, "no"});
  CHECK(refused.kept == KeptHere::unknown);
  std::vector<PlanItem> items(2);
  items[1].is_shared = true;
  find_kept(node.text(), "/nonexistent/socket", node.scratch / "nodestaged.toml", items);
  CHECK(items[1].kept == KeptHere::unknown);
  CHECK(kept_text(items[1]).starts_with("unknown here, as no nodestaged answers on this machine"));
}

TEST_CASE("plan: nothing is said of a shared item whose name is known in the job alone") {
  Node node;
  node.is_named = false;
  CHECK(node.find().kept == KeptHere::unknown);
}

TEST_CASE("plan: a daemon is asked for shared items alone") {
  const Node node;
  std::vector<PlanItem> items(1);
  const FakeDaemon daemon(node.scratch / "socket", {});
  find_kept(node.text(), node.scratch / "socket", "", items);
  CHECK(items[0].kept == KeptHere::unknown);
}
