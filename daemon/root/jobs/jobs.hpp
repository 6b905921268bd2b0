// Jobs: what happens to each job of this node, from its prolog to the last trace of it. Each part
// of that has an owner; Jobs makes them, gives each request to the one it concerns, and passes on
// what they report to the owner that comes next (flow.hpp). The states of a job and their order are
// in job_table.hpp.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/settings/config.hpp"
#include "common/wire/peer_note.hpp"
#include "common/wire/protocol.hpp"
#include "daemon/root/basis/areas.hpp"
#include "daemon/root/basis/loop.hpp"
#include "daemon/root/cache/cache.hpp"
#include "daemon/root/flow/flow.hpp"
#include "daemon/root/held/held_results.hpp"
#include "daemon/root/jobs/credits.hpp"
#include "daemon/root/jobs/ending.hpp"
#include "daemon/root/jobs/job_views.hpp"
#include "daemon/root/jobs/orphans.hpp"
#include "daemon/root/jobs/outcomes.hpp"
#include "daemon/root/jobs/peer_talk.hpp"
#include "daemon/root/jobs/waiting.hpp"
#include "daemon/root/metrics/metrics.hpp"
#include "daemon/root/nodes/peers.hpp"
#include "daemon/root/push/pushes.hpp"
#include "daemon/root/relay/relays.hpp"
#include "daemon/root/shares/space_allocator.hpp"
#include "daemon/root/slurm/scontrol.hpp"
#include "daemon/root/staging/images.hpp"
#include "daemon/root/staging/staging.hpp"
#include "daemon/root/table/job_files.hpp"
#include "daemon/root/table/job_table.hpp"
#include "daemon/root/table/records.hpp"
#include "daemon/root/tasks/job_output.hpp"
#include "daemon/root/tasks/job_workers.hpp"
#include "daemon/root/tasks/trash.hpp"
#include "daemon/root/workers/workers.hpp"

namespace nodestage {

class Jobs final : private JobEvents {
 public:
  struct Deps {
    Loop& loop;
    const Config& config;
    Areas& areas;
    Journal& journal;
    Workers& workers;
    Trash& trash;
    Peers& peers;
    SlurmQuestion& slurm;
    Records& records;
    std::string boot = CacheArea::this_boot();
  };
  explicit Jobs(const Deps& deps) : deps_(deps) {}
  Jobs(const Jobs&) = delete;

  // Carries on with the jobs of an earlier daemon.
  void recover();
  // After a reload of the configuration: applies it to the jobs that are here already.
  void settings_changed();

  Message begin(const Begin& begin);
  Message exited(const Exited& exited);
  // `descriptors`: of /dev/fuse, those that the hook has mounted.
  Message mounted(const ImagesMounted& mounted, std::vector<Fd> descriptors);
  [[nodiscard]] PlaceRow place(const PlaceQuery& ask);
  // Returns the uid of a live job, for the check whether a caller may ask.
  [[nodiscard]] std::optional<std::uint32_t> owner(std::uint32_t job) const;
  // Returns that of a run whose results are held.
  [[nodiscard]] std::optional<std::uint32_t> owner_of_held(const Recover& ask) const;
  // Takes in a note from the daemon of another node, which came from that address.
  void take_note(const PeerNote& note, const std::string& address);
  // Answer now or later, through `reply`. They return the caller's ticket, or 0 when it has its
  // last answer.
  Ticket wait(const Wait& wait, Reply reply);
  Ticket await(const Await& ask, Reply reply);
  Ticket push(const Push& ask, Reply reply);
  Ticket end(const End& end, const Reply& reply);
  Ticket recover_held(const Recover& ask, const Reply& reply);
  // Removes a caller that went away.
  void leave(Ticket ticket);
  // Calls `done` when what is known of the jobs by now is durable. An answer that a caller relies
  // on is sent then.
  void then(Loop::Callback done) const { table_.then(std::move(done)); }
  // Returns why the job's record is not durable; nothing when it is, or when there is none.
  [[nodiscard]] std::optional<std::string> unsaved(const JobKey& key) const {
    return table_.unsaved(key);
  }
  // See cache.hpp.
  [[nodiscard]] std::vector<CacheRow> cache(std::uint32_t uid) const { return cache_.rows(uid); }
  std::vector<CacheRow> drop(std::uint32_t uid, const std::vector<std::string>& names) {
    return cache_.drop(uid, names);
  }
  // See job_views.hpp.
  [[nodiscard]] std::vector<JobStatus> status(std::uint32_t job, std::uint32_t uid) {
    return views_.status(job, uid);
  }
  [[nodiscard]] std::vector<HeldRow> held(std::uint32_t uid) const { return views_.held(uid); }
  [[nodiscard]] std::vector<std::string> reports(std::uint32_t job, std::uint32_t uid) const {
    return views_.reports(job, uid);
  }
  [[nodiscard]] Metrics metrics();

 private:
  Message admit(const Begin& begin);
  Result<JobRecord> new_record(const Begin& begin) const;
  [[nodiscard]] Status make_way(const JobKey& key, const std::string& directory);
  Message add(JobRecord record);
  void learn(JobRecord& record, const Wait& wait);
  void note_look(JobRecord& record, const Wait& wait);
  void look_again();

  void decided(const JobKey& key) override;

  // jobs_flow.cpp
  void done(const JobKey& key, Fact fact) override;
  [[nodiscard]] Step step_of(const JobKey& key) const override;
  [[nodiscard]] Facts facts_of(const JobRecord& record) const;
  void start(Step step, JobRecord& record);
  void make_directory(JobRecord& record);
  void let_run(JobRecord& record);
  void watch(JobRecord& record);
  void stop(JobRecord& record);
  void forget(JobRecord& record);

  // jobs.cpp: after a restart of the daemon
  void take_over(JobRecord& record);
  [[nodiscard]] bool is_given_on(const JobRecord& record) const;
  void remove_from_memory();
  void carry_on(JobRecord& record);
  [[nodiscard]] Left left_of(const JobRecord& record) const;

  Deps deps_;
  Counters counters_;
  JobTable table_{deps_.loop, deps_.journal, counters_};
  JobFiles files_{deps_.areas};
  Cache cache_{
      {deps_.loop, deps_.config, deps_.areas, deps_.workers, deps_.trash, counters_, deps_.boot}};
  SpaceAllocator allocator_{
      deps_.loop,
      deps_.config,
      deps_.areas,
      {[this](int disk) { return cache_.unused_on(disk); }, [this] { return cache_.make_room(); }}};
  JobWorkers workers_{deps_.loop, deps_.config, table_, files_, deps_.workers, counters_};
  Notices notices_{deps_.workers, deps_.config};
  JobQuestions questions_{deps_.loop, deps_.config};
  JobOutput output_{table_, workers_, notices_, questions_, deps_.config};
  JobDeps job_deps_{deps_.loop, deps_.config, deps_.areas, table_,
                    files_,     workers_,     counters_,   *this};
  Credits credits_{job_deps_};
  HeldResults held_{{job_deps_, notices_}};
  Relays relays_{{job_deps_, deps_.peers}};
  Images images_{{deps_.loop, deps_.config, deps_.areas, table_, files_, workers_, *this}};
  Staging staging_{{job_deps_, allocator_, held_, cache_, relays_, images_}};
  Pushes pushes_{{job_deps_, held_}};
  PeerTalk talk_{{job_deps_, deps_.peers, relays_, credits_},
                 [this](const JobKey& key) { return waiting_.is_for_all(key); }};
  Outcomes outcomes_{{job_deps_, deps_.peers, talk_}};
  TimeLimits limits_{deps_.loop, deps_.config, table_};
  Waiting waiting_{{job_deps_, deps_.peers, staging_, talk_, credits_, limits_}};
  Ending ending_{{job_deps_, held_, output_, staging_}};
  Orphans orphans_{job_deps_, deps_.slurm};
  JobViews views_{{deps_.loop, deps_.config, deps_.areas, table_, files_, allocator_, held_,
                   pushes_, cache_, staging_, talk_, deps_.records}};
  Ticket next_ticket_ = 1;
  struct Progressed {
    Fact fact = Fact::under_way;  // the latest
    Step step = Step::wait;       // the last that was started
  };
  std::map<JobKey, Progressed> flows_;
  std::set<JobKey> moving_;  // jobs whose done() is further up the stack
};

}  // namespace nodestage
