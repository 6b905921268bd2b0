#include "cli/pack/pack_image.hpp"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cli/base/conversation.hpp"
#include "cli/pack/pack_output.hpp"
#include "cli/process/command_process.hpp"
#include "cli/slurm/slurm_job.hpp"
#include "common/os/child.hpp"
#include "common/os/file.hpp"
#include "common/text/archive_names.hpp"
#include "common/text/human.hpp"
#include "common/text/path_names.hpp"
#include "daemon/worker/archive/container.hpp"
#include "daemon/worker/decode/decoder.hpp"

namespace nodestage {
namespace {

constexpr std::chrono::milliseconds k_image_poll{100};
constexpr std::size_t k_most_said = 4096;
constexpr int k_cannot_run = 127;

// A read of a small file would decompress a whole block of it and many others ("fragments"), for
// some percent less of what is hardly compressible, such as pictures: so each file has blocks of
// its own. zstd's level 3 is packed fast, and every level is read as fast.
const std::vector<std::string> k_form = {
    "-noappend",  "-comp",  "zstd",         "-Xcompression-level",
    "3",          "-b",     "128K",         "-no-fragments",
    "-no-xattrs", "-quiet", "-no-progress", "-exit-on-error"};

// The program refuses to take more than three quarters of the host's memory, and would take a
// quarter, on a login node that others use, too.
std::string packing_memory() {
  constexpr std::int64_t k_most_mib = 1024;
  const std::int64_t mib = std::int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE) >> 20;
  return std::to_string(std::clamp<std::int64_t>(mib / 4, 1, k_most_mib)) + "M";
}

// What is packed.
struct ImageSource {
  bool is_directory = true;
  std::string path;
  std::int64_t mtime = 0;  // its own
};

Result<ImageSource> examine_image_source(const std::string& path) {
  TRY_ASSIGN(const struct stat info, examine_source(path));
  const auto mtime = std::clamp<std::int64_t>(info.st_mtim.tv_sec, 0, UINT32_MAX);
  return ImageSource{S_ISDIR(info.st_mode), path, mtime};
}

// The program's words. An image says when it was made: that is the source's time, so that equal
// directories give equal images. (Of a tar, the top directory has the time of now.)
std::vector<std::string> words_for(const ImageSource& source, const std::string& image,
                                   std::optional<std::int64_t> mtime) {
  // "/." follows a link, and no path begins with '-'.
  const std::string directory = (source.path.starts_with('/') ? "" : "./") + source.path + "/.";
  std::vector<std::string> words = {"mksquashfs", source.is_directory ? directory : "-", image};
  words.insert(words.end(), k_form.begin(), k_form.end());
  words.insert(words.end(),
               {"-processors", std::to_string(usable_cpus()), "-mem", packing_memory()});
  if (!source.is_directory) words.insert(words.end(), {"-tar", "-root-mode", "0755"});
  if (mtime) words.insert(words.end(), {"-all-time", std::to_string(*mtime)});
  words.insert(words.end(), {"-mkfs-time", std::to_string(mtime.value_or(source.mtime))});
  return words;
}

// Runs mksquashfs, and writes a tar to its input.
class ImageMaker {
 public:
  explicit ImageMaker(Signals& signals) : signals_(signals) {}

  Status run(const ImageSource& source, const std::string& image,
             std::optional<std::int64_t> mtime) {
    said_ = Fd(::memfd_create("mksquashfs", MFD_CLOEXEC));
    if (!source.is_directory) {
      TRY_ASSIGN(tar_, make_pipe());
    }
    std::vector<std::string> words = words_for(source, image, mtime);
    const pid_t parent = ::getpid();
    TRY_ASSIGN(child_, ChildProcess::start(Orphan::killed, [&] { return become(words, parent); }));
    tar_.read.reset();
    std::thread feeding;
    if (!source.is_directory) feeding = std::thread([this, &source] { feed(source.path); });
    follow();
    stop_ = true;  // it may still read
    if (feeding.joinable()) feeding.join();
    return judge();
  }

  [[nodiscard]] int signal() const { return signal_; }

 private:
  // In the child. A group of its own, so that Ctrl-C reaches this process alone, which ends it.
  int become(std::vector<std::string>& words, pid_t parent) const {
    signals_.restore_in_child();
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) return k_cannot_run;
    const int none = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    ::dup2(tar_.read ? tar_.read.get() : none, STDIN_FILENO);
    ::dup2(none, STDOUT_FILENO);
    ::dup2(said_.get(), STDERR_FILENO);
    // It would make -mkfs-time an error.
    ::unsetenv("SOURCE_DATE_EPOCH");  // it would bound the times of all files
    ::execvp(words.front().c_str(), exec_texts(words).data());
    return k_cannot_run;
  }

  // A tar of which not all could be read has no end for the program: it is ended first.
  void feed(const std::string& path) {
    fed_ = write_tar(path);
    if (fed_) fed_ = close_checked(std::move(tar_.write));
    is_lost_ = !fed_ && fed_.error().code != EPIPE && !is_stopped(fed_.error());
  }

  Status write_tar(const std::string& path) {
    RateLimit rate(-1);
    Meter meter(rate, stop_);
    TRY_ASSIGN(Source source, Source::open(path, meter));
    TRY_ASSIGN(Decoder decoder, Decoder::open(source, {usable_cpus()}));
    TRY_ASSIGN(const Bytes start, decoder.peek());
    if (recognise_container(start) != Container::tar)
      return Error{0, shown(path) + ": is neither a directory nor a tar",
                   "Extract it once, and make the image of the directory."};
    for (;;) {
      TRY_ASSIGN(const Slice block, decoder.next());
      if (block.empty()) return {};
      TRY(write_all(tar_.write.get(), block.bytes()));
    }
  }

  void follow() {
    while (!(status_ = child_.reap())) {
      const auto signal = signals_.next(k_image_poll);
      if (signal && is_deadly(*signal)) signal_ = *signal;
      if (signal_ != 0 || is_lost_) child_.signal_group(SIGKILL);
    }
  }

  // The program needs nothing of what follows a tar's end.
  Status judge() {
    const int code = exit_code_of(*status_);
    if (code == 0) return {};
    if (code == k_cannot_run)
      return Error{ENOENT, "mksquashfs cannot be run, which makes images",
                   "Install the package squashfs-tools, or ask your administrators for it."};
    if (is_lost_) return fed_;
    std::string said(k_most_said, '\0');
    const auto bytes = pread_all(said_.get(), std::as_writable_bytes(std::span(said)), 0);
    said.resize(bytes ? std::min(*bytes, said.find('\n')) : 0);
    if (said.empty()) said = "it has ended with the code " + std::to_string(code);
    return Error{EIO, "mksquashfs: " + printable(said), "Nothing was left behind."};
  }

  Signals& signals_;
  Fd said_;
  Pipe tar_;
  ChildProcess child_;
  std::optional<int> status_;
  int signal_ = 0;
  std::atomic<bool> stop_ = false;
  std::atomic<bool> is_lost_ = false;
  Status fed_;
};

int make_image(const PackArguments& arguments, const ImageSource& source,
               std::optional<std::int64_t> mtime, const PackOutput& place) {
  const auto begun = std::chrono::steady_clock::now();
  auto signals = Signals::open();
  if (!signals) return fault(signals.error().text(), "Try again.");
  const PendingName pending(place.directory.get(), pack_names());
  auto file = pending.create_file(0666);
  if (!file)
    return fault(arguments.output + ": " + file.error().text(), pack_advice(file.error().code));
  ImageMaker maker(*signals);
  Status done = maker.run(source, path_of(place.directory.get()) + "/" + pending.c_str(), mtime);
  if (maker.signal() != 0) {
    fault("stopped by signal " + std::to_string(maker.signal()), "Nothing was left behind.");
    return 128 + maker.signal();
  }
  struct stat info {};
  if (done && ::fstat(file->get(), &info) != 0) done = system_error("fstat");
  if (!done) return fault(arguments.output + ": " + done.error().what, done.error().advice);
  done = put_in_place(std::move(*file), pending, place, arguments.overwrite);
  if (!done)
    return fault(arguments.output + ": " + done.error().text(), pack_advice(done.error().code));
  const auto spent = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - begun);
  std::printf("%s: %s, %s\n", printable(arguments.output).c_str(),
              human_bytes(static_cast<std::uint64_t>(info.st_size)).c_str(),
              human_duration(static_cast<std::uint64_t>(spent.count())).c_str());
  return 0;
}

}  // namespace

int pack_image(const PackArguments& arguments) {
  if (image_suffix(arguments.output).empty())
    return wrong_usage(arguments.output + ": the image's name must end in .sqsh",
                       "Write --image=NAME.sqsh (.squashfs and .sqfs mean the same).");
  if (arguments.links == LinksOut::followed)
    return wrong_usage("--dereference and --image exclude each other",
                       "An image keeps all links. Remove one of the two.");
  const auto mtime = pack_mtime(arguments);
  if (!mtime) return report_pack(mtime.error());
  const auto source = examine_image_source(arguments.directory);
  if (!source) return fault(source.error().what, source.error().advice);
  const auto directory = source->is_directory
                             ? open_at(AT_FDCWD, source->path, O_RDONLY | O_DIRECTORY)
                             : Result<Fd>(Fd());
  if (!directory) return fault(directory.error().text(), "You must be able to read it.");
  const auto place = open_pack_output(arguments, source->is_directory ? directory->get() : -1);
  if (!place) return report_pack(place.error());
  return make_image(arguments, *source, *mtime, *place);
}

}  // namespace nodestage
