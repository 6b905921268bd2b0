#include "daemon/root/table/job_files.hpp"

#include <fcntl.h>

#include <utility>

namespace nodestage {
namespace {

constexpr const char* k_plan = "plan";

}  // namespace

Result<Fd> JobFiles::directory(const JobRecord& record) const {
  TRY_ASSIGN(auto fd, record.in_hold ? areas_.open_held(record.key(), record.begin.uid)
                                     : areas_.open_directory(record.directory, record.begin.uid,
                                                             mounts_of(record)));
  if (!fd) return Error{ENOENT, path(record) + ": the job directory is gone"};
  return std::move(*fd);
}

std::string JobFiles::path(const JobRecord& record) const {
  return areas_.path_of(record.directory);
}

Result<Fd> JobFiles::new_status(const JobKey& key, WorkerTask task) const {
  return areas_.open_status(key, traits_of(task).name, O_RDWR | O_CREAT | O_TRUNC);
}

Result<Fd> JobFiles::delivered_list(const JobKey& key) const {
  return areas_.open_status(key, "delivered", O_RDWR | O_CREAT);
}

Result<Fd> JobFiles::rate_file(const JobKey& key, RateKind kind) const {
  return areas_.open_status(key, kind == RateKind::read ? "read-rate" : "deliver-rate",
                            O_RDWR | O_CREAT);
}

Result<Fd> JobFiles::new_relay_plan(const JobKey& key) const {
  return areas_.open_status(key, k_plan, O_RDWR | O_CREAT | O_TRUNC);
}

Result<RelayPlan> JobFiles::relay_plan(const JobKey& key) const {
  TRY_ASSIGN(const Fd fd, areas_.open_status(key, k_plan, O_RDONLY));
  return read_relay_plan(fd.get());
}

Status JobFiles::write_relay_plan(const JobKey& key, const RelayPlan& plan) const {
  TRY_ASSIGN(const Fd fd, areas_.open_status(key, k_plan, O_WRONLY));
  return nodestage::write_relay_plan(fd.get(), plan);
}

WorkerStatus JobFiles::status(const JobKey& key, WorkerTask task) const {
  const auto fd = areas_.open_status(key, traits_of(task).name, O_RDONLY);
  if (!fd) return {};
  auto status = read_worker_status(fd->get());
  return status ? std::move(*status) : WorkerStatus{};
}

std::string JobFiles::kept_in(const JobRecord& record) const {
  return record.in_hold ? areas_.held_path(record.key()) : path(record);
}

}  // namespace nodestage
