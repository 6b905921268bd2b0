// RepeatedSources: the sources that jobs of one user have staged on this node again and again, and
// the hint that would save the work. In memory alone: another daemon counts anew.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/wire/status_file.hpp"

namespace nodestage {

// Bounded: the sources of a user, of which new ones replace those not staged for the longest time,
// and the users likewise. A user's claims have no effect on the hints of others, unless more users
// than k_most_users stage on the node within a day.
class RepeatedSources {
 public:
  static constexpr std::size_t k_most_users = 1024;
  static constexpr std::size_t k_most_sources = 16;  // of a user

  struct StagingJob {
    std::uint32_t uid;
    std::uint32_t job;
  };
  // Counts an item that a job has staged; `now_s`: seconds since 1970. A job counts once for a
  // source, also with several items and if it is requeued. Returns the hint for the user,
  // printable, with the third job of a user within a day, if it would have saved a minute or a GiB,
  // or is for a directory of many files; "" otherwise.
  std::string count(const StagingJob& by, const ItemRecord& item, std::uint64_t now_s);

 private:
  struct Source {
    std::uint64_t mark = 0;
    std::uint64_t first_s = 0;  // of the day in which it is counted
    std::uint64_t last_s = 0;
    std::vector<std::uint32_t> jobs;  // the first three
    std::uint64_t again_bytes = 0;    // read for all of them but the first
    std::uint64_t again_ms = 0;       // likewise
  };
  struct User {
    std::uint64_t last_s = 0;
    std::vector<Source> sources;
  };
  User& user_of(std::uint32_t uid);
  static Source& source_of(User& user, std::uint64_t mark);

  std::map<std::uint32_t, User> users_;  // by uid
};

}  // namespace nodestage
