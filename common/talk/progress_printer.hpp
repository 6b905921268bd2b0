// ProgressPrinter: the daemon's progress records as lines for people.
#pragma once

#include <cstdint>
#include <string>

#include "common/wire/protocol.hpp"

namespace nodestage {

// Keeps what it needs for the speed between two calls. Pure: prints nothing, reads no clock. Lines
// hold no newline and nothing that a terminal would obey.
//   "data.tar.gz: 1.2 of 4.0 GiB (30%), about 9 s left, 310.0 MiB/s, 12,345 files"
//   "item 2 of 3, data.tar.gz: 1.2 of 4.0 GiB (30%), 12,345 files"
//   "item 3 of 3, requirements.txt: Installing collected packages: numpy"
//   "waiting for 2 other jobs that stage on this node"
//   "ready here; 1 of 3 nodes is not ready: n3 (34% of 4.0 GiB)"
// Where this node is not ready either, what it says of the others follows in the same line.
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

// "1.2 of 4.0 GiB", "900.0 MiB of 1.2 GiB"
std::string bytes_of(std::uint64_t part, std::uint64_t whole);

// "30%", never more than 100%.
std::string percent(std::uint64_t part, std::uint64_t whole);

// A line for a terminal of that many columns: the last details go first, then the name, the figures
// last.
std::string without_details(std::string line, std::size_t width);

}  // namespace nodestage
