// ProgressPrinter: formats the daemon's progress records for people.
#pragma once

#include <cstdint>
#include <string>

#include "common/wire/protocol.hpp"

namespace nodestage {

// Keeps the state for the speed between calls; prints nothing and reads no clock. Lines contain no
// newline and no control characters.
//   "data.tar.gz: 1.2 of 4.0 GiB (30%), about 9 s left, 310.0 MiB/s, 12,345 files"
//   "item 2 of 3, data.tar.gz: 1.2 of 4.0 GiB in all (30%), 12,345 files"
//   "item 3 of 3, requirements.txt: Installing collected packages: numpy"
//   "waiting for 2 other jobs that stage on this node"
//   "waiting for job 4711, which stages data.tar for this job, too"
//   "ready here; 1 of 3 nodes is not ready: n3 (34% of 4.0 GiB)"
// If this node is not ready either, the line about the others follows its own progress.
class ProgressPrinter {
 public:
  std::string line(const Progress& progress);

 private:
  std::string own_line(const Progress& progress);
  void update_speed(const Progress& progress);
  std::string staging_line(const Progress& progress) const;
  std::string time_left(const Progress& progress) const;

  std::uint64_t last_bytes_ = 0;
  std::uint64_t last_ms_ = 0;
  double bytes_per_second_ = 0;  // 0: not known yet
};

// Returns "1.2 of 4.0 GiB", or "900.0 MiB of 1.2 GiB".
std::string bytes_of(std::uint64_t part, std::uint64_t whole);

// Returns "30%", never more than 100%.
std::string percent(std::uint64_t part, std::uint64_t whole);

// Shortens a line to `width` columns: first drops the last details, then shortens the name, and
// finally the figures.
std::string without_details(std::string line, std::size_t width);

}  // namespace nodestage
