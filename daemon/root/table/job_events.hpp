// JobEvents: what the owners of a job's parts report to each other. Each calls the owners below it
// and reports upwards by these functions; Jobs implements them and passes reports on. A call may
// forget the job: the caller must not use the record afterwards, but looks the key up again.
#pragma once

#include "daemon/root/basis/job.hpp"

namespace nodestage {

// What is left of a job that is gone.
enum class Remains {
  nothing,
  tree,  // it could not be removed: the journal keeps the job, and the next daemon tries again
};

class JobEvents {
 public:
  // The job's state has become ready or failed; the journal does not know it yet.
  virtual void ready(JobRecord& record) = 0;
  virtual void failed(JobRecord& record) = 0;
  // It was decided for all nodes whether the job runs; the journal does not know it yet.
  virtual void decided(JobRecord& record) = 0;
  // The staging worker of a job that has ended is gone, so its results can be delivered.
  virtual void stopped(JobRecord& record) = 0;
  // How the job ended is known, or will not become known.
  virtual void outcome_known(JobRecord& record) = 0;
  // Held results: it is time for another try.
  virtual void try_again(JobRecord& record) = 0;
  // Held results: nothing needs to be kept any more.
  virtual void let_go(JobRecord& record) = 0;
  // The job's state has become gone, and each caller that waited has an answer. Called again once a
  // tree that remained is trash.
  virtual void gone(JobRecord& record, Remains remains) = 0;

 protected:
  ~JobEvents() = default;
};

}  // namespace nodestage
