// Limited: for its lifetime, a limit of this process (RLIMIT_…) is lower.
#pragma once

#include <sys/resource.h>

#include <cstdlib>

class Limited {
 public:
  Limited(int resource, rlim_t most) : resource_(resource) {
    if (::getrlimit(resource_, &before_) != 0) abort();
    const rlimit lower{most, before_.rlim_max};
    if (::setrlimit(resource_, &lower) != 0) abort();
  }
  Limited(const Limited&) = delete;
  Limited& operator=(const Limited&) = delete;
  ~Limited() {
    if (::setrlimit(resource_, &before_) != 0) abort();
  }

 private:
  int resource_;
  rlimit before_{};
};
