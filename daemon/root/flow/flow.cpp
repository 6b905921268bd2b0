#include "daemon/root/flow/flow.hpp"

#include <algorithm>
#include <iterator>

namespace nodestage {
namespace {

bool holds(Condition when, const JobRecord& record, const Facts& facts) {
  switch (when) {
    case Condition::always:
      return true;
    case Condition::site_makes_it:
      return !record.directory_is_ours;
    case Condition::wants_nothing:
      return record.begin.request.empty();
    case Condition::unmounted:
      return facts.lacks_mounts;
    case Condition::unnamed:
      return facts.lacks_names;
    case Condition::shares:
      return facts.may_share;
    case Condition::undecided:
      return facts.is_undecided;
    case Condition::in_memory:
      return facts.is_in_memory;
    case Condition::works:
      return facts.is_working;
    case Condition::untouched:
      return facts.tree == Tree::untouched;
    case Condition::taken_away:
      return facts.tree == Tree::taken_away;
    case Condition::late:
      return facts.is_late;
    case Condition::lacking:
      return facts.lacks_outcome;
    case Condition::was_held:
      return record.hold.since != 0;
  }
  return false;
}

}  // namespace

Step next_step(const JobRecord& record, const Facts& facts) {
  if (record.ended && facts.last < Fact::ended) return Step::wait;
  const auto* const row = std::find_if(
      std::begin(k_flow), std::end(k_flow),
      [&](const FlowRow& of) { return of.last == facts.last && holds(of.when, record, facts); });
  return row == std::end(k_flow) ? Step::wait : row->next;
}

Fact known_of(const JobRecord& record, Left left) {
  switch (record.state) {
    case JobState::waiting_for_directory:
      return record.ended ? Fact::ended : Fact::begun;
    case JobState::queued:
    case JobState::staging:
      // The last daemon noted its end and came no further.
      if (record.ended) return Fact::ended;
      if (left == Left::running) return Fact::under_way;
      return left == Left::exited ? Fact::staging_exited : Fact::unstaged;
    case JobState::ready:
    case JobState::failed:
      return record.ended ? Fact::ended : Fact::was_decided;
    case JobState::stopping:
    case JobState::awaiting_outcome:
      return Fact::ended;
    case JobState::staging_out:
      if (left == Left::running) return Fact::under_way;
      return left == Left::exited ? Fact::stage_out_exited : Fact::ended;
    case JobState::held:
      return Fact::held;
    case JobState::gone:
      return Fact::released;
  }
  return Fact::under_way;
}

}  // namespace nodestage
