#include "daemon/worker/stage/dataset.hpp"

#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>

#include <algorithm>

#include "common/os/wall_clock.hpp"
#include "common/request/destinations.hpp"
#include "common/request/option_text.hpp"
#include "common/text/human.hpp"
#include "common/text/path_names.hpp"
#include "daemon/worker/basis/log.hpp"
#include "daemon/worker/read/source.hpp"
#include "daemon/worker/tree/dir_stack.hpp"

namespace nodestage {
namespace {

constexpr std::string_view k_job_directory = ".";
constexpr double k_alike = 0.75;  // matches of a glob are assumed this much like the first one

thread_local int glob_fault = 0;  // what stopped the search; glob() itself does not report it

// As in a shell, an unreadable directory contains no match. Other faults stop the search.
int is_serious(const char*, int code) {
  glob_fault = code;
  return code != EACCES && code != ENOENT && code != ENOTDIR;
}

Result<std::vector<std::string>> glob_matches(const std::string& pattern) {
  glob_t found{};
  const int status = ::glob(pattern.c_str(), 0, is_serious, &found);
  std::vector<std::string> paths(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  if (status == 0) return paths;
  if (status == GLOB_NOMATCH) {
    return fault(ENOENT, shown(pattern) + ": no file matches", "Check it: ls -d " + shown(pattern));
  }
  return with_suffix(open_fault(pattern, status == GLOB_NOSPACE ? ENOMEM : glob_fault),
                     ": a directory on the path cannot be read");
}

Amount scaled(const Amount& amount, double times) {
  const auto scale = [times](std::uint64_t value) {
    return static_cast<std::uint64_t>(std::min(static_cast<double>(value) * times, 1e18));
  };
  return {scale(amount.bytes), scale(amount.inodes)};
}

}  // namespace

Dataset::Dataset(const DatasetItem& item, std::size_t index, const StageContext& context,
                 const VenvItem* venv)
    : item_(item),
      index_(index),
      context_(context),
      venv_(venv),
      meter_(context.rate, context.stop),
      space_(k_worker_directory_fd, context.allowance) {}

Status Dataset::plan() {
  if (is_venv() && !context_.order.refuse_venv.empty())
    return Error{EPERM, context_.order.refuse_venv};
  TRY(find_sources());
  TRY(measure());
  if (!item_.destination.empty()) return claim(item_.destination, item_.source);
  if (is_group_) set_destination(std::string(k_job_directory));
  return item_.async && !is_group_ ? learn_destination() : Status();
}

Status Dataset::find_sources() {
  struct stat info {};
  is_group_ = !is_venv() && is_glob(item_.source) && ::stat(item_.source.c_str(), &info) != 0;
  if (!is_group_) {
    sources_ = {item_.source};
    return {};
  }
  TRY_ASSIGN(sources_, glob_matches(item_.source));
  return {};
}

Status Dataset::measure() {
  bool all_files = true;
  for (const auto& source : sources_) {
    TRY_ASSIGN(const struct stat info, examine_source(source));
    source_bytes_ += static_cast<std::uint64_t>(info.st_size);
    all_files = all_files && S_ISREG(info.st_mode);
  }
  meter_.bytes_total = all_files ? source_bytes_ : 0;
  return {};
}

// Assumes that a glob's matches are like the first one.
Status Dataset::weigh() {
  if (!item_.destination.empty() && context_.workspace.is_placed(item_.destination)) return {};
  TRY_ASSIGN(Piece piece, Piece::open(sources_.front(), item_, meter_, context_.limits));
  if (!is_group_ && context_.workspace.is_placed(piece.default_name())) return {};
  TRY_ASSIGN(need_, piece.need());
  if (sources_.size() > 1 && piece.size() > 0) {
    const double times = static_cast<double>(source_bytes_) / static_cast<double>(piece.size());
    need_ = {scaled(need_.expected, times), scaled(need_.least, times * k_alike)};
  }
  // Datasets that start at once continue with the open source. For others it would waste memory.
  if (index_ < context_.at_once) {
    first_ = std::move(piece);
  } else {
    meter_.bytes_read = 0;
  }
  return {};
}

Status Dataset::ask() {
  const bool is_sure = need_.least.bytes >= need_.expected.bytes;
  Status asked =
      context_.allowance.ask(need_, source() + (is_sure ? ": needs" : ": needs at least"));
  if (!asked) need_ = {};
  return asked;
}

Result<Piece> Dataset::open_piece(const std::string& source) {
  if (first_ && source == sources_.front()) return *std::exchange(first_, std::nullopt);
  return Piece::open(source, item_, meter_, context_.limits);
}

Status Dataset::learn_destination() {
  Meter uncounted(context_.rate, context_.stop);
  TRY_ASSIGN(const Piece piece, Piece::open(sources_.front(), item_, uncounted, {}));
  return claim(piece.default_name(), sources_.front());
}

Status Dataset::claim(const std::string& destination, const std::string& source) {
  if (!is_path_below(destination)) {
    return fault(EINVAL, shown(source) + ": its destination's name cannot be derived from this",
                 "Give it one: --stage-dataset=SOURCE:DEST");
  }
  TRY(context_.workspace.claim(destination, source));
  if (!is_group_ || !item_.destination.empty()) set_destination(destination);
  return {};
}

Status Dataset::run() {
  {
    const std::lock_guard lock(mutex_);
    state_ = ItemState::working;
    begun_ = Clock::now();
  }
  set_note("");
  if (!item_.destination.empty() && keep_placed(item_.destination)) return {};
  if (item_.async) {
    TRY(weigh());
    TRY(ask());
  }
  TRY_ASSIGN(const Fd item_fd, context_.workspace.make_item(index_));
  if (is_group_ && !item_.destination.empty()) return stage_group(item_fd.get());
  for (const auto& source : sources_) TRY(stage_one(item_fd.get(), source));
  return {};
}

// Stages all matches into one directory, which is then renamed into place.
Status Dataset::stage_group(int item_fd) {
  if (::mkdirat(item_fd, "all", 0777) != 0) return space_.explain("all", errno);
  auto all = open_directory_at(item_fd, "all");
  if (!all) return space_.explain("all", all.error().code);
  for (const auto& source : sources_) {
    TRY_ASSIGN(Piece piece, open_piece(source));
    const std::string name = piece.default_name();
    const auto [first, is_new] = names_.emplace(name, source);
    if (!is_new) {
      return fault(EEXIST,
                   shown(first->second) + " and " + shown(source) + " would both become '" +
                       shown(name) + "'",
                   "Give one of them another destination: --stage-dataset=SOURCE:DEST");
    }
    TRY(build(piece, all->get(), name));
  }
  return context_.workspace.place(item_fd, "all", item_.destination);
}

Status Dataset::stage_one(int item_fd, const std::string& source) {
  TRY_ASSIGN(Piece piece, open_piece(source));
  const bool is_claimed = variable().has_value() && !is_group_;
  const std::string destination =
      item_.destination.empty() ? piece.default_name() : item_.destination;
  if (!is_claimed) TRY(claim(destination, source));
  if (keep_placed(destination)) return {};
  TRY(build(piece, item_fd, "one"));
  return context_.workspace.place(item_fd, "one", destination);
}

// The log of a build is placed beside the environment, also if the build failed.
Status Dataset::build_venv(Piece& piece, int dir_fd, const std::string& name) {
  set_kind(Venv::kind(piece));
  Venv venv(*venv_, context_.order, meter_, *context_.builder, context_.stop,
            [this](const std::string& text) { set_note(text); });
  Status made = venv.make(piece, {dir_fd, name, context_.umask, space_});
  set_note("");
  const auto logs = open_directory_at(dir_fd, Venv::k_log_directory);
  if (logs && venv.has_log()) {
    static_cast<void>(
        !context_.workspace.place(logs->get(), Venv::k_log_name, item_.destination + ".log"));
  }
  add_note(venv.note());
  return made;
}

Status Dataset::build(Piece& piece, int dir_fd, const std::string& name) {
  if (is_venv()) return build_venv(piece, dir_fd, name);
  set_kind(piece.kind());
  TRY(piece.build({dir_fd, name, context_.umask, space_}));
  add_note(piece.note());
  if (!is_group_) add_note(piece.idle_globs());
  return {};
}

bool Dataset::keep_placed(const std::string& destination) {
  if (!context_.workspace.is_placed(destination)) return false;
  add_note("already in place");
  return true;
}

void Dataset::end(const Status& status) {
  context_.workspace.remove_item(index_);
  first_.reset();
  space_.settle(need_.expected);
  const std::lock_guard lock(mutex_);
  ended_ = Clock::now();
  state_ = status ? ItemState::done : ItemState::failed;
  if (!status) note_ = status.error().what;
  if (status || !is_stopped(status.error())) {
    log_line((is_venv() ? "venv " : "dataset ") + item_.source +
             (status ? ": done" : ": failed: " + status.error().what));
  }
}

void Dataset::leave_out(const Error& refusal) {
  need_ = {};
  end(refusal);
}

std::string Dataset::name() const {
  if (is_venv()) return "the environment";
  return "dataset '" + shown(item_.name.empty() ? destination_of(item_) : item_.name) + "'";
}

bool Dataset::is_needed() const {
  return !item_.optional && !item_.async && context_.order.on_failure == OnFailure::fail;
}

std::optional<Dataset::Variable> Dataset::variable() const {
  const std::lock_guard lock(mutex_);
  if (destination_.empty() || state_ == ItemState::failed) return std::nullopt;
  const bool is_whole = destination_ == k_job_directory;
  return Variable{is_venv() ? "NODESTAGE_VENV" : "NODESTAGE_DATASET_" + short_name(),
                  context_.order.directory + (is_whole ? "" : "/" + destination_)};
}

// Uses the likely destination while the final one is not known.
std::string Dataset::short_name() const {
  if (!item_.name.empty()) return variable_name(item_.name);
  const bool is_known = !destination_.empty() && destination_ != k_job_directory;
  return variable_name(is_known ? destination_ : destination_of(item_));
}

ItemRecord Dataset::record() const {
  const std::lock_guard lock(mutex_);
  ItemRecord record{};
  record.state = static_cast<std::uint32_t>(state_);
  record.flags = (item_.async ? k_item_async : 0) |
                 (is_needed() || item_.async ? 0 : k_item_optional) | (is_venv() ? k_item_venv : 0);
  record.bytes_total = meter_.bytes_total;
  record.bytes_read = meter_.bytes_read;
  // Some parts of a zip or 7z file are read twice.
  if (record.bytes_total > 0) record.bytes_read = std::min(record.bytes_read, record.bytes_total);
  record.bytes_written = meter_.bytes_written;
  record.files = meter_.files;
  if (begun_) {
    const auto spent = ended_.value_or(Clock::now()) - *begun_;
    record.elapsed_ms = static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::milliseconds>(spent).count());
    record.begun_ms = wall_ms(*begun_);
    // Some bytes are read earlier, to learn the need; for a small source that is all of it.
    const Clock::time_point read_to = meter_.last_read;
    if (read_to != Clock::time_point()) record.read_to_ms = wall_ms(std::max(read_to, *begun_));
    if (ended_) record.ended_ms = wall_ms(*ended_);
  }
  const std::string kind =
      sources_.size() > 1 ? human_count(sources_.size()) + " × " + kind_ : kind_;
  set_field(record.what, kind_.empty() ? kind_ : kind);
  set_field(record.source, shortened(item_.source, sizeof record.source - 1));
  const bool is_whole = destination_.empty() || destination_ == k_job_directory;
  const std::string destination =
      is_whole ? context_.order.directory : context_.order.directory + "/" + destination_;
  set_field(record.destination, shortened(destination, sizeof record.destination - 1));
  set_field(record.name, short_name());
  set_field(record.note, shortened(note_, sizeof record.note - 1));
  return record;
}

void Dataset::set_note(const std::string& text) {
  const std::lock_guard lock(mutex_);
  note_ = text;
}

void Dataset::add_note(const std::string& text) {
  const std::lock_guard lock(mutex_);
  if (text.empty() || note_.find(text) != std::string::npos) return;
  if (!note_.empty()) note_ += "; ";
  note_ += text;
}

void Dataset::set_kind(const std::string& kind) {
  const std::lock_guard lock(mutex_);
  kind_ = kind_.empty() || kind_ == kind ? kind : "sources";
}

void Dataset::set_destination(const std::string& destination) {
  const std::lock_guard lock(mutex_);
  destination_ = destination;
}

}  // namespace nodestage
