#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>
#include <variant>

#include "job_site.hpp"

using namespace nodestage;

TEST_CASE("of very many callers that wait some are answered at a time, all in the end") {
  constexpr std::ptrdiff_t k_callers = 200;
  JobSite site;
  site.accept(site.request(7));
  for (std::ptrdiff_t i = 0; i < k_callers; ++i) site.wait(7);
  site.answers.clear();
  const auto answered = [&site] {
    return std::count_if(site.answers.begin(), site.answers.end(), [](const Message& message) {
      return std::holds_alternative<Ready>(message) || std::holds_alternative<Failed>(message);
    });
  };
  site.workers.finish(WorkerTask::stage, WorkerPhase::done);
  CHECK(answered() > 0);
  CHECK(answered() < k_callers / 2);
  SUBCASE("the job goes on") {}
  SUBCASE("the job is gone at once") {
    site.end(7);
    site.workers.finish(WorkerTask::stage_out, WorkerPhase::done);
    REQUIRE(site.state_of(7).empty());
  }
  for (int i = 0; i < 8; ++i) site.pass(std::chrono::seconds(1));
  CHECK(answered() == k_callers);
}

TEST_CASE("a failure that the first node has, too, is said with its words, and another as it is") {
  JobSite site;
  site.accept(site.shared_request(7));
  site.wait(7);
  site.workers.finish(WorkerTask::stage, WorkerPhase::failed, "no such file");
  JobNote note;
  note.verdict = Verdict::failed;
  std::string said;
  SUBCASE("the same") {
    note.text = said = "nodes n0 and n1: no such file";
    note.cause = "no such file";
  }
  SUBCASE("one that ends in the same words") {
    note.text = "node n0: data.tar: no such file";
    note.cause = "data.tar: no such file";
    said = "no such file";
  }
  SUBCASE("the same, from a node of the previous release") {
    note.text = said = "nodes n0 and n1: no such file";
  }
  SUBCASE("another, from a node of the previous release") {
    note.text = "node n0: no space";
    said = "no such file";
  }
  site.hear_from_first(7, note);
  CHECK(as<Failed>(site.answers.back()).cause == said);
}

TEST_CASE("the cause of a failure goes to the nodes that can read it") {
  JobSite site;
  Begin begin = site.request(7);
  begin.node_count = 4;
  begin.nodes = {"n1", "n2", "n3", "n4"};
  begin.first_node = "n1";
  site.accept(begin);
  const auto say = [&](const char* from, std::uint8_t waits, NodeState state, const char* cause) {
    NodeNote body{.state = state, .waits = waits, .cause = cause};
    site.jobs->take_note({{"n1"}, from, 7, 0, ++site.sequence, body}, "");
  };
  say("n2", k_reads_causes, NodeState::staging, "");
  say("n4", k_reads_causes, NodeState::staging, "");
  say("n4", 0, NodeState::staging, "");  // it has the previous release again
  say("n3", 0, NodeState::failed, "no space");
  site.pass(std::chrono::seconds(3));
  std::map<std::string, std::string> causes;
  for (const PeerNote& note : site.peers.sent) {
    const auto* job = std::get_if<JobNote>(&note.body);
    if (job == nullptr || job->verdict != Verdict::failed) continue;
    for (const std::string& node : note.to) causes[node] = job->cause;
  }
  CHECK(causes == std::map<std::string, std::string>{{"n2", "no space"}, {"n3", ""}, {"n4", ""}});
}
