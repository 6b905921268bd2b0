#include "cli/pack/pack_directory.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "cli/base/conversation.hpp"
#include "cli/base/listing.hpp"
#include "cli/pack/frame_writer.hpp"
#include "cli/pack/pack_output.hpp"
#include "cli/process/command_process.hpp"
#include "cli/slurm/slurm_job.hpp"
#include "common/os/child.hpp"
#include "common/os/file.hpp"
#include "common/talk/task_voice.hpp"
#include "common/text/archive_names.hpp"
#include "common/text/human.hpp"
#include "daemon/worker/deliver/output_report.hpp"
#include "daemon/worker/deliver/pack.hpp"
#include "daemon/worker/out/output_target.hpp"
#include "daemon/worker/tree/file_data.hpp"
#include "daemon/worker/tree/pending_file.hpp"
#include "daemon/worker/tree/tree_walk.hpp"

namespace nodestage {
namespace {

constexpr std::chrono::milliseconds k_poll{100};

// PackWatch: what `nodestage pack` does on its own thread while others work: it shows their
// progress, and handles signals.
class PackWatch {
 public:
  // `name`: of what is packed. The signals are borrowed.
  PackWatch(const std::string& name, Signals& signals);

  // Waits for a short time. True: a signal came that ends all, which signal() returns from then on.
  bool was_stopped();
  [[nodiscard]] int signal() const { return signal_; }

  // Shows `progress`, in which the reader or writer has set the bytes and the files.
  void show(Progress progress);
  void clear() { voice_.clear(); }
  [[nodiscard]] std::uint64_t elapsed_ms() const;

 private:
  const std::string name_;
  Signals& signals_;
  TaskVoice voice_;
  const Deadline begun_ = Clock::now();
  int signal_ = 0;
};

PackWatch::PackWatch(const std::string& name, Signals& signals)
    : name_(printable(name)),
      signals_(signals),
      voice_(Speech::aloud, STDERR_FILENO, obeys_escapes(STDERR_FILENO), "pack", k_line_interval) {}

bool PackWatch::was_stopped() {
  const auto signal = signals_.next(std::min(voice_.report_interval(), k_poll));
  const bool is_end = signal && is_deadly(*signal);
  if (is_end) signal_ = *signal;
  if (signal && *signal == SIGTSTP) ::kill(0, SIGSTOP);
  return is_end;
}

void PackWatch::show(Progress progress) {
  progress.phase = ProgressPhase::staging;
  progress.items = 1;
  progress.current = name_;
  progress.elapsed_ms = elapsed_ms();
  voice_.progress(progress);
}

std::uint64_t PackWatch::elapsed_ms() const {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begun_).count());
}

}  // namespace

TreeTotal::TreeTotal(int directory) {
  auto own = open_at(directory, ".", O_PATH | O_DIRECTORY);
  if (!own) return;
  try {
    counting_ = std::thread([this, root = std::move(*own)]() mutable {
      try {
        count(std::move(root));
      } catch (const std::exception&) {  // no memory: it stays unknown
      }
    });
  } catch (const std::system_error&) {  // no thread: the same
  }
}

TreeTotal::~TreeTotal() {
  stop_ = true;
  if (counting_.joinable()) counting_.join();
}

void TreeTotal::count(Fd directory) {
  auto walk = TreeWalk::begin(std::move(directory), WalkFor::looking);
  if (!walk) return;
  std::uint64_t bytes = 0;
  std::set<std::pair<dev_t, ino_t>> named_again;  // files with several names
  while (!stop_) {
    const auto step = walk->next();
    if (!step) return;
    if (!step->has_value()) {
      bytes_ = bytes;
      return;
    }
    const struct stat& info = (*step)->info;
    if ((*step)->kind != WalkStep::Kind::leaf || !S_ISREG(info.st_mode)) continue;
    if (info.st_nlink > 1 && !named_again.emplace(info.st_dev, info.st_ino).second) continue;
    bytes += static_cast<std::uint64_t>(info.st_size);
  }
}

namespace {

std::optional<FrameForm> form_of(const std::string& output) {
  const ArchiveName* name = archive_name(output);
  if (name == nullptr || name->container != Container::tar || !name->is_written) return {};
  if (name->coding == Coding::zstd) return FrameForm::zstd;
  return name->coding == Coding::plain ? std::optional(FrameForm::plain) : std::nullopt;
}

// Returns the last record that OutputReport wrote.
ItemRecord record_of(int status_fd) {
  ItemRecord record{};
  const auto count = pread_all(status_fd, record_bytes(record), k_items_offset);
  if (!count || *count < sizeof record) record = {};
  return record;
}

// Packs one archive: a thread reads the tree, other threads write, and the caller's thread shows
// progress and handles signals.
class Packing {
 public:
  Packing(Fd directory, std::string name, LinksOut links, Signals& signals)
      : directory_(std::move(directory)),
        name_(std::move(name)),
        links_(links),
        status_(::memfd_create("status", MFD_CLOEXEC)),
        report_(status_.get(), 0, OutputItem{name_, ""}),
        watch_(name_, signals) {
    report_.begin("tar", "");
    // What links lead to would be packed beyond the total.
    if (links_ == LinksOut::kept) total_.emplace(directory_.get());
  }

  // If a signal stopped it, signal() returns that signal, and the fault has no meaning.
  Status run(int to, FrameForm form, std::optional<std::int64_t> mtime) {
    TRY_ASSIGN(Pipe tar, make_pipe());
    ::fcntl(tar.write.get(), F_SETPIPE_SZ, 1 << 20);
    writer_ = std::make_unique<FrameWriter>(std::move(tar.read), to, form);
    Status packed;
    Status written;
    std::atomic<int> left = 2;
    std::thread reading([&, into = std::move(tar.write)]() mutable {
      packed = pack(std::move(into), to, mtime);
      --left;
    });
    std::thread writing([&] {
      written = writer_->run(usable_cpus());
      --left;
    });
    while (left > 0) follow();
    reading.join();
    writing.join();
    watch_.clear();
    // If the writer failed by itself, its fault is the reason for the reader's.
    if (!written && written.error().code != ECANCELED) return written;
    return packed;
  }

  [[nodiscard]] int signal() const { return watch_.signal(); }

  [[nodiscard]] std::string summary() const {
    const ItemRecord record = record_of(status_.get());
    std::string text = counted(record.files, "file, ", "files, ") + human_bytes(record.bytes_read) +
                       " in " + human_bytes(writer_->written()) + ", " +
                       human_duration(watch_.elapsed_ms());
    for (const std::string& note :
         {field_text(record.note), out_links_.note(links_, "--dereference", record.bytes_read)})
      if (!note.empty()) text += "; " + note;
    return text;
  }

 private:
  Status pack(Fd into, int file, std::optional<std::int64_t> mtime) {
    TRY_ASSIGN(const auto archive, Pack::begin(into.get(), ".tar", 1, "", report_));
    archive->make_reproducible(mtime);
    archive->look_at_links(links_, out_links_);
    archive->keep_growing();
    archive->keep_modes();
    TRY(archive->leave_out_file(file));
    Status done = archive->contents(std::move(directory_), "");
    if (done) done = archive->finish();
    if (!done) writer_->stop();
    report_.finish(done);
    return done;
  }

  void follow() {
    if (watch_.was_stopped()) writer_->stop();
    const ItemRecord record = record_of(status_.get());
    Progress progress;
    progress.bytes_read = record.bytes_read;
    progress.bytes_total = total_ ? total_->bytes() : 0;
    progress.files = record.files;
    watch_.show(std::move(progress));
  }

  Fd directory_;
  const std::string name_;
  const LinksOut links_;
  OutLinks out_links_;
  const Fd status_;
  OutputReport report_;
  PackWatch watch_;
  std::optional<TreeTotal> total_;
  std::unique_ptr<FrameWriter> writer_;
};

std::string advice_to_read(int code) {
  if (code != EACCES && code != EPERM) return pack_advice(code);
  return "Make it readable, or stage the directory itself without it: exclude=NAME.";
}

int make(const PackArguments& arguments, FrameForm form, std::optional<std::int64_t> mtime,
         Fd directory, const PackOutput& place) {
  auto signals = Signals::open();
  if (!signals) return fault(signals.error().text(), "Try again.");
  const PendingName pending(place.directory.get(), pack_names());
  auto file = pending.create_file(0666);
  if (!file)
    return fault(arguments.output + ": " + file.error().text(), pack_advice(file.error().code));
  Packing packing(std::move(directory), last_part(arguments.directory), arguments.links, *signals);
  Status done = packing.run(file->get(), form, mtime);
  if (packing.signal() != 0) {
    fault("stopped by signal " + std::to_string(packing.signal()), "Nothing was left behind.");
    return 128 + packing.signal();
  }
  if (!done)
    return fault(arguments.output + ": " + done.error().text(), advice_to_read(done.error().code));
  done = put_in_place(std::move(*file), pending, place, arguments.overwrite);
  if (!done)
    return fault(arguments.output + ": " + done.error().text(), pack_advice(done.error().code));
  std::printf("%s: %s\n", printable(arguments.output).c_str(), packing.summary().c_str());
  return 0;
}

}  // namespace

int pack_directory(const PackArguments& arguments) {
  const auto form = form_of(arguments.output);
  if (!form)
    return wrong_usage(arguments.output + ": the archive's name must end in .tar.zst or .tar",
                       "Write -o NAME.tar.zst, which is compressed, or -o NAME.tar.");
  const auto mtime = pack_mtime(arguments);
  if (!mtime) return report_pack(mtime.error());
  auto directory = open_at(AT_FDCWD, arguments.directory, O_RDONLY | O_DIRECTORY);
  if (!directory)
    return fault(directory.error().text(), "DIR must be a directory that you can read.");
  auto place = open_pack_output(arguments, directory->get());
  if (!place) return report_pack(place.error());
  return make(arguments, *form, *mtime, std::move(*directory), *place);
}

}  // namespace nodestage
