#include "daemon/worker/out/notice.hpp"

#include <fcntl.h>
#include <unistd.h>

#include "common/os/file.hpp"
#include "daemon/worker/basis/log.hpp"
#include "daemon/worker/tree/pending_file.hpp"

namespace nodestage {
namespace {

Status write_notice(const std::string& directory, const NoticeOrder& order, std::string_view text) {
  TRY_ASSIGN(const Fd into, open_at(AT_FDCWD, directory, O_PATH | O_DIRECTORY));
  const PendingName pending(into.get(), pending_names(order));
  TRY_ASSIGN(Fd file, pending.create_file(0600));
  TRY(write_all(file.get(), text));
  if (::fsync(file.get()) != 0) return system_error("cannot write");
  TRY(close_checked(std::move(file)));
  return pending.commit(notice_name(order));
}

}  // namespace

std::string notice_directory(const std::string& stdout_path, const std::string& work_dir) {
  if (stdout_path.empty()) return work_dir;
  const std::string path =
      stdout_path.starts_with('/') ? stdout_path : work_dir + "/" + stdout_path;
  const std::size_t slash = path.rfind('/');
  const std::string directory = slash == 0 ? "/" : path.substr(0, slash);
  const bool is_device = path.starts_with("/dev/");
  return is_device || directory.find('%') != std::string::npos ? work_dir : directory;
}

std::string notice_name(const NoticeOrder& order) {
  std::string name = "nodestage-" + std::to_string(order.job);
  if (order.restart > 0) name += "." + std::to_string(order.restart);
  if (order.node_count > 1) name += "-" + order.node;
  return name + ".txt";
}

int run_notice(const NoticeOrder& order, std::string_view text) {
  const std::string first = notice_directory(order.stdout_path, order.work_dir);
  const Status written = write_notice(first, order, text);
  if (written) return 0;
  if (first != order.work_dir && write_notice(order.work_dir, order, text)) return 0;
  log_line("the notice cannot be written to " + first + ": " + written.error().text());
  return 1;
}

}  // namespace nodestage
