// JobEvents: what the owners of a job's parts report. Jobs implements it, looks the next step up in
// flow.hpp, and starts it. A call may forget the job: it has the job's key, it comes last, and the
// caller does not use the job's record afterwards.
#pragma once

#include "daemon/root/basis/areas.hpp"
#include "daemon/root/flow/flow.hpp"

namespace nodestage {

class JobEvents {
 public:
  // A step is done, or something has come that the table has rows for.
  virtual void done(const JobKey& key, Fact fact) = 0;
  // It was decided for all nodes whether the job runs; the journal does not know it yet.
  virtual void decided(const JobKey& key) = 0;

 protected:
  ~JobEvents() = default;
};

}  // namespace nodestage
