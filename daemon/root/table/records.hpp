// Records: what the node keeps of jobs that are gone, for `nodestage report`.
//
//   STATE_DIR/records/<job>.<restart>.<uid>.json     a NodeReport (common/wire/node_report.hpp),
//   0600
//
// The oldest go first, beyond records.keep and records.days. A record that cannot be written or
// read is logged, with no other effect. Needs root. Test: tests/unit/test_records.cpp.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/os/fd.hpp"
#include "common/result.hpp"
#include "common/settings/config.hpp"
#include "daemon/root/basis/areas.hpp"

namespace nodestage {

class Records {
 public:
  // Makes the directory if needed. Borrows the settings.
  Records(const std::string& state_dir, const Config& config);

  // Keeps a report, in place of an earlier one of the same run.
  void keep(const JobKey& key, std::uint32_t uid, const std::string& report);

  // Returns the reports of a job that `uid` may see (root: all).
  [[nodiscard]] std::vector<std::string> find(std::uint32_t job, std::uint32_t uid) const;

  // Removes reports that are too old or too many.
  void trim();

 private:
  struct Entry {
    std::uint32_t uid = 0;
    std::uint64_t written = 0;  // seconds since 1970
  };
  using Entries = std::map<JobKey, Entry>;

  Status open(const std::string& state_dir);
  [[nodiscard]] static std::string name_of(const Entries::value_type& entry);
  Entries::iterator remove(Entries::iterator entry);
  [[nodiscard]] bool is_too_old(const Entry& entry) const;

  const Config& config_;
  std::optional<Fd> directory_;
  Entries entries_;
  int fault_ = 0;  // errno of the last write
};

}  // namespace nodestage
