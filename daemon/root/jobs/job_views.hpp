// JobViews: what is shown of the jobs: their status, reports, held results and figures. It does not
// change them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/settings/config.hpp"
#include "common/wire/node_report.hpp"
#include "common/wire/protocol.hpp"
#include "daemon/root/basis/areas.hpp"
#include "daemon/root/basis/loop.hpp"
#include "daemon/root/cache/cache.hpp"
#include "daemon/root/held/held_results.hpp"
#include "daemon/root/jobs/peer_talk.hpp"
#include "daemon/root/metrics/metrics.hpp"
#include "daemon/root/push/pushes.hpp"
#include "daemon/root/shares/space_allocator.hpp"
#include "daemon/root/staging/staging.hpp"
#include "daemon/root/table/job_files.hpp"
#include "daemon/root/table/job_table.hpp"
#include "daemon/root/table/records.hpp"

namespace nodestage {

class JobViews {
 public:
  struct Deps {
    const Loop& loop;
    const Config& config;
    const Areas& areas;
    const JobTable& table;
    const JobFiles& files;
    const SpaceAllocator& allocator;
    const HeldResults& held;
    const Pushes& pushes;
    const Cache& cache;
    const Staging& staging;
    const PeerTalk& talk;
    Records& records;
  };
  explicit JobViews(const Deps& deps) : deps_(deps) {}

  // Returns the status of each run of a job that `uid` may see (root: all); job 0: of all jobs.
  [[nodiscard]] std::vector<JobStatus> status(std::uint32_t job, std::uint32_t uid);
  // Returns the results that could not be delivered, those that `uid` may see.
  [[nodiscard]] std::vector<HeldRow> held(std::uint32_t uid) const;
  // Returns the NodeReports of a job's runs as JSON, of those that are gone, too.
  [[nodiscard]] std::vector<std::string> reports(std::uint32_t job, std::uint32_t uid) const;
  // Keeps the report of a job that is about to be forgotten.
  void keep_report(const JobRecord& record) const;
  // Returns `counters` and the figures of what is there now.
  [[nodiscard]] Metrics metrics(const Counters& counters) const;
  void forget(const JobKey& key) { seen_.erase(key); }

 private:
  // The items as status() last showed them, those of ended workers, too.
  struct Seen {
    Clock::time_point at{};
    WorkerTask task{};
    std::vector<StatusItem> items;
  };
  [[nodiscard]] const std::vector<StatusItem>& items_of(const JobKey& key, WorkerTask task);
  [[nodiscard]] std::string wait_of(const JobRecord& record) const;
  [[nodiscard]] StatusRow row_of(const JobRecord& record) const;
  [[nodiscard]] NodeReport report_of(const JobRecord& record) const;

  Deps deps_;
  std::map<JobKey, Seen> seen_;
};

}  // namespace nodestage
