// The life of a job on a node: each event in each state, without root and without waiting.
#include <doctest/doctest.h>

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "common/wire/node_report.hpp"
#include "job_site.hpp"
#include "texts.hpp"

using namespace nodestage;

namespace {

constexpr std::uint32_t k_other = 3;

// As in job_table.cpp; '-': forgotten.
char letter_of(const std::string& state) {
  static const std::map<std::string, char> k_letters = {{"waiting for the job directory", 'w'},
                                                        {"queued", 'q'},
                                                        {"staging", 's'},
                                                        {"ready", 'r'},
                                                        {"failed", 'f'},
                                                        {"stopping", 'x'},
                                                        {"ending", 'a'},
                                                        {"staging out", 'o'},
                                                        {"held", 'h'},
                                                        {"gone", 'g'},
                                                        {"", '-'}};
  return k_letters.at(state);
}

void stage(JobSite& site, WorkerPhase phase) {
  site.workers.finish(WorkerTask::stage, phase, "data.tar: cut off");
}

// The job is brought to the state by what brings it there.
struct SiteIn : JobSite {
  explicit SiteIn(char state, bool spans_nodes = false);
};

SiteIn::SiteIn(char state, bool spans_nodes) {
  const std::string_view after = "rfxaoh";
  const auto is_after = [&](char other) {
    return after.find(state) != after.npos && after.find(state) >= after.find(other);
  };
  if (state == 'w') config.tmpdir.create = CreateDirectory::never;
  if (state == 'q') {
    config.staging.max_jobs = 1;
    accept(request(k_other));
    pass(std::chrono::seconds(2));  // so that the next daemon knows which came first
  }
  const Begin begin = spans_nodes || state == 'a' ? shared_request(k_job) : request(k_job);
  accept(begin);
  if (is_after('r') && state != 'x')
    stage(*this, state == 'f' ? WorkerPhase::failed : WorkerPhase::done);
  if (state == 'a') hear_from_first(k_job, {Verdict::ready, "", {}, false, {}});
  if (is_after('a')) wait(k_job);
  if (is_after('x')) end(k_job);
  if (state == 'x') CHECK(workers.killed.size() == 1);
  if (state == 'h') {
    workers.finish(WorkerTask::stage_out, WorkerPhase::failed, "no space left");
    workers.finish(WorkerTask::measure, WorkerPhase::done);
  }
  pass(std::chrono::milliseconds(0));
  REQUIRE(letter_of(state_of(k_job)) == state);
}

struct Event {
  char letter;
  std::function<void(JobSite&)> happen;
};

// If there is such a worker.
std::function<void(JobSite&)> end_of(WorkerTask task, WorkerPhase phase) {
  return [=](JobSite& site) {
    if (site.workers.say(task, phase, "a cause")) site.workers.end(task);
  };
}

const std::vector<Event>& events() {
  static const std::vector<Event> k_events = {
      {'b', [](JobSite& site) { site.jobs->begin(site.request(k_job)); }},
      {'n',
       [](JobSite& site) {
         site.accept(site.request(k_job, 1));
         const std::string next = site.state_of(k_job, 1);
         const bool is_there =
             next == "staging" || next == "queued" || next == "waiting for the job directory";
         CHECK(is_there);
       }},
      {'w', [](JobSite& site) { site.wait(k_job); }},
      {'x',
       [](JobSite& site) {
         site.jobs->exited(Exited{k_job, 0, 256});
       }},
      {'e', [](JobSite& site) { site.end(k_job); }},
      {'D', end_of(WorkerTask::stage, WorkerPhase::done)},
      {'F', end_of(WorkerTask::stage, WorkerPhase::failed)},
      {'K', [](JobSite& site) { site.workers.end(WorkerTask::stage); }},
      {'O', end_of(WorkerTask::stage_out, WorkerPhase::done)},
      {'U', end_of(WorkerTask::stage_out, WorkerPhase::failed)},
      {'v',
       [](JobSite& site) {
         site.hear_from_first(k_job, {Verdict::failed, "n2", {}, false, {}});
       }},
      {'k',
       [](JobSite& site) {
         site.hear_from_first(k_job, {Verdict::ready, "", {}, true, 0});
       }},
      {'s', [](JobSite& site) { site.jobs->settings_changed(); }},
      {'d', [](JobSite& site) { site.start_daemon(); }},
      {'t', [](JobSite& site) { site.pass(std::chrono::hours(1)); }},
  };
  return k_events;
}

// clang-format off
// The state (rows) and the event (columns) → the state after it, for a job that has one item.
//   b  its prolog once more              O  the worker that stages out has done so
//   n  the prolog of its next run        U  and this one has failed
//   w  a step waits                      v  the first node says that the job fails
//   x  a step's task has exited          k  and how the job ended
//   e  its epilog                        s  the settings are read again
//   D  the staging worker has done all   d  the daemon dies, and with it the workers
//   F  and this one has failed           t  an hour passes
//   K  and this one was killed
constexpr const char* k_table[][2] = {
    //    bnwxeDFKOUvksdt
    {"w", "w-ww-wwwwwwwwwf"},
    {"q", "q-qq-sssqqqqqqq"},
    {"s", "sxssxrffsssssss"},
    {"r", "rorrorrrrrrrrrr"},
    {"f", "f-ff-ffffffffff"},
    {"x", "xxxxx---xxxxx-x"},
    {"a", "aaaaaaaaaaaoaao"},
    {"o", "oooooooo-hooooo"},
    {"h", "hhhhhhhhhhhhhho"},
};
// clang-format on

}  // namespace

TEST_CASE("each event in each state") {
  for (const auto& row : k_table) {
    const char* from = row[0];
    const char* after = row[1];
    REQUIRE(std::string_view(after).size() == events().size());
    std::string seen;
    for (const Event& event : events()) {
      SiteIn site(from[0]);
      event.happen(site);
      seen += letter_of(site.state_of(k_job));
    }
    CAPTURE(from);
    CHECK(seen == after);
  }
}

TEST_CASE("what the first node says of all nodes is what a step on another one hears") {
  for (const Verdict verdict : {Verdict::ready, Verdict::failed}) {
    CAPTURE(static_cast<int>(verdict));
    SiteIn site('r', true);
    CHECK(site.wait(k_job) != 0);
    CHECK(std::holds_alternative<Progress>(site.answers.back()));
    site.hear_from_first(k_job, {verdict, "n2 has no space left", {}, false, {}});
    CHECK(std::holds_alternative<Ready>(site.answers.back()) == (verdict == Verdict::ready));
    if (verdict != Verdict::failed) continue;
    CHECK(as<Failed>(site.answers.back()).cause == "n2 has no space left");
  }
}

TEST_CASE("a step hears at once that another node has failed, though this one still stages") {
  SiteIn site('s', true);
  CHECK(site.wait(k_job) != 0);
  site.hear_from_first(k_job, {Verdict::failed, "n2", {}, false, {}});
  CHECK(std::holds_alternative<Failed>(site.answers.back()));
  CHECK(site.state_of(k_job) == "staging");
}

TEST_CASE("a first node that says nothing is knocked at, and the job fails with its name") {
  SiteIn site('r', true);
  site.wait(k_job);
  for (int i = 0; i < 4; ++i) site.pass(std::chrono::seconds(site.config.peer.begin_wait_s));
  REQUIRE(site.peers.probed.size() == 1);
  CHECK(site.peers.probed[0].first == "n0");
  site.peers.probed[0].second("n0", {PeerFault::Where::there, "connection refused"});
  CHECK(as<Failed>(site.answers.back()).cause.find("n0") == 0);
}

TEST_CASE("the directory of the next run is not taken for results that were taken away") {
  SiteIn site('h');
  site.accept(site.request(k_job, 1));
  std::filesystem::remove_all(site.scratch / ".nodestage/hold/7.0");
  site.start_daemon();
  CHECK(std::filesystem::exists(site.scratch / "alice.7.0"));
  CHECK(site.state_of(k_job, 1) == "staging");
  CHECK(site.trees("hold") == 0);
}

TEST_CASE("a node that never heard how the job ended delivers after a restart, too") {
  SiteIn site('a');
  site.pass(std::chrono::hours(1));
  REQUIRE(site.state_of(k_job) == "staging out");
  site.start_daemon();
  CHECK(site.state_of(k_job) == "ending");
  site.pass(std::chrono::hours(1));
  CHECK(site.state_of(k_job) == "staging out");
  site.workers.finish(WorkerTask::stage_out, WorkerPhase::done);
  CHECK(site.state_of(k_job) == "");
}

TEST_CASE("a worker that the daemon lost is not looked for again") {
  SiteIn site('o');
  CHECK(site.journal.load().records.at(0).worker.pid != 0);
  site.workers.say(WorkerTask::stage_out, WorkerPhase::failed, "no space left");
  site.start_daemon();
  CHECK(site.state_of(k_job) == "held");
  CHECK(site.journal.load().records.at(0).worker.pid == 0);
}

TEST_CASE("a job that cannot be noted as ready fails, and says so") {
  JobSite site;
  site.jobs->begin(site.request(k_job));
  std::filesystem::remove_all(site.scratch / "state/jobs");
  site.wait(k_job);
  stage(site, WorkerPhase::done);
  CHECK(site.state_of(k_job) == "failed");
  CHECK(as<Failed>(site.answers.back()).cause.find("its journal") != std::string::npos);
}

TEST_CASE("the only step went away: nobody is answered") {
  JobSite site;
  site.jobs->begin(site.request(k_job));
  site.jobs->leave(site.wait(k_job));
  stage(site, WorkerPhase::done);
  CHECK(site.answers.size() == 1);
}

TEST_CASE("a step is answered when the data are there, and once; one that went away is not") {
  JobSite site;
  site.jobs->begin(site.request(k_job));
  const Ticket ticket = site.wait(k_job);
  CHECK(ticket != 0);
  site.jobs->leave(site.wait(k_job));
  REQUIRE(site.answers.size() == 2);
  for (const Message& answer : site.answers) as<Progress>(answer);
  stage(site, WorkerPhase::done);
  REQUIRE(site.answers.size() == 3);
  as<Ready>(site.answers[2]);
  site.jobs->leave(ticket);
  site.pass(std::chrono::minutes(1));
  CHECK(site.answers.size() == 3);
}

TEST_CASE("a worker that cannot be started fails the job, and gives its place to the next") {
  JobSite site;
  site.config.staging.max_jobs = 1;
  site.workers.is_refusing = true;
  site.jobs->begin(site.request(k_other));
  CHECK(site.state_of(k_other) == "failed");
  site.workers.is_refusing = false;
  site.jobs->begin(site.request(k_job));
  CHECK(site.state_of(k_job) == "staging");
}

TEST_CASE("nothing is left of a job that ran, and the epilog's answer says so") {
  SiteIn site('o');
  site.workers.finish(WorkerTask::stage_out, WorkerPhase::done);
  REQUIRE(!site.answers.empty());
  CHECK(as<Ended>(site.answers.back()).outcome == EndOutcome::done);
  CHECK(site.trees("hold") == 0);
  CHECK(site.trees("trash") == 1);
  CHECK(site.journal.load().records.empty());
  CHECK(site.jobs->reports(k_job, 0).size() == 1);
}

TEST_CASE("a report of a job that has ended: nothing is under way, and what came before is done") {
  const auto item_in = [](ItemState state) {
    return ItemRecord{.state = static_cast<std::uint32_t>(state)};
  };
  JobSite site;
  site.accept(site.request(k_job));
  site.workers.finish(WorkerTask::stage, k_job, WorkerPhase::done,
                      {item_in(ItemState::working), item_in(ItemState::waiting)});
  site.wait(k_job);
  site.end(k_job);
  site.workers.finish(WorkerTask::stage_out, k_job, WorkerPhase::failed,
                      {item_in(ItemState::done), item_in(ItemState::failed)});
  site.workers.finish(WorkerTask::measure, WorkerPhase::done);
  site.pass(std::chrono::seconds(site.config.hold.retry_first_s + 1));
  site.workers.finish(WorkerTask::stage_out, k_job, WorkerPhase::failed,
                      {item_in(ItemState::skipped), item_in(ItemState::failed)});
  const auto report = decode_report(site.jobs->reports(k_job, 0).at(0));
  REQUIRE(report);
  REQUIRE(report->state == "held");
  CHECK(report->items.at(0).state == "failed");
  CHECK(report->items.at(0).note == "the job ended before it was complete");
  CHECK(report->items.at(1).state == "skipped");
  CHECK(report->outputs.at(0).state == "done");
  CHECK(report->outputs.at(1).state == "failed");
}

TEST_CASE(
    "an epilog that can wait no longer leaves the tree in the hold area, while it is copied") {
  SiteIn site('o');
  site.pass(std::chrono::seconds(epilog_wait_of(site.config) + 1));
  CHECK(as<Ended>(site.answers.back()).outcome == EndOutcome::background);
  CHECK(site.state_of(k_job) == "staging out");
  CHECK(site.trees("hold") == 1);
}

TEST_CASE("held results are tried again, warned of, and removed after the notice") {
  SiteIn site('h');
  CHECK(site.jobs->held(0).size() == 1);
  CHECK(site.jobs->held(JobSite::user() + 1).empty());
  unsigned tries = 0;
  bool is_warned = false;
  std::string last_notice;
  for (std::uint64_t day = 0; day <= site.config.hold.days + 1; ++day) {
    CAPTURE(day);
    site.pass(std::chrono::hours(24));
    if (site.workers.say(WorkerTask::measure, WorkerPhase::done)) {
      site.workers.end(WorkerTask::measure);
      site.pass(std::chrono::minutes(1));
    }
    if (site.workers.say(WorkerTask::stage_out, WorkerPhase::failed, "no space left")) {
      site.workers.end(WorkerTask::stage_out);
      ++tries;
    }
    const auto* notice = site.workers.find(WorkerTask::notice);
    if (notice == nullptr) continue;
    CHECK(site.state_of(k_job) != "");
    last_notice = notice->request;
    is_warned |= site.journal.load().records.at(0).hold.warned_at != 0;
    site.workers.end(WorkerTask::notice);
  }
  CHECK(tries > 3);
  CHECK(is_warned);
  CHECK(site.state_of(k_job) == "");
  CHECK(last_notice.find("removed") != std::string::npos);
  CHECK(site.trees("hold") == 0);
}

TEST_CASE("results whose move to the hold area was lost with the power are found where they were") {
  SiteIn site('o');
  site.pass(std::chrono::seconds(epilog_wait_of(site.config) + 1));
  REQUIRE(site.journal.load().records.at(0).in_hold);
  std::filesystem::rename(site.scratch / ".nodestage/hold/7.0", site.scratch / "alice.7.0");
  site.start_daemon();
  CHECK(site.state_of(k_job) == "staging out");
  CHECK_FALSE(site.journal.load().records.at(0).in_hold);
  site.workers.finish(WorkerTask::stage_out, WorkerPhase::done);
  CHECK(site.state_of(k_job) == "");
  CHECK_FALSE(std::filesystem::exists(site.scratch / "alice.7.0"));
}

TEST_CASE("a node tells the job's first one while it makes an environment") {
  JobSite site;
  site.jobs->begin(site.shared_request(k_job));
  ItemRecord item{.state = static_cast<std::uint32_t>(ItemState::working)};
  const auto last_note = [&site] {
    site.pass(std::chrono::minutes(1));
    REQUIRE_FALSE(site.peers.sent.empty());
    return std::get<NodeNote>(site.peers.sent.back().body);
  };
  REQUIRE(site.workers.say(WorkerTask::stage, k_job, WorkerPhase::working, {item}));
  CHECK((last_note().waits & k_is_in_use) == 0);
  item.flags = k_item_venv;
  REQUIRE(site.workers.say(WorkerTask::stage, k_job, WorkerPhase::working, {item}));
  CHECK((last_note().waits & k_is_in_use) != 0);
}

TEST_CASE("sources by what a step reports are staged when a step has, here or on the first node") {
  JobSite site;
  const auto staging = [&](std::uint32_t job) -> const StageOrder* {
    site.pass(std::chrono::milliseconds(8));
    const auto* worker = site.workers.find(WorkerTask::stage, job);
    return worker == nullptr ? nullptr : &worker->as<StageOrder>();
  };
  const auto accept = [&](Begin begin) {
    begin.request = R"({"needs_names":true})";
    site.accept(begin);
    CHECK(staging(begin.job) == nullptr);
  };
  Wait wait{.job = 7, .array_job = 5, .array_task = 2, .job_name = "train"};
  accept(site.request(7));
  site.start_daemon();
  CHECK(staging(7) == nullptr);
  CHECK(site.state_of(7) == "queued");
  site.jobs->wait(wait, site.reply);
  const StageOrder* order = staging(7);
  REQUIRE(order != nullptr);
  CHECK(order->array_known);
  CHECK(order->array_task == 2);
  CHECK(order->job_name == "train");
  // By the note of the first node, which sends it when it knows, and to a node that begins later.
  accept(site.shared_request(8));
  site.hear_from_first(8, {});
  CHECK(staging(8) == nullptr);
  site.hear_from_first(8, {Verdict::open, "", {true, 5, 3, "train", true}});
  order = staging(8);
  REQUIRE(order != nullptr);
  CHECK(order->array_task == 3);
  // To one that begins when all others are ready, with their verdict.
  accept(site.shared_request(10));
  site.hear_from_first(10, {Verdict::ready, "", {true, 5, 4, "train", true}});
  CHECK(staging(10) != nullptr);
  Begin first = site.request(9);
  first.first_node = "n1";
  first.nodes = {"n1", "n2"};
  first.node_count = 2;
  accept(first);
  const auto told = [&site] {
    return std::count_if(site.peers.sent.begin(), site.peers.sent.end(), [](const PeerNote& note) {
      const auto* job = std::get_if<JobNote>(&note.body);
      return job != nullptr && note.job == 9 && job->facts.job_name == "train";
    });
  };
  const NodeNote begun;
  site.jobs->take_note({{"n1"}, "n2", 9, 0, 1, begun}, "");
  CHECK(told() == 0);
  wait.job = 9;
  site.jobs->wait(wait, site.reply);
  CHECK(told() == 1);
  site.jobs->take_note({{"n1"}, "n2", 9, 0, 2, begun}, "");
  CHECK(told() == 2);
}
