// The daemon's part in the relay: who starts a relay worker, who gets data from whom, and what is
// said between daemons.
#include <fcntl.h>

#include <set>

#include "common/wire/peer_note.hpp"
#include "common/wire/relay_board.hpp"
#include "daemon/root/relay/relays.hpp"
#include "job_site.hpp"

using namespace nodestage;
using namespace std::chrono_literals;

namespace {

constexpr const char* k_stages = R"({"version":1,"datasets":[{"source":"/p/d.tar"}]})";

struct RelaySite : JobSite {
  // This node is n1 of n0 (the first), n1, n2.
  Begin member(std::uint32_t job) const {
    Begin begin = shared_request(job);
    begin.node_count = 3;
    begin.request = k_stages;
    return begin;
  }
  // This node is the first one.
  Begin first(std::uint32_t job) const {
    Begin begin = member(job);
    begin.first_node = "n1";
    begin.node_index = 0;
    begin.nodes = {"n1", "n2", "n3"};
    return begin;
  }
  void hear(std::uint32_t job, const std::string& from, decltype(PeerNote::body) body,
            const std::string& address = "10.0.0.9", const std::string& to = "n1") {
    jobs->take_note({{to}, from, job, 0, ++sequence, std::move(body)}, address);
  }
  void hear_word(std::uint32_t job, const std::string& from, RelayWord word,
                 std::uint32_t port = 0) {
    RelayNote note{.word = word, .port = port};
    if (word == RelayWord::answer) note.key = std::string(k_relay_key_bytes, 'k');
    hear(job, from, note);
  }
  void begin_member(std::uint32_t job) {
    accept(member(job));
    pass(std::chrono::milliseconds(100));
  }
  // The relay worker says where it listens.
  void listen(std::uint16_t port) {
    const auto* started = workers.find(WorkerTask::relay);
    REQUIRE(started != nullptr);
    StatusHeader header{.magic = k_status_magic,
                        .phase = static_cast<std::uint32_t>(WorkerPhase::working),
                        .relay_port = port};
    REQUIRE(write_status_header(started->status.get(), header));
  }
  RelayPlan plan(std::uint32_t job) const {
    const Fd fd = std::move(*areas.open_status({job, 0}, "plan", O_RDONLY));
    return *read_relay_plan(fd.get());
  }
  // The relay notes that were sent, each with where to.
  std::vector<std::pair<std::vector<std::string>, RelayNote>> words() const {
    std::vector<std::pair<std::vector<std::string>, RelayNote>> notes;
    for (const PeerNote& note : peers.sent)
      if (const auto* body = std::get_if<RelayNote>(&note.body)) notes.emplace_back(note.to, *body);
    return notes;
  }
};

struct MemberSite : RelaySite {
  MemberSite() { begin_member(1); }
};

NodeNote relaying(NodeState state = NodeState::staging) {
  return {.state = state, .waits = k_relays};
}

RelayLink link_of(const std::string& node, std::uint16_t port = 1) {
  return {node, "10.0.0." + node.substr(1), port};
}

}  // namespace

TEST_CASE("relay chains: each node gets its data from the one that joined before it") {
  RelayChains chains;
  const auto first = chains.join(link_of("n1"), 32);
  const auto second = chains.join(link_of("n2"), 32);
  const auto third = chains.join(link_of("n3"), 32);
  REQUIRE((first && second && third));
  CHECK_FALSE(first->before);
  CHECK(first->key.size() == k_relay_key_bytes);
  REQUIRE((second->before && third->before));
  CHECK(second->before->node == "n1");
  CHECK(third->before->node == "n2");
  CHECK(third->before->address == "10.0.0.2");
  CHECK(second->key == first->key);
  CHECK(third->key == first->key);
  SUBCASE("asking again changes nothing") {
    CHECK(chains.join(link_of("n2"), 32)->before->node == "n1");
    CHECK(chains.join(link_of("n1"), 32)->before.has_value() == false);
    CHECK(chains.join(link_of("n4"), 32)->before->node == "n3");
  }
  SUBCASE("a node that stages again goes to the end, and never gets data from itself") {
    const auto again = chains.join(link_of("n3", 2), 32);
    CHECK_FALSE(again->before);
    CHECK(again->key != first->key);
    CHECK(chains.join(link_of("n1", 2), 32)->before->node == "n3");
  }
}

TEST_CASE("relay chains: after the longest chain another node reads the original") {
  RelayChains chains;
  std::set<std::string> keys;
  int heads = 0;
  for (int i = 1; i <= 9; ++i) {
    const auto place = chains.join(link_of("n" + std::to_string(i)), 3);
    keys.insert(place->key);
    if (!place->before) ++heads;
    CHECK(place->before.has_value() == (i % 3 != 1));
  }
  CHECK(heads == 3);
  CHECK(keys.size() == 3);
}

TEST_CASE("relay chains: from a node that does not listen nobody gets anything") {
  RelayChains chains;
  REQUIRE(chains.join(link_of("n1", 0), 32));
  const auto second = chains.join(link_of("n2"), 32);
  CHECK_FALSE(second->before);
  const auto deaf = chains.join(link_of("n3", 0), 32);
  CHECK(deaf->before->node == "n2");
  CHECK(chains.join(link_of("n4"), 32)->before->node == "n2");
}

TEST_CASE("a relay plan there and back; what is not one says nothing") {
  const Scratch scratch;
  const Fd fd(::open((scratch / "plan").c_str(), O_RDWR | O_CREAT, 0600));
  CHECK(read_relay_plan(fd.get())->part == RelayPart::unknown);
  RelayPlan plan{RelayPart::link, {}, "n1", "10.0.0.1", 6826, ""};
  plan.key[0] = 1;
  plan.key[31] = 255;
  REQUIRE(write_relay_plan(fd.get(), plan));
  CHECK(*read_relay_plan(fd.get()) == plan);
  REQUIRE(::pwrite(fd.get(), "\7\0\0\0", 4, 0) == 4);
  CHECK(read_relay_plan(fd.get())->part == RelayPart::unknown);
  REQUIRE(::ftruncate(fd.get(), 100) == 0);
  CHECK(read_relay_plan(fd.get())->part == RelayPart::unknown);
}

TEST_CASE("a job of several nodes has a relay worker beside its staging worker; others have none") {
  RelaySite site;
  SUBCASE("with something to stage") {
    site.begin_member(1);
    CHECK(site.workers.order<StageOrder>().has_board);
    const auto& relay = site.workers.order<RelayOrder>();
    CHECK(relay.has_board);
    CHECK(relay.relay.ports.first == site.config.relay.ports.first);
    CHECK(relay.uid == site.user());
    CHECK(site.plan(1).part == RelayPart::unknown);
    return;
  }
  SUBCASE("off by the settings") { site.config.relay.enabled = false; }
  SUBCASE("no window") { site.config.relay.window_bytes = 0; }
  Begin begin = site.member(1);
  SUBCASE("one node") {
    begin.node_count = 1;
    begin.node_index = 0;
  }
  SUBCASE("only outputs") { begin.request = R"({"version":1,"outputs":[{"source":"x"}]})"; }
  site.accept(begin);
  site.pass(100ms);
  CHECK_FALSE(site.workers.order<StageOrder>().has_board);
  CHECK(site.workers.find(WorkerTask::relay) == nullptr);
}

TEST_CASE("in a job of many nodes an answer may take longer, and is asked for less often") {
  RelaySite site;
  Begin begin = site.member(1);
  begin.node_count = 10'000;
  site.accept(begin);
  site.pass(100ms);
  CHECK(site.workers.order<RelayOrder>().relay.answer_wait_s == 55);
  site.listen(7000);
  site.hear_word(1, "n0", RelayWord::welcome);
  for (int i = 0; i < 500; ++i) site.pass(200ms);
  CHECK(site.words().size() >= 2);
  CHECK(site.words().size() <= 6);
}

TEST_CASE("a relay worker that cannot be started does not keep its job from being staged") {
  RelaySite site;
  // The name of its plan is taken, by a directory.
  std::filesystem::create_directories(site.scratch / ".nodestage/status/1.0.plan");
  site.begin_member(1);
  CHECK(site.workers.find(WorkerTask::relay) == nullptr);
  CHECK_FALSE(site.workers.order<StageOrder>().has_board);
}

TEST_CASE("a node joins once it is welcome and its relay worker listens, and is answered") {
  MemberSite site;
  REQUIRE_FALSE(site.peers.sent.empty());
  for (const PeerNote& note : site.peers.sent)
    CHECK((std::get<NodeNote>(note.body).waits & k_relays) != 0);
  site.listen(7000);
  site.pass(500ms);
  CHECK(site.words().empty());  // an earlier release on the first node would refuse such notes
  site.hear_word(1, "n0", RelayWord::welcome);
  site.pass(200ms);
  REQUIRE(site.words().size() == 1);
  CHECK(site.words()[0].first == std::vector<std::string>{"n0"});
  CHECK(site.words()[0].second.word == RelayWord::join);
  CHECK(site.words()[0].second.port == 7000);

  RelayNote answer{
      .word = RelayWord::answer, .port = 7000, .key = std::string(k_relay_key_bytes, 'k')};
  std::string from = "n0";
  std::string to = "n1";
  RelayPlan plan{.part = RelayPart::link};
  SUBCASE("from the node before it") {
    plan.node = answer.node = "n2";
    plan.address = answer.address = "10.0.0.2";
    answer.node_port = plan.port = 7002;
  }
  SUBCASE("from the first node, whose address is that of its note") {
    plan.node = answer.node = "n0";
    answer.node_port = plan.port = 7003;
    plan.address = "10.0.0.77";
  }
  SUBCASE("unless the site names another network") {
    site.config.relay.addresses = {"n0=10.9.0.1"};
    plan.node = answer.node = "n0";
    plan.address = "10.9.0.1";
  }
  SUBCASE("to read the original") { plan.part = RelayPart::head; }
  SUBCASE("about another relay worker") { answer.port = 7001, plan.part = RelayPart::unknown; }
  SUBCASE("from a node that is not the first") { from = "n2", plan.part = RelayPart::unknown; }
  SUBCASE("for another node") { to = "n2", plan.part = RelayPart::unknown; }
  if (plan.part != RelayPart::unknown) plan.key.fill('k');
  site.hear(1, from, answer, "10.0.0.77", to);
  CHECK(site.plan(1) == plan);
  const std::size_t said = site.words().size();
  site.pass(3s);
  // It asks again if that was no answer.
  CHECK((site.words().size() > said) == (plan.part == RelayPart::unknown));
}

TEST_CASE("a first node whose relay is off says so, and nobody waits for it") {
  RelaySite site;
  SUBCASE("on the first node") {
    site.config.relay.enabled = false;
    site.accept(site.first(1));
    site.hear(1, "n2", relaying());
    site.pass(100ms);
    REQUIRE(site.words().size() == 1);
    CHECK(site.words()[0].second.word == RelayWord::off);
  }
  SUBCASE("on another") {
    site.begin_member(1);
    site.hear_word(1, "n0", RelayWord::off);
    CHECK(site.plan(1).part == RelayPart::off);
    CHECK(site.plan(1).why == "the relay is off on node n0");
  }
}

TEST_CASE("a node that is not answered stops asking when its relay worker goes on without") {
  MemberSite site;
  site.listen(0);
  site.hear_word(1, "n0", RelayWord::welcome);
  for (int i = 0; i < 100; ++i) site.pass(200ms);
  const std::size_t asked = site.words().size();
  CHECK(asked >= 2);
  CHECK(asked <= site.config.relay.answer_wait_s + 1);
  site.pass(20s);
  CHECK(site.words().size() == asked);
}

TEST_CASE("the first node welcomes who announced itself, and chains those that join") {
  RelaySite site;
  site.accept(site.first(1));
  site.hear(1, "n2", relaying());
  site.hear(1, "n3", relaying(NodeState::begun));
  site.pass(50ms);
  REQUIRE(site.words().size() == 1);  // one credential for both
  CHECK(site.words()[0].first == std::vector<std::string>{"n2", "n3"});
  CHECK(site.words()[0].second.word == RelayWord::welcome);

  site.hear_word(1, "n3", RelayWord::join, 7003);
  REQUIRE(site.words().size() == 2);
  CHECK(site.words()[1].first == std::vector<std::string>{"n3"});
  CHECK(site.words()[1].second.node.empty());  // it reads: the first node's worker is not up yet
  CHECK(site.words()[1].second.port == 7003);

  site.listen(7001);
  site.pass(200ms);
  const RelayPlan plan = site.plan(1);
  CHECK(plan.part == RelayPart::link);
  CHECK(plan.node == "n3");
  CHECK(plan.address == "10.0.0.9");
  CHECK(plan.port == 7003);
  CHECK(std::string(plan.key.begin(), plan.key.end()) == site.words()[1].second.key);

  site.hear_word(1, "n2", RelayWord::join, 7002);
  REQUIRE(site.words().size() == 3);
  CHECK(site.words()[2].second.node == "n1");
  CHECK(site.words()[2].second.address.empty());
  CHECK(site.words()[2].second.node_port == 7001);
}

TEST_CASE("an older daemon, and a node that is done, are not welcomed; strangers are refused") {
  RelaySite site;
  site.accept(site.first(1));
  NodeNote older = relaying();
  older.waits = 0;
  site.hear(1, "n2", older);
  site.hear(1, "n3", relaying(NodeState::ready));
  site.pass(100ms);
  CHECK(site.words().empty());
  site.hear_word(1, "n9", RelayWord::join, 7003);  // not of the job
  site.hear_word(1, "n1", RelayWord::join, 7003);  // this node itself
  site.hear_word(1, "n2", RelayWord::welcome);     // this is the first node
  site.hear_word(1, "n2", RelayWord::answer, 7001);
  site.hear_word(2, "n2", RelayWord::join, 7003);  // no such job
  CHECK(site.words().empty());
}

TEST_CASE("the relay worker ends with the staging that fails, and with its job") {
  MemberSite site;
  const auto id = site.workers.find(WorkerTask::relay)->id;
  const auto is_killed = [&] {
    const auto& killed = site.workers.killed;
    return std::find(killed.begin(), killed.end(), id) != killed.end();
  };
  SUBCASE("failed") {
    site.workers.finish(WorkerTask::stage, WorkerPhase::failed, "no such file");
    CHECK(is_killed());
  }
  SUBCASE("ended") {
    site.workers.finish(WorkerTask::stage, WorkerPhase::done);
    CHECK_FALSE(is_killed());  // others may still get data from it
    site.end(1);
    CHECK(is_killed());
  }
}

TEST_CASE("the journal notes the relay worker beside the staging worker") {
  MemberSite site;
  const JobRecord record = site.journal.load().records.at(0);
  CHECK(record.relayer.pid != 0);
  CHECK(record.relayer.pid != record.worker.pid);
}
