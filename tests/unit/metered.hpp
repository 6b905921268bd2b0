// What a reader and a writer of the worker need around them.
#pragma once

#include <fcntl.h>

#include <atomic>
#include <string>

#include "common/os/file.hpp"
#include "daemon/worker/budget/meter.hpp"
#include "daemon/worker/budget/space.hpp"

// For a source that is read, without a rate or with one in a file.
struct Metered {
  explicit Metered(int rate_fd = -1) : rate(rate_fd) {}
  nodestage::RateLimit rate;
  std::atomic<bool> stop = false;
  nodestage::Meter meter{rate, stop};
};

// And for what is written below a directory.
struct MeteredRoom : Metered {
  explicit MeteredRoom(const std::string& path, std::uint64_t leave_free = 0,
                       const nodestage::MemoryShare& memory = {})
      : dir(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)),
        allowance({-1, -1, dir.get(), leave_free, "n1", memory}, stop),
        space(dir.get(), allowance) {}
  const nodestage::Fd dir;
  nodestage::Allowance allowance;
  nodestage::Space space;
};
