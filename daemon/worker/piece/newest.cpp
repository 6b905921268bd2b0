#include "daemon/worker/piece/newest.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <lzma.h>
#include <zstd.h>

#include <algorithm>
#include <optional>
#include <queue>
#include <tuple>
#include <utility>

#include "common/os/file.hpp"
#include "common/text/archive_names.hpp"
#include "common/text/human.hpp"
#include "common/text/path_names.hpp"
#include "daemon/worker/copy/copy_leaf.hpp"
#include "daemon/worker/decode/zstd_frames.hpp"
#include "daemon/worker/tree/pending_file.hpp"
#include "daemon/worker/tree/tree_walk.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_names_at_once = 8192;
constexpr std::size_t k_named = 4;

bool is_newer(const NewestEntry& a, const NewestEntry& b) {
  const auto rank = [](const NewestEntry& entry) {
    const timespec& time = entry.info.st_mtim;
    return std::tie(time.tv_sec, time.tv_nsec, entry.name);
  };
  return rank(a) > rank(b);
}

// Holds the newest of what was added, never many more.
class Newest {
 public:
  explicit Newest(unsigned count) : count_(count) {}

  void add(std::string name, const struct stat& info) {
    ++among_;
    kept_.push({std::move(name), info});
    if (kept_.size() > count_) kept_.pop();
  }

  [[nodiscard]] NewestChoice take() {
    NewestChoice choice;
    choice.among = among_;
    for (; !kept_.empty(); kept_.pop()) choice.entries.push_back(kept_.top());
    std::reverse(choice.entries.begin(), choice.entries.end());
    return choice;
  }

 private:
  struct Newer {
    bool operator()(const NewestEntry& a, const NewestEntry& b) const { return is_newer(a, b); }
  };
  std::size_t count_;
  std::size_t among_ = 0;
  std::priority_queue<NewestEntry, std::vector<NewestEntry>, Newer> kept_;  // the oldest on top
};

bool is_unfinished_output(const std::string& name) {
  return name.starts_with(".nodestage-") && name.ends_with(".tmp");
}

// A directory that stage-out or a push has begun and not completed: its node was lost, or it is
// still at work.
bool is_unfinished_output(const struct stat& info) {
  return S_ISDIR(info.st_mode) && (info.st_mode & 05777) == k_unfinished_directory;
}

bool can_be_staged(const struct stat& info) {
  return S_ISREG(info.st_mode) || S_ISDIR(info.st_mode);
}

Error nothing_left(const std::string& source, const std::string& why, std::string_view advice) {
  return fault(ENOENT, shown(source) + ": newest= has nothing to choose from: " + why, advice);
}

std::string in_brackets(std::size_t count, const char* one, const char* several) {
  return "(" + counted(count, one, several) + ")";
}

// What a directory holds, for the fault when nothing of it can be chosen.
struct Held {
  std::size_t names = 0;
  std::size_t wanted = 0;  // by include= and exclude=
};

Error nothing_in(const std::string& path, const Held& held) {
  if (held.names == 0)
    return nothing_left(path, "it is empty", "Something must be in it when the job starts");
  if (held.wanted == 0)
    return nothing_left(
        path,
        "include= and exclude= leave out all that is in it " +
            in_brackets(held.names, "entry", "entries"),
        "They are compared with the names that `ls -A " + shell_word(shown(path)) + "` shows");
  return nothing_left(
      path,
      "nothing in it is a file or a directory " + in_brackets(held.wanted, "entry", "entries"),
      "Symbolic links do not count; of a glob's matches they do: " + shell_word(shown(path)) +
          "/*");
}

class DirectoryChoice {
 public:
  explicit DirectoryChoice(const DatasetItem& item)
      : item_(item), filter_(0, item.include, item.exclude), newest_(item.newest) {}

  Result<NewestChoice> run() {
    TRY_ASSIGN(const Fd way, open_source_directory(item_.source));
    const Fd fd(::openat(way.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!fd) return unreadable_source(item_.source, errno);
    for (bool is_more = true; is_more;) {
      auto names = list_directory(fd.get(), k_names_at_once);
      if (!names) return unreadable_source(item_.source, names.error().code);
      is_more = names->size() >= k_names_at_once;
      for (ListedName& name : *names) TRY(look_at(fd.get(), name));
    }
    NewestChoice choice = newest_.take();
    if (choice.entries.empty()) return nothing_in(item_.source, held_);
    return choice;
  }

 private:
  // A name that is gone again never counted.
  Status look_at(int fd, ListedName& listed) {
    if (is_unfinished_output(listed.name)) return {};
    ++held_.names;
    if (!filter_.wants(listed.name)) return {};
    ++held_.wanted;
    if (listed.type == DT_LNK) return {};
    struct stat info {};
    if (::fstatat(fd, listed.name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0)
      return errno == ENOENT ? Status()
                             : Status(unreadable_source(item_.source + "/" + listed.name, errno));
    if (can_be_staged(info) && !is_unfinished_output(info))
      newest_.add(std::move(listed.name), info);
    return {};
  }

  const DatasetItem& item_;
  const EntryFilter filter_;
  Newest newest_;
  Held held_;
};

bool wants_match(const EntryFilter& filter, const std::string& name, const struct stat& info) {
  if (filter.excludes(name)) return false;
  return !S_ISREG(info.st_mode) || !archive_suffix(name).empty() || filter.wants(name);
}

}  // namespace

Result<NewestChoice> newest_in_directory(const DatasetItem& item) {
  return DirectoryChoice(item).run();
}

Result<NewestChoice> newest_of_matches(const DatasetItem& item,
                                       const std::vector<std::string>& paths) {
  const EntryFilter filter(0, item.include, item.exclude);
  Newest newest(item.newest);
  for (const std::string& path : paths) {
    const std::string name = last_part(path);
    struct stat info {};
    if (is_unfinished_output(name)) continue;
    if (::stat(path.c_str(), &info) != 0) {
      if (errno == ENOENT) continue;
      return open_fault(path, errno);
    }
    if (can_be_staged(info) && !is_unfinished_output(info) && wants_match(filter, name, info))
      newest.add(path, info);
  }
  NewestChoice choice = newest.take();
  choice.start = start_of_matches(item.source);
  if (choice.entries.empty())
    return nothing_left(
        item.source, "none of its matches counts " + in_brackets(paths.size(), "match", "matches"),
        "Files and directories count, unless include= and exclude= leave them out");
  return choice;
}

std::string start_of_matches(const std::string& source) {
  return source.substr(0,
                       source.rfind('/', std::min(start_of_glob(source), source.find('\\'))) + 1);
}

Error newest_of_file(const std::string& path) {
  return fault(ENOTDIR,
               shown(path) + ": is a file, and newest= chooses among the entries of a directory",
               "Name its directory, or remove newest=");
}

Error fault_of_chosen(Error error) {
  if (error.code == ENOENT || error.code == ESTALE)
    error.advice =
        "newest= had chosen it, and it was removed before it was copied. Try again; "
        "what removes old entries there must leave those that jobs start with";
  return error;
}

std::vector<std::string> names_of(const NewestChoice& choice) {
  std::vector<std::string> names;
  for (const NewestEntry& entry : choice.entries) {
    const bool has_start = entry.name.starts_with(choice.start);
    names.push_back(entry.name.substr(has_start ? choice.start.size() : 0));
  }
  return names;
}

std::string newest_text(const NewestChoice& choice) {
  const auto names = names_of(choice);
  const std::size_t named = names.size() <= k_named ? names.size() : k_named - 1;
  std::string text =
      "the newest " + human_count(names.size()) + " of " + human_count(choice.among) + ": ";
  for (std::size_t i = 0; i < named; ++i) text += (i == 0 ? "" : ", ") + shown(names[i]);
  if (named < names.size()) text += " and " + human_count(names.size() - named) + " more";
  return text;
}

namespace {

constexpr std::uint64_t k_best_gzip_ratio = 1032;
constexpr std::uint64_t k_gzip_wrap = 1ULL << 32;
constexpr std::uint64_t k_max_xz_index = 64 * 1024 * 1024;
constexpr std::size_t k_zstd_header = 18;               // the longest
constexpr std::uint64_t k_bytes_per_inode = 64 * 1024;  // a guess for archives without an index

const std::uint8_t* as_bytes(const std::string& data) {
  return reinterpret_cast<const std::uint8_t*>(data.data());
}

struct Content {
  std::uint64_t expected;
  std::uint64_t least;
};

// The last member's size modulo 4 GiB. If it is smaller than the file, it has wrapped around if the
// file is large enough for that; otherwise there are several members.
Result<std::optional<Content>> in_gzip(const Source& source) {
  if (source.size() < 18) return std::optional<Content>();
  TRY_ASSIGN(const std::string end, source.text_at(source.size() - 4, 4));
  std::uint64_t last = end.size() < 4 ? 0 : little_endian(end);
  const bool is_size = last >= source.size() && last / k_best_gzip_ratio <= source.size();
  if (is_size) return std::optional(Content{last, last});
  if (source.size() < k_gzip_wrap / 4) return std::optional<Content>();
  while (last < source.size()) last += k_gzip_wrap;
  return std::optional(Content{last, source.size()});
}

// Reads the index of the last stream, which is the only one in nearly all files. Calls use(index)
// if there is one.
template <typename Use>
Status with_xz_index(const Source& source, Use use) {
  constexpr std::size_t k_footer = LZMA_STREAM_HEADER_SIZE;
  if (source.size() < 2 * k_footer) return {};
  const std::uint64_t end = source.size() - k_footer;
  TRY_ASSIGN(const std::string footer, source.text_at(end, k_footer));
  lzma_stream_flags flags{};
  if (footer.size() < k_footer || lzma_stream_footer_decode(&flags, as_bytes(footer)) != LZMA_OK ||
      flags.backward_size > std::min(k_max_xz_index, end)) {
    return {};
  }
  TRY_ASSIGN(const std::string data,
             source.text_at(end - flags.backward_size, flags.backward_size));
  lzma_index* index = nullptr;
  std::uint64_t memory = k_max_xz_index * 4;
  std::size_t at = 0;
  if (lzma_index_buffer_decode(&index, &memory, nullptr, as_bytes(data), &at, data.size()) !=
      LZMA_OK) {
    return {};
  }
  use(index);
  lzma_index_end(index, nullptr);
  return {};
}

Result<std::optional<Content>> in_xz(const Source& source) {
  std::optional<Content> content;
  TRY(with_xz_index(source, [&content](const lzma_index* index) {
    const std::uint64_t size = lzma_index_uncompressed_size(index);
    content = Content{size, size};
  }));
  return content;
}

Result<std::optional<Content>> in_zstd(const Source& source) {
  TRY_ASSIGN(const auto all, content_by_seek_table(source));
  if (all) return std::optional(Content{*all, *all});
  TRY_ASSIGN(const std::string start, source.text_at(0, k_zstd_header));
  const unsigned long long stated = ZSTD_getFrameContentSize(start.data(), start.size());
  if (stated == ZSTD_CONTENTSIZE_UNKNOWN || stated == ZSTD_CONTENTSIZE_ERROR)
    return std::optional<Content>();
  return std::optional(Content{stated, stated});
}

// Empty: the format does not state it.
Result<std::optional<Content>> content_of(const Source& source, Coding coding) {
  if (coding == Coding::gzip) return in_gzip(source);
  if (coding == Coding::xz) return in_xz(source);
  if (coding == Coding::zstd) return in_zstd(source);
  return std::optional<Content>();
}

Need exactly(const Amount& amount) { return {amount, amount}; }

}  // namespace

Need need_of_file(const struct stat& info) {
  const auto size = static_cast<std::uint64_t>(info.st_size);
  const auto stored = static_cast<std::uint64_t>(info.st_blocks) * 512;
  return exactly({in_blocks(std::min(size, stored)), 1});
}

Need need_of(const NewestChoice& choice) {
  Amount sum{0, 1};
  for (const NewestEntry& entry : choice.entries) {
    if (S_ISREG(entry.info.st_mode)) sum = sum + need_of_file(entry.info).expected;
  }
  return exactly(sum);
}

Need need_of_members(const ZipIndex& index, const EntryFilter& filter) {
  Amount sum{0, 1};
  for (std::size_t i = 0; i < index.size(); ++i) {
    const ZipRecord member = index.record(i);
    const auto name = clean_entry_name(member.name());
    if (name && filter.map(*name)) sum = sum + Amount{in_blocks(member.size), 1};
  }
  return exactly(sum);
}

std::uint64_t xz_blocks_of(const Source& source) {
  std::uint64_t blocks = 0;
  const Status looked = with_xz_index(
      source, [&blocks](const lzma_index* index) { blocks = lzma_index_block_count(index); });
  return looked ? blocks : 0;
}

// Several members, streams, or frames contain more than one of them announces.
Result<Need> need_of_archive(const Source& source, Coding coding, Container container) {
  const std::uint64_t size = source.size();
  TRY_ASSIGN(const auto content, content_of(source, coding));
  const bool is_stored = coding == Coding::plain && is_stream(container);
  const std::uint64_t guess = is_stored ? size : more(size, size);
  const std::uint64_t expected = content ? std::max(content->expected, size) : guess;
  const std::uint64_t least = content ? std::max(content->least, size) : size;
  return Need{{expected, 1 + expected / k_bytes_per_inode}, {least, 1}};
}

}  // namespace nodestage
