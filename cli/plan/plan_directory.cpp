// Examines a directory as a source, by its names and its first files. Changes nothing, and skips
// what it cannot read.
#include <fcntl.h>
#include <fts.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>
#include <vector>

#include "cli/plan/plan.hpp"
#include "common/os/file.hpp"
#include "common/text/human.hpp"
#include "common/text/path_names.hpp"
#include "daemon/worker/basis/fault.hpp"
#include "daemon/worker/budget/space.hpp"
#include "daemon/worker/venv/venv_interpreter.hpp"

namespace nodestage {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds k_walk{10};

struct Seen {
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;
  std::uint64_t unreadable = 0;
  std::string first_unreadable;  // below the source
  bool is_first_own = false;     // it is this user's
  Amount need;
  bool is_whole = true;
  std::uint64_t read_files = 0;
  std::uint64_t read_bytes = 0;
  Clock::duration read_time{};
  OutLinks out_links;
};

// Reads one file's data as a copy would; of a large file, as much as the time allows.
void read_file_data(const char* path, Clock::time_point end, Seen& seen, std::vector<char>& block) {
  const Fd fd(::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return;
  ++seen.read_files;
  ssize_t count = 0;
  while ((count = ::read(fd.get(), block.data(), block.size())) > 0) {
    seen.read_bytes += static_cast<std::uint64_t>(count);
    if (Clock::now() >= end) return;
  }
}

void count_entry(const FTSENT& entry, Seen& seen, std::vector<char>& block) {
  switch (entry.fts_info) {
    case FTS_D:
      seen.need.inodes += 1;
      return;
    case FTS_F:
    case FTS_SL:
    case FTS_SLNONE:
    case FTS_DC:  // a link back to a directory above it
    case FTS_DEFAULT:
      break;
    default:
      return;
  }
  ++seen.files;
  seen.need.inodes += 1;
  if (entry.fts_info != FTS_F) return;
  const auto size = static_cast<std::uint64_t>(entry.fts_statp->st_size);
  seen.bytes += size;
  seen.need.bytes +=
      in_blocks(std::min(size, static_cast<std::uint64_t>(entry.fts_statp->st_blocks) * 512));
  if (seen.read_time >= k_look) return;
  const auto begun = Clock::now();
  read_file_data(entry.fts_accpath, begun + (k_look - seen.read_time), seen, block);
  seen.read_time += Clock::now() - begun;
}

class Walk {
 public:
  Walk(const DirectoryLook& look, Seen& seen) : look_(look), seen_(seen) {}

  void run(const std::string& path) {
    std::vector<std::string> names(std::max<std::size_t>(look_.only.size(), 1), path);
    for (std::size_t i = 0; i < look_.only.size(); ++i) names[i].append("/").append(look_.only[i]);
    std::vector<char*> roots;
    roots.reserve(names.size() + 1);
    for (std::string& name : names) roots.push_back(name.data());
    roots.push_back(nullptr);
    root_size_ = path.size() + (path.ends_with('/') ? 0 : 1);
    // The source itself can be a link, which is followed.
    const int way = FTS_PHYSICAL | FTS_NOCHDIR | (look_.only.empty() ? FTS_COMFOLLOW : 0);
    const std::unique_ptr<FTS, int (*)(FTS*)> tree(::fts_open(roots.data(), way, nullptr),
                                                   ::fts_close);
    const auto end = Clock::now() + k_walk;
    while (FTSENT* entry = tree ? ::fts_read(tree.get()) : nullptr) {
      look_at(tree.get(), *entry);
      if (Clock::now() < end) continue;
      seen_.is_whole = false;
      break;
    }
  }

 private:
  void look_at(FTS* tree, FTSENT& entry) {
    const bool is_behind_link = std::exchange(is_followed_, false);
    if (entry.fts_info == FTS_D)
      entry.fts_number = is_behind_link ? entry.fts_level + 1 : top_of(entry);
    if (is_behind_link) count_behind(entry);
    if (entry.fts_info == FTS_DNR || entry.fts_info == FTS_ERR || entry.fts_info == FTS_NS ||
        (entry.fts_info == FTS_F && is_closed(entry)))
      return add_unreadable(entry);
    if (!is_behind_link && look_at_link(tree, entry)) return;
    if (entry.fts_level > 0 || !look_.only.empty()) count_entry(entry, seen_, block_);
  }

  static bool is_closed(const FTSENT& entry) {
    constexpr mode_t k_for_all = 0444;
    return (entry.fts_statp->st_mode & k_for_all) != k_for_all &&
           ::faccessat(AT_FDCWD, entry.fts_accpath, R_OK, AT_EACCESS) != 0 && errno == EACCES;
  }

  // The level of entries from which no ".." may lead further up: the top, or what a link on the way
  // points to.
  [[nodiscard]] long top_of(const FTSENT& entry) const {
    const long top = look_.only.empty() ? 1 : 0;
    return entry.fts_parent == nullptr ? top : std::max(top, entry.fts_parent->fts_number);
  }

  // Whether the walk returns to the entry with what it points to.
  bool look_at_link(FTS* tree, FTSENT& entry) {
    if (entry.fts_info != FTS_SL) return false;
    const auto depth = static_cast<std::size_t>(entry.fts_level - top_of(entry));
    if (!leads_out(link_text(AT_FDCWD, entry.fts_accpath), depth)) return false;
    is_followed_ = look_.links == LinksOut::followed && ::fts_set(tree, &entry, FTS_FOLLOW) == 0;
    if (!is_followed_) add_kept(entry);
    return is_followed_;
  }

  // A link that leads nowhere or back stays a link.
  void count_behind(const FTSENT& entry) {
    if (entry.fts_info == FTS_SLNONE || entry.fts_info == FTS_DC) {
      add_kept(entry);
    } else {
      seen_.out_links.add_followed();
    }
  }

  void add_kept(const FTSENT& entry) {
    const std::string_view path = entry.fts_path;
    seen_.out_links.add_kept(std::string(path.substr(std::min(root_size_, path.size()))),
                             link_text(AT_FDCWD, entry.fts_accpath));
  }

  void add_unreadable(const FTSENT& entry) {
    const std::string_view path = entry.fts_path;
    std::string name(path.substr(std::min(root_size_, path.size())));
    if (look_.filter != nullptr && look_.filter->excludes(name)) return;
    if (seen_.unreadable++ > 0) return;
    seen_.first_unreadable = std::move(name);
    const bool is_known = entry.fts_info == FTS_DNR || entry.fts_info == FTS_F;
    seen_.is_first_own = is_known && entry.fts_statp->st_uid == ::geteuid();
  }

  const DirectoryLook& look_;
  Seen& seen_;
  std::size_t root_size_ = 0;  // of the paths' start
  bool is_followed_ = false;   // the next entry is what a link points to
  std::vector<char> block_ = std::vector<char>(std::size_t{1} << 20);
};

void set_time(const Seen& seen, unsigned threads, PlanItem& plan) {
  if (seen.read_files == 0) return;
  const double spent = std::chrono::duration<double>(seen.read_time).count();
  const double by_bytes = static_cast<double>(seen.bytes) /
                          static_cast<double>(std::max<std::uint64_t>(seen.read_bytes, 1));
  const double by_files = static_cast<double>(seen.files) / static_cast<double>(seen.read_files);
  const double times = std::max(seen.read_bytes == 0 ? 1 : by_bytes, by_files);
  plan.seconds = std::max(plan.seconds, 0.0) + spent * times / threads;
  plan.time = about_seconds(plan.seconds) + (seen.is_whole ? "" : " at least") + ", as the first " +
              counted(seen.read_files, "file", "files") + " took " +
              human_duration(static_cast<std::uint64_t>(spent * 1000)) +
              " to read one by one on this host now";
}

std::vector<std::string> names_but(const std::string& directory, const EntryFilter& filter) {
  std::vector<std::string> names;
  auto entries = DirectoryStream::at(AT_FDCWD, directory);
  while (const auto name = entries.next()) {
    if (!filter.excludes(std::string(*name))) names.emplace_back(*name);
  }
  return names;
}

}  // namespace

void look_at_directory(const std::string& path, const DirectoryLook& look, PlanItem& plan) {
  Seen seen;
  Walk(look, seen).run(path);
  const Surety surety = seen.is_whole ? Surety::exact : Surety::at_least;
  plan.files = {plan.files.value + seen.files, surety};
  plan.bytes = {plan.bytes.value + seen.bytes, surety};
  plan.source_bytes = plan.bytes;
  plan.need = plan.need + seen.need + Amount{0, 1};
  plan.is_parallel = look.threads > 1;
  plan.reading = "file by file, " + human_count(look.threads) + " at a time";
  set_time(seen, look.threads, plan);
  if (seen.files >= k_many_files && look.only.empty()) {
    plan.advice.push_back("a directory of " + std::string(seen.is_whole ? "" : "more than ") +
                          human_count(seen.files) + " files is slow on a shared file system, " +
                          (plan.is_shared ? "each node reads it once, and each job looks at all of "
                                            "it; an archive takes one look: "
                                          : "and every node reads it: ") +
                          how_to_pack(path));
  }
  const std::string links = seen.out_links.note(look.links, "links=follow", seen.bytes);
  if (!links.empty()) plan.advice.push_back(links);
  if (seen.unreadable > 0) {
    const bool is_one = seen.unreadable == 1;
    const std::string name =
        seen.first_unreadable.empty() ? path : path + "/" + seen.first_unreadable;
    plan.fault = shown(name) +
                 (is_one ? "" : " and " + human_count(seen.unreadable - 1) + " more") +
                 " cannot be read\n";
    plan.fault += seen.is_first_own ? "Make it readable: chmod -R u+rX " + shell_word(shown(name))
                                    : "Leave it out: exclude=" + seen.first_unreadable;
  }
}

void add_amounts(const PlanItem& other, PlanItem& plan) {
  for (const auto member : {&PlanItem::source_bytes, &PlanItem::bytes, &PlanItem::files}) {
    Known& known = plan.*member;
    known = {known.value + (other.*member).value, std::min(known.surety, (other.*member).surety)};
  }
  plan.need = plan.need + other.need;
}

void add_interpreter(const VenvItem& item, unsigned threads, PlanItem& plan) {
  const auto found = interpreter_of_directory(item);
  if (!found) return;
  PlanItem own;
  const EntryFilter unused(0, {}, found->unused());
  look_at_directory(found->library(),
                    {names_but(found->library(), unused), LinksOut::kept, threads}, own);
  add_amounts(own, plan);
  plan.advice.push_back("its interpreter " + shown(found->prefix) + " (about " +
                        human_bytes(own.bytes.value) +
                        ") is staged, too; python=keep leaves it there");
}

}  // namespace nodestage
