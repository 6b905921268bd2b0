#include "cli/run/image_mounts.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

#include "cli/process/programs.hpp"
#include "common/os/passed_descriptors.hpp"
#include "common/text/human.hpp"

namespace nodestage {
namespace {

constexpr const char* k_fusermount = "fusermount3";
constexpr std::string_view k_mount_name = "image.";
constexpr std::size_t k_most_of_fusermount = 500;  // bytes of a message of fusermount3

// Whoever has it open answers for a mount: /dev/fuse, which fusermount3 sends with one byte.
Result<Fd> receive_descriptor(int socket) {
  char byte = 0;
  ReceivedPacket packet = receive_packet(socket, {&byte, 1}, MSG_DONTWAIT);
  if (packet.bytes < 1 || packet.descriptors.size() != 1)
    return Error{EPROTO, std::string(k_fusermount) + " has sent no descriptor"};
  return std::move(packet.descriptors.front());
}

Error not_mounted(const ProgramEnd& end) {
  if (end.is_not_run() && end.errors.empty())
    return {ENOENT, std::string("the program ") + k_fusermount +
                        " cannot be run; it is in the package fuse3"};
  if (end.late) return {ETIMEDOUT, std::string(k_fusermount) + " does not end"};
  const std::string said =
      printable(shortened(end.errors.substr(0, end.errors.find('\n')), k_most_of_fusermount));
  return {EIO,
          said.empty() ? k_fusermount + (" exited with code " + std::to_string(end.code)) : said};
}

std::vector<std::string> environment_with(std::string variable) {
  const char* path = std::getenv("PATH");
  return {std::move(variable), std::string("PATH=") + (path == nullptr ? "" : path)};
}

Result<Fd> mount_at(const std::string& path) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return system_error("socketpair");
  const Fd ours(ends[0]);
  Fd theirs(ends[1]);
  Program program;
  program.words = {k_fusermount, "-o", "ro,nosuid,nodev,fsname=nodestage,subtype=squashfs", "--",
                   path};
  program.environment = environment_with("_FUSE_COMMFD=" + std::to_string(k_program_fd));
  program.descriptor = theirs.get();
  program.group = Program::Group::own;
  const ProgramEnd end = run_program(program);
  if (end.code != 0 || end.late) return not_mounted(end);
  return receive_descriptor(ours.get());
}

void detach(const std::string& path) {
  Program program;
  program.words = {k_fusermount, "-u", "-z", "--", path};
  program.group = Program::Group::own;
  static_cast<void>(run_program(program));
}

}  // namespace

Result<ImageMounts> ImageMounts::make(const std::string& record, std::size_t count) {
  ImageMounts images;
  for (std::size_t i = 0; i < count; ++i) {
    std::string path = record;
    path.append("/").append(k_mount_name).append(std::to_string(i));
    if (::mkdir(path.c_str(), 0700) != 0) return system_error(printable(path));
    images.paths_.push_back(path);
    TRY_ASSIGN(Fd descriptor, mount_at(path));
    images.descriptors_.push_back(std::move(descriptor));
  }
  return images;
}

Status ImageMounts::serve(WorkerCall call) {
  for (const Fd& descriptor : descriptors_) call.fuse_fds.push_back(descriptor.get());
  std::get<ServeOrder>(call.order).images = static_cast<std::uint32_t>(descriptors_.size());
  auto server = WorkerChild::start(call);
  descriptors_.clear();
  if (!server) return cannot_start_worker(server.error());
  server_.emplace(std::move(*server));
  return {};
}

// It serves the others when one of them has failed.
std::optional<Error> ImageMounts::why_ended() {
  if (!server_ || was_said_) return {};
  const auto status = server_->status();
  const bool has_failed = status && status->phase == WorkerPhase::failed;
  if (!has_failed && !server_->has_ended()) return {};
  was_said_ = true;
  const auto end = end_of_worker(*server_, WorkerTask::serve);
  if (end) return {};  // all were given up, with their datasets' faults, or unmounted
  return end.error();
}

void ImageMounts::end() {
  server_.reset();
  descriptors_.clear();
  for (const std::string& path : std::exchange(paths_, {})) detach(path);
}

void detach_images(const std::string& record) {
  std::vector<std::string> left;
  auto names = DirectoryStream::at(AT_FDCWD, record);
  while (const auto name = names.next()) {
    if (name->starts_with(k_mount_name)) left.push_back(record + "/" + std::string(*name));
  }
  for (const std::string& path : left) detach(path);
}

}  // namespace nodestage
