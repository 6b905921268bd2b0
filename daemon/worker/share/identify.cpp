#include "daemon/worker/share/identify.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <vector>

#include "common/os/file.hpp"
#include "common/text/archive_names.hpp"
#include "common/text/human.hpp"
#include "common/text/part_names.hpp"
#include "common/wire/status_file.hpp"
#include "common/wire/worker_order.hpp"
#include "daemon/worker/basis/fault.hpp"
#include "daemon/worker/piece/dataset_sources.hpp"
#include "daemon/worker/piece/piece.hpp"
#include "daemon/worker/share/dataset_key.hpp"
#include "daemon/worker/share/source_trust.hpp"
#include "daemon/worker/tree/tree_walk.hpp"

namespace nodestage {
namespace {

// Until the rest is known: this process can be ended before.
constexpr const char* k_too_long =
    "it took longer to look at it than this site allows (cache.identify_wait)";

struct Finding {
  SourceIdentity identity;
  std::string name;         // the last part of the destination
  std::uint64_t bytes = 0;  // of the sources
};

Finding not_found(const Error& error) {
  Finding finding;
  finding.identity.why_not = error.what;
  return finding;
}

// A source that was changed lately is known by its bytes, if there are not too many.
template <typename Find>
Finding find_either_way(const ShareRules& rules, Find find) {
  Finding finding = find(rules);
  if (!finding.identity.is_fresh) return finding;
  Finding by_bytes = find(ShareRules{rules.order, rules.umask, ShareIdentity::bytes});
  return by_bytes.identity.key.empty() ? finding : by_bytes;
}

// A directory is known by its looks, so there is no other way to be tried.
void add_directory(ShareKey& key, const DatasetItem& item, const std::string& path, int fd,
                   const ShareRules& rules) {
  const bool is_looked_at = rules.way == ShareIdentity::looks && !key.is_refused();
  add_source(key, path, is_looked_at ? dataset_tree(item, path, fd, rules) : TreeLook());
}

// Hands an item's sources over while they are open. The receiver takes it only if it was complete.
// A descriptor of a file system that a user can have mounted is not handed over: to look at it, or
// to close it, could keep the receiver waiting for that user, for ever.
class Handover {
 public:
  Handover(const ShareRules& rules, const DatasetItem& item, std::size_t index)
      : index_(static_cast<std::uint32_t>(index)),
        is_on_(rules.order.hands_over && rules.way == ShareIdentity::looks &&
               is_for_readers(item)) {}

  // Without a receiver, the item is this user's.
  void add(const std::string& path, int fd) {
    is_on_ = is_on_ && is_of_the_site(fd) && hand_over(k_worker_sources_fd, index_, path, fd);
  }
  void give_up() { is_on_ = false; }
  void end(bool is_group) {
    if (is_on_) is_on_ = static_cast<bool>(end_item(k_worker_sources_fd, index_, is_group));
  }

 private:
  const std::uint32_t index_;
  bool is_on_;
};

Finding find_dataset(const DatasetItem& item, const ShareRules& rules, std::size_t index) {
  const auto found = find_sources(item);
  if (!found) return not_found(found.error());
  Handover handover(rules, item, index);
  if (found->paths.size() > k_most_handed_over) handover.give_up();  // the receiver takes no more
  Finding finding;
  const std::string& first = item.join ? found->whole : found->paths.front();
  finding.name = dataset_name(item, first);
  ShareKey key = dataset_key(item, found->is_group, first, rules);
  for (const auto& path : found->paths) {
    const auto file = open_at(AT_FDCWD, path, k_open_source);
    struct stat info {};
    if (!file || ::fstat(file->get(), &info) != 0)
      return not_found(file ? system_error(path) : file.error());
    if (S_ISDIR(info.st_mode)) {
      handover.give_up();
      add_directory(key, item, path, file->get(), rules);
    } else {
      finding.bytes += static_cast<std::uint64_t>(info.st_size);
      add_source(key, path, file->get());
      if (!key.is_refused()) handover.add(path, file->get());
    }
    if (!key.is_refused()) continue;
    handover.give_up();
    break;
  }
  handover.end(found->is_group);
  finding.identity = key.identity();
  finding.bytes += finding.identity.tree_bytes;
  return finding;
}

// The mode of what is kept for all is not the user's, and what has changed lately may be changed
// again under the same times.
Finding find_opened(const DatasetItem& item, const OpenedItem& opened, const LookOrder& order) {
  std::string first = opened.sources.front().path;
  if (item.join) {
    std::vector<std::string> paths;
    for (const OpenedSource& source : opened.sources) paths.push_back(source.path);
    const auto parts = order_parts(paths, item.source);
    if (!parts) return not_found(parts.error());
    if (parts->paths != paths) return not_found(Error{EINVAL, "its parts are not in order"});
    first = parts->whole;
  }
  const ShareRules rules{order, k_umask_for_all};
  Finding finding;
  finding.name = dataset_name(item, first);
  ShareKey key = dataset_key(item, opened.is_group, first, rules);
  for (const OpenedSource& source : opened.sources) {
    if (const auto look = look_at(source.fd.get())) finding.bytes += look->size;
    add_source(key, source.path, source.fd.get());
  }
  finding.identity = key.identity();
  return finding;
}

// An archive's name or content says so.
Result<VenvSource> venv_source(const std::string& path) {
  if (!archive_suffix(path).empty()) return VenvSource::archive;
  RateLimit rate(-1);  // for the first bytes alone
  const std::atomic<bool> stop = false;
  Meter meter(rate, stop);
  TRY_ASSIGN(const Piece piece, Piece::open(path, Unpacking::of_venv(path), meter, {}));
  return piece.archive() != nullptr ? VenvSource::archive : VenvSource::requirements;
}

Finding find_venv(const VenvItem& item, const ShareRules& rules, std::size_t) {
  const auto file = open_at(AT_FDCWD, item.source, k_open_source);
  struct stat info {};
  if (!file || ::fstat(file->get(), &info) != 0)
    return not_found(file ? system_error(item.source) : file.error());
  const bool is_directory = S_ISDIR(info.st_mode);
  const auto source = is_directory            ? VenvSource::directory
                      : S_ISREG(info.st_mode) ? venv_source(item.source)
                                              : VenvSource::archive;
  if (!source) return not_found(source.error());
  SourceIdentity identity = identify_venv(item, *source, file->get(), rules);
  const std::uint64_t bytes =
      is_directory ? identity.tree_bytes : static_cast<std::uint64_t>(info.st_size);
  return {std::move(identity), last_part(item.destination), bytes};
}

ItemRecord record_of(const std::string& source, std::uint32_t flags, const Finding& finding) {
  ItemRecord record{};
  record.state = static_cast<std::uint32_t>(ItemState::done);
  record.flags = flags | k_item_shared;
  record.bytes_total = finding.bytes;
  if (finding.identity.settles_ms != 0) {
    record.flags |= k_item_unsettled;
    record.ended_ms = finding.identity.settles_ms;
  }
  set_field(record.what, finding.name);
  set_field(record.source, shortened(source, sizeof record.source - 1));
  set_field(record.name, finding.identity.key);
  set_field(record.note, shortened(finding.identity.why_not, sizeof record.note - 1));
  return record;
}

bool has_directory(const DatasetItem& item) {
  const auto sources = all_sources(item);
  return std::any_of(sources.begin(), sources.end(), leads_to_directory);
}

bool has_directory(const VenvItem& item) { return leads_to_directory(item.source); }

std::size_t items_of(const StageRequest& request) {
  return request.datasets.size() + (request.venv ? 1 : 0);
}

// Calls found(index, finding) for each shared item, as soon as it is known. A look at a directory
// can take long, so others come first.
template <typename Found>
void find_each(const IdentifyOrder& order, const StageRequest& request, Found found) {
  const ShareRules rules{order, request.umask};
  const auto add = [&](std::size_t index, const auto& item, auto find, bool directories) {
    const auto& only = order.only_items;
    const bool is_meant = only.empty() || std::find(only.begin(), only.end(), index) != only.end();
    if (!item.shared || !is_meant || has_directory(item) != directories) return;
    found(index,
          find_either_way(rules, [&](const ShareRules& way) { return find(item, way, index); }));
  };
  for (const bool directories : {false, true}) {
    for (std::size_t i = 0; i < request.datasets.size(); ++i)
      add(i, request.datasets[i], find_dataset, directories);
    if (request.venv) add(request.datasets.size(), *request.venv, find_venv, directories);
  }
}

ItemRecord record_of(const StageRequest& request, std::size_t index, const Finding& finding) {
  const bool is_venv = index == request.datasets.size();
  return is_venv ? record_of(request.venv->source, k_item_venv, finding)
                 : record_of(request.datasets[index].source, 0, finding);
}

bool is_shared(const StageRequest& request, std::size_t index) {
  return index == request.datasets.size() ? request.venv->shared : request.datasets[index].shared;
}

Status report_nothing_yet(const StageRequest& request) {
  Finding unknown;
  unknown.identity.why_not = k_too_long;
  for (std::size_t i = 0; i < items_of(request); ++i) {
    ItemRecord record{};
    record.state = static_cast<std::uint32_t>(ItemState::done);
    if (is_shared(request, i)) record = record_of(request, i, unknown);
    TRY(write_status_item(k_worker_status_fd, i, record));
  }
  return {};
}

// `find_all` calls what it is given as find_each() does.
template <typename FindAll>
Status identify(const StageRequest& request, FindAll find_all) {
  TRY(report_nothing_yet(request));
  TRY(write_status_phase(k_worker_status_fd, WorkerPhase::working, items_of(request)));
  Status written;
  find_all([&](std::size_t index, const Finding& finding) {
    if (written)
      written = write_status_item(k_worker_status_fd, index, record_of(request, index, finding));
  });
  TRY(std::move(written));
  return write_status_phase(k_worker_status_fd, WorkerPhase::done, items_of(request));
}

int exit_code(const Status& written) {
  if (!written) log_line("the keys of shared data cannot be reported: " + written.error().text());
  return written ? 0 : 1;
}

}  // namespace

std::vector<SourceIdentity> identities_of(const IdentifyOrder& order, const StageRequest& request) {
  std::vector<SourceIdentity> identities(items_of(request));
  find_each(order, request, [&](std::size_t index, Finding finding) {
    identities[index] = std::move(finding.identity);
  });
  return identities;
}

int run_identify(const IdentifyOrder& order, const StageRequest& request) {
  return exit_code(identify(request, [&](auto found) { find_each(order, request, found); }));
}

int run_look(const LookOrder& order, const StageRequest& request, const OpenedItems& items) {
  return exit_code(identify(request, [&](auto found) {
    for (const auto& [index, opened] : items) {
      if (index < request.datasets.size() && is_for_readers(request.datasets[index]))
        found(index, find_opened(request.datasets[index], opened, order));
    }
  }));
}

// An async item would keep the job waiting, and a choice is made again each time. (Environments
// hold their user's paths, and of a directory the keeper could open nothing.)
bool is_for_readers(const DatasetItem& item) {
  return item.shared && !item.async && item.newest == 0;
}

namespace {

constexpr std::uint64_t k_stat_block = 512;  // of st_blocks

void add(TreeState& state, const struct stat& info) {
  const auto bytes = static_cast<std::uint64_t>(info.st_blocks) * k_stat_block;
  // Each name of a file gets its share.
  state.bytes += S_ISDIR(info.st_mode) || info.st_nlink < 2 ? bytes : bytes / info.st_nlink;
  state.ctime = std::max(state.ctime, nanoseconds(info.st_ctim));
}

Status walk_tree(int fd, TreeState& state) {
  TRY_ASSIGN(Fd root, duplicate(fd));
  TRY_ASSIGN(TreeWalk walk, TreeWalk::begin(std::move(root), WalkFor::looking));
  for (;;) {
    TRY_ASSIGN(const auto step, walk.next());
    if (!step) return {};
    if (step->kind == WalkStep::Kind::fault)
      return Error{step->fault.code, walk.path(*step) + ": " + step->fault.what};
    if (step->kind == WalkStep::Kind::directory_end) continue;
    ++state.files;
    add(state, step->info);
  }
}

Status report(const Result<TreeState>& state) {
  if (!state)
    return write_status_phase(k_worker_status_fd, WorkerPhase::failed, 0, state.error().text());
  ItemRecord record{};
  record.state = static_cast<std::uint32_t>(ItemState::done);
  record.files = state->files;
  record.bytes_total = state->bytes;
  set_field(record.name, ctime_text(state->ctime));
  TRY(write_status_item(k_worker_status_fd, 0, record));
  return write_status_phase(k_worker_status_fd, WorkerPhase::done, 1);
}

}  // namespace

Result<TreeState> state_of_tree(int fd) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return system_error("fstat");
  TreeState state;
  add(state, info);
  if (S_ISDIR(info.st_mode)) TRY(walk_tree(fd, state));
  return state;
}

std::string ctime_text(std::int64_t ctime) {
  char text[48];
  std::snprintf(text, sizeof text, "%lld.%09lld", static_cast<long long>(ctime / k_ns_per_s),
                static_cast<long long>(ctime % k_ns_per_s));
  return text;
}

int run_compare() {
  lower_priority();
  const auto state = state_of_tree(k_worker_directory_fd);
  if (!state) log_line("a kept tree cannot be compared: " + state.error().text());
  const Status reported = report(state);
  if (!reported) log_line("a kept tree's state cannot be reported: " + reported.error().text());
  return state && reported ? 0 : 1;
}

}  // namespace nodestage
