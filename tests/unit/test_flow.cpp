// The life of a job as a table: each fact in each condition, and each state that a daemon can find
// in the journal. No process, no file, no clock.
#include <doctest/doctest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <vector>

#include "daemon/root/flow/flow.hpp"

using namespace nodestage;

namespace {

// Everything that the table can ask of a job, in each combination.
struct Case {
  JobRecord record;
  Facts facts;
};

std::vector<Case> cases(Fact last) {
  std::vector<Case> all;
  for (unsigned bits = 0; bits < 4096; ++bits) {
    for (const Tree tree : {Tree::there, Tree::untouched, Tree::taken_away}) {
      Case one;
      one.record.ended = (bits & 1) != 0;
      one.record.directory_is_ours = (bits & 2) != 0;
      one.record.hold.since = (bits & 4) != 0 ? 1 : 0;
      one.facts.last = last;
      one.facts.is_working = (bits & 8) != 0;
      one.facts.is_late = (bits & 16) != 0;
      one.facts.lacks_outcome = (bits & 32) != 0;
      one.facts.may_share = (bits & 64) != 0;
      one.facts.is_undecided = (bits & 256) != 0;
      one.facts.is_in_memory = (bits & 512) != 0;
      one.facts.lacks_names = (bits & 1024) != 0;
      one.facts.lacks_mounts = (bits & 2048) != 0;
      if ((bits & 128) != 0) one.record.begin.request = "{}";
      one.facts.tree = tree;
      all.push_back(one);
    }
  }
  return all;
}

template <typename T>
std::vector<T> values() {
  std::vector<T> all;
  const EnumRange<T> range = range_of(T{});
  for (std::uint64_t i = to_number(range.first); i <= to_number(range.last); ++i)
    all.push_back(static_cast<T>(i));
  return all;
}

// The steps that a fact can have, in any condition.
std::set<Step> steps_after(Fact last) {
  std::set<Step> steps;
  for (const Case& one : cases(last)) steps.insert(next_step(one.record, one.facts));
  return steps;
}

Step step_after(Fact last, bool ended, Facts facts = {}) {
  JobRecord record{.ended = ended};
  facts.last = last;
  return next_step(record, facts);
}

bool is_of_the_start(Fact fact) { return fact < Fact::ended; }

}  // namespace

TEST_CASE("each fact has its steps") {
  using enum Step;
  const std::map<Fact, std::set<Step>> expected = {
      {Fact::under_way, {wait}},  // no step starts twice: its owner reports in between
      {Fact::begun, {wait, make_directory}},
      {Fact::directory_made, {wait, await_directory, let_run, enqueue}},
      {Fact::unstaged, {wait, let_run, enqueue}},
      {Fact::queued, {wait, await_mounts, await_names, identify, await_step, await_turn}},
      {Fact::named, {wait, identify, await_step, await_turn}},
      {Fact::unsettled, {wait, await_settled}},
      {Fact::settled, {wait, identify}},
      {Fact::led, {wait, await_leader}},
      {Fact::to_keep, {wait, await_turn}},
      {Fact::identified, {wait, await_step, await_turn}},
      {Fact::linked, {wait, stage}},
      {Fact::step_found, {wait, await_turn}},
      {Fact::step_lost, {wait, await_step}},
      {Fact::turn, {wait, keep, stage}},
      {Fact::over_quota, {wait, await_quota}},
      {Fact::staged_more, {wait, take_report}},
      {Fact::fresh, {wait, await_tick}},
      {Fact::spoilt, {wait, end_staging}},
      {Fact::staging_exited, {wait, read_staging}},
      {Fact::ready, {wait, let_run}},
      {Fact::failed, {wait, fail}},
      {Fact::was_decided, {wait, watch}},
      {Fact::ended, {stop}},
      {Fact::stopped, {wait, finish, lose_removed, give_up, ask_outcome, stage_out}},
      {Fact::outcome_known, {stage_out}},
      {Fact::stage_out_exited, {read_stage_out}},
      {Fact::delivered, {release, report}},
      {Fact::undelivered, {move_to_hold}},
      {Fact::reported, {finish}},
      {Fact::kept, {hold}},
      {Fact::unkept, {lose_mount}},
      {Fact::held, {look_after}},
      {Fact::retry_due, {stage_out}},
      {Fact::released, {finish}},
      {Fact::removed, {forget}},
      {Fact::remains, {wait}},
  };
  for (const Fact fact : values<Fact>()) {
    CAPTURE(static_cast<int>(fact));
    REQUIRE(expected.count(fact) == 1);
    CHECK(steps_after(fact) == expected.at(fact));
  }
}

TEST_CASE("each step comes after some fact, and each row is the answer to something") {
  std::set<Step> steps;
  std::set<const FlowRow*> rows;
  for (const Fact fact : values<Fact>()) {
    steps.merge(steps_after(fact));
    for (const Case& one : cases(fact)) {
      const Step step = next_step(one.record, one.facts);
      for (const FlowRow& row : k_flow)
        if (row.last == fact && row.next == step) rows.insert(&row);
    }
  }
  CHECK(steps.size() == values<Step>().size());
  CHECK(rows.size() == std::size(k_flow));
}

TEST_CASE("a job that has ended does not start, and one that has not is not stopped") {
  for (const Fact fact : values<Fact>()) {
    CAPTURE(static_cast<int>(fact));
    for (const Case& one : cases(fact)) {
      if (one.record.ended && is_of_the_start(fact))
        CHECK(next_step(one.record, one.facts) == Step::wait);
    }
    CHECK((step_after(fact, false) == Step::stop) == (fact == Fact::ended));
  }
}

TEST_CASE("what comes first when a job is queued") {
  Facts facts;
  facts.lacks_mounts = facts.may_share = facts.is_in_memory = facts.is_undecided = true;
  CHECK(step_after(Fact::queued, false, facts) == Step::await_mounts);
  facts.lacks_mounts = false;
  CHECK(step_after(Fact::queued, false, facts) == Step::identify);
  CHECK(step_after(Fact::to_keep, false, facts) == Step::await_turn);
  CHECK(step_after(Fact::turn, false, facts) == Step::keep);
  facts.is_undecided = false;
  CHECK(step_after(Fact::identified, false, facts) == Step::await_step);
  CHECK(step_after(Fact::turn, false, facts) == Step::stage);
  facts.may_share = false;
  CHECK(step_after(Fact::queued, false, facts) == Step::await_step);
  facts.is_in_memory = false;
  CHECK(step_after(Fact::queued, false, facts) == Step::await_turn);
}

TEST_CASE("what comes first when a job has stopped") {
  Facts facts;
  facts.is_working = facts.is_late = facts.lacks_outcome = true;
  facts.tree = Tree::untouched;
  CHECK(step_after(Fact::stopped, true, facts) == Step::wait);
  facts.is_working = false;
  CHECK(step_after(Fact::stopped, true, facts) == Step::finish);
  facts.tree = Tree::taken_away;
  CHECK(step_after(Fact::stopped, true, facts) == Step::lose_removed);
  facts.tree = Tree::there;
  CHECK(step_after(Fact::stopped, true, facts) == Step::give_up);
  facts.is_late = false;
  CHECK(step_after(Fact::stopped, true, facts) == Step::ask_outcome);
  facts.lacks_outcome = false;
  CHECK(step_after(Fact::stopped, true, facts) == Step::stage_out);
}

TEST_CASE("only a tree of which nothing needs to be kept is moved to the trash") {
  for (const Fact fact : values<Fact>()) {
    CAPTURE(static_cast<int>(fact));
    for (const Case& one : cases(fact)) {
      if (next_step(one.record, one.facts) != Step::finish) continue;
      const bool is_untouched = fact == Fact::stopped && one.facts.tree == Tree::untouched;
      const bool is_done = fact == Fact::reported || fact == Fact::released;
      CHECK((is_untouched || is_done));
    }
  }
}

TEST_CASE("a daemon that starts knows from the journal what was done, and goes on") {
  struct Row {
    JobState state;
    // For what the worker has left: nothing, itself, or its last word; of a job that has not ended.
    Step steps[3];
    bool is_of_the_start;
  };
  using enum Step;
  const Row rows[] = {
      {JobState::waiting_for_directory, {make_directory, make_directory, make_directory}, true},
      {JobState::queued, {enqueue, wait, read_staging}, true},
      {JobState::staging, {enqueue, wait, read_staging}, true},
      {JobState::ready, {watch, watch, watch}, true},
      {JobState::failed, {watch, watch, watch}, true},
      {JobState::stopping, {stop, stop, stop}, false},
      {JobState::awaiting_outcome, {stop, stop, stop}, false},
      {JobState::staging_out, {stop, wait, read_stage_out}, false},
      {JobState::held, {look_after, look_after, look_after}, false},
      {JobState::gone, {finish, finish, finish}, false},
  };
  REQUIRE(std::size(rows) == to_number(range_of(JobState{}).last) + 1);
  for (const Row& row : rows) {
    CAPTURE(to_text(row.state));
    JobRecord record{.begin = {.request = "{}"}, .state = row.state};
    for (const Left left : {Left::nothing, Left::running, Left::exited}) {
      CAPTURE(static_cast<int>(left));
      for (const bool ended : {false, true}) {
        record.ended = ended;
        Facts facts{.last = known_of(record, left)};
        const Step expected =
            ended && row.is_of_the_start ? stop : row.steps[static_cast<int>(left)];
        CHECK(next_step(record, facts) == expected);
      }
    }
  }
}
