#include "daemon/worker/venv/venv_relocation.hpp"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <vector>

#include "common/os/file.hpp"
#include "common/text/human.hpp"
#include "common/text/parsing.hpp"
#include "common/text/path_names.hpp"
#include "daemon/worker/basis/fault.hpp"
#include "daemon/worker/tree/job_tree.hpp"
#include "daemon/worker/tree/tree_walk.hpp"
#include "daemon/worker/venv/venv_python.hpp"

namespace nodestage {
namespace {

using Header = ElfW(Ehdr);
using Segment = ElfW(Phdr);
using Dynamic = ElfW(Dyn);

constexpr std::size_t k_max_segments = 256;
constexpr std::size_t k_max_dynamic = 4096;
constexpr std::size_t k_max_path = 8192;

template <typename T>
std::vector<T> read_array(int fd, std::uint64_t offset, std::size_t count) {
  std::vector<T> items(count);
  const auto got = pread_all(fd, std::as_writable_bytes(std::span(items)), offset);
  items.resize(got ? *got / sizeof(T) : 0);
  return items;
}

// The offset in the file of the byte that is loaded to `address`; 0 if there is none.
std::uint64_t file_offset(const std::vector<Segment>& segments, std::uint64_t address) {
  for (const auto& segment : segments) {
    if (segment.p_type == PT_LOAD && address >= segment.p_vaddr &&
        address - segment.p_vaddr < segment.p_filesz) {
      return segment.p_offset + (address - segment.p_vaddr);
    }
  }
  return 0;
}

std::string text_at(int fd, std::uint64_t offset) {
  const auto bytes = read_array<char>(fd, offset, k_max_path);
  const std::string text(bytes.data(), bytes.size());
  return text.substr(0, text.find('\0'));
}

}  // namespace

std::string elf_search_path(int fd) {
  const auto header = read_array<Header>(fd, 0, 1);
  if (header.empty() || std::memcmp(header[0].e_ident, ELFMAG, SELFMAG) != 0 ||
      header[0].e_ident[EI_CLASS] != (sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32) ||
      header[0].e_phentsize != sizeof(Segment) || header[0].e_phnum > k_max_segments) {
    return {};
  }
  const auto segments = read_array<Segment>(fd, header[0].e_phoff, header[0].e_phnum);
  std::vector<Dynamic> dynamic;
  for (const auto& segment : segments) {
    if (segment.p_type != PT_DYNAMIC) continue;
    const std::size_t count = segment.p_filesz / sizeof(Dynamic);
    dynamic = read_array<Dynamic>(fd, segment.p_offset, std::min(count, k_max_dynamic));
  }
  std::uint64_t strings = 0;
  for (const auto& entry : dynamic) {
    if (entry.d_tag == DT_STRTAB) strings = file_offset(segments, entry.d_un.d_ptr);
  }
  std::string path;
  for (const auto& entry : dynamic) {
    if (strings == 0 || (entry.d_tag != DT_RPATH && entry.d_tag != DT_RUNPATH)) continue;
    path += (path.empty() ? "" : ":") + text_at(fd, strings + entry.d_un.d_val);
  }
  return path;
}

namespace {

constexpr std::size_t k_max_text = 8 * 1024 * 1024;
constexpr std::size_t k_max_script = 64 * 1024 * 1024;  // archives after a #! line
constexpr std::size_t k_max_binary = 256 * 1024 * 1024;
constexpr const char* k_new_name = ".nodestage-new";
// The size of a .pyc file's header (PEP 552): magic, flags, then mtime and size of the source or,
// with flag 1, its hash.
constexpr std::size_t k_pyc_header = 16;
constexpr std::uint32_t k_by_hash = 1;

bool is_elf(std::string_view start) { return start.starts_with("\177ELF"); }

std::string_view base_name(std::string_view path) { return split_path(path).name; }

bool is_in_bin(std::string_view path) { return split_path(path).parent == "bin"; }

bool is_in_own_python(std::string_view path) {
  return path.starts_with(k_own_python) && path.substr(k_own_python.size()).starts_with('/');
}

// "lib/python3.11/x/y.py" → "3.11"; "" if the path is not below such a directory.
std::string_view python_version(std::string_view path) {
  if (is_in_own_python(path)) path.remove_prefix(k_own_python.size() + 1);
  const std::size_t start = path.starts_with("lib/python") ? 10 : 12;
  if (start == 12 && !path.starts_with("lib64/python")) return {};
  path.remove_prefix(start);
  const std::size_t slash = path.find('/');
  if (slash == std::string_view::npos) return {};
  const std::string_view version = path.substr(0, slash);
  const bool good =
      !version.empty() && version.find_first_not_of("0123456789.") == std::string_view::npos;
  return good ? version : std::string_view();
}

// "d/x.py" → "d/__pycache__/x.cpython-311.pyc"
std::string compiled_name(const std::string& path) {
  std::string tag = ".cpython-";
  for (const char c : python_version(path)) {
    if (c != '.') tag += c;
  }
  const SplitPath split = split_path(path);
  const std::string stem(split.name.substr(0, split.name.size() - 3));
  return std::string(split.parent) + "/__pycache__/" + stem + tag + ".pyc";
}

// "a/b" and "../c" → "a/c"; empty if the path leads out of the root.
std::optional<std::string> joined(std::string_view directory, std::string_view path) {
  std::vector<std::string_view> names;
  for (std::string_view rest : {directory, path}) {
    while (!rest.empty()) {
      const std::string_view name = take_part(rest, '/');
      if (name.empty() || name == ".") continue;
      if (name != "..") {
        names.push_back(name);
      } else if (names.empty()) {
        return std::nullopt;
      } else {
        names.pop_back();
      }
    }
  }
  std::string result;
  for (const auto name : names) result.append(result.empty() ? "" : "/").append(name);
  return result;
}

Error not_changed(const std::string& path, int code) {
  return fault(code,
               "the environment's file " + shown(path) +
                   ": cannot be rewritten for its new path: " + std::strerror(code),
               "If it happens again, tell your site's support");
}

}  // namespace

WritableDirectory::WritableDirectory(int fd) : fd_(fd) {
  struct stat info {};
  if (::fstat(fd, &info) != 0 || (info.st_mode & 0300) == 0300) return;
  mode_ = info.st_mode & 07777;
  static_cast<void>(!change_mode(fd, mode_ | 0700));
  changed_ = true;
}

WritableDirectory::~WritableDirectory() {
  if (changed_) static_cast<void>(!change_mode(fd_, mode_));
}

namespace {

class VenvRelocation {
 public:
  using Strings = RelocationOptions::Strings;

  // Borrows everything.
  VenvRelocation(int dir_fd, const VenvMove& move, const RelocationOptions& options,
                 const Meter& meter)
      : root_(dir_fd),
        move_(move),
        prefix_(move.from(), move.to(), VenvMove::Match::prefix),
        options_(options),
        meter_(meter) {}

  Result<Relocated> run() {
    TRY_ASSIGN(Fd root, duplicate(root_));
    TRY_ASSIGN(TreeWalk walk, TreeWalk::begin(std::move(root), WalkFor::reading));
    for (;;) {
      TRY(meter_.check());
      TRY_ASSIGN(const auto next, walk.next());
      if (!next) break;
      TRY(step(walk, *next));
    }
    TRY(update_records());
    return Relocated{files_, bytes_, uncompiled(), notes(), listed_ > 0 && matched_ == 0};
  }

 private:
  struct Finding {
    std::uint64_t count = 0;
    std::string first;
  };
  struct Stamp {
    std::uint32_t mtime;
    std::uint32_t size;
    bool operator==(const Stamp&) const = default;
  };

  Status step(const TreeWalk& walk, const WalkStep& step) {
    if (step.kind != WalkStep::Kind::leaf) return {};
    const std::string path = walk.path(step);
    ++files_;
    if (S_ISLNK(step.info.st_mode)) return link(step, path);
    if (!S_ISREG(step.info.st_mode)) return {};
    bytes_ += static_cast<std::uint64_t>(step.info.st_size);
    return file(step, path);
  }

  Status link(const WalkStep& step, const std::string& path) {
    const std::string target = link_text(step.dir_fd, step.name);
    if (target.empty() || is_in_own_python(path)) return {};
    if (const auto own = own_python(path, target); !own.empty()) return link_to(step, path, own);
    std::string to = move_.moved(target);
    const std::string parent(split_path(path).parent);
    if (to.empty() && !target.starts_with('/') && !joined(parent, target)) {
      if (options_.origin.empty()) {
        add(links_, path);
        return {};
      }
      const std::filesystem::path from = options_.origin + "/" + parent;
      to = without_slashes((from / target).lexically_normal());
    }
    const bool is_python =
        is_in_bin(path) && (step.name.starts_with("python") || step.name.starts_with("pypy"));
    if (to.empty() ? target.starts_with('/') : !is_below(to, move_.to())) {
      if (!is_python) add(links_, path);
    }
    return to.empty() ? Status() : link_to(step, path, to);
  }

  Status link_to(const WalkStep& step, const std::string& path, const std::string& target) {
    const WritableDirectory writable(step.dir_fd);
    if (::unlinkat(step.dir_fd, step.name.c_str(), 0) != 0 ||
        ::symlinkat(target.c_str(), step.dir_fd, step.name.c_str()) != 0) {
      return not_changed(path, errno);
    }
    return {};
  }

  // The new text of a link in bin to the interpreter; "" for any other.
  [[nodiscard]] std::string own_python(const std::string& path, const std::string& target) const {
    if (options_.interpreter.empty() || !is_in_bin(path) || target.find('/') == std::string::npos)
      return {};
    const std::string full =
        target.starts_with('/') ? target : move_.from().front() + "/bin/" + target;
    if (real_path(full) != options_.interpreter) return {};
    return std::string(k_to_own_python).append(base_name(options_.interpreter));
  }

  Status file(const WalkStep& step, const std::string& path) {
    const bool is_source = path.ends_with(".py") && !python_version(path).empty();
    if (is_source) {
      sources_[path] = {static_cast<std::uint32_t>(step.info.st_mtim.tv_sec),
                        static_cast<std::uint32_t>(step.info.st_size)};
    }
    if (step.info.st_size == 0) return {};
    constexpr int k_flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
    const auto fd = open_at(step.dir_fd, step.name, k_flags);
    if (!fd) return {};  // nobody uses what its owner may not read
    if (path.ends_with(".pyc")) {
      compiled(path, fd->get());
      return {};
    }
    const auto found = options_.prefixes.find(path);
    if (found != options_.prefixes.end()) return listed(step, path, fd->get(), found->second);
    return content(step, path, fd->get());
  }

  Status content(const WalkStep& step, const std::string& path, int fd) {
    char start[4] = {};
    if (::pread(fd, start, sizeof start, 0) <= 0) return {};
    const bool elf = is_elf(std::string_view(start, sizeof start));
    if (elf) {
      const std::string search = elf_search_path(fd);
      if (moved_text(search, move_) && options_.strings == Strings::keep) add(libraries_, path);
    }
    if (elf && options_.strings == Strings::keep) return {};
    const std::size_t most = options_.strings == Strings::move    ? k_max_binary
                             : start[0] == '#' && start[1] == '!' ? k_max_script
                                                                  : k_max_text;
    if (static_cast<std::uint64_t>(step.info.st_size) > most) return {};
    auto text = read_all(fd, most);
    if (!text) return {};
    auto changed = moved(path, *text);
    learn(path, changed ? *changed : *text);
    return changed ? replace(step, path, *changed) : Status();
  }

  Status listed(const WalkStep& step, const std::string& path, int fd, const PrefixFile& file) {
    ++listed_;
    const MappedFile mapped(fd, static_cast<std::size_t>(step.info.st_size));
    if (!mapped.is_mapped()) return not_changed(path, errno);
    const std::string_view data = mapped.data();
    if (file.mode == PrefixFile::Mode::binary) {
      unsigned left = 0;
      const auto patches = string_patches(data, prefix_, file.placeholder, left);
      if (left > 0) return no_room(path, data, prefix_);
      if (patches.empty()) return {};
      ++matched_;
      return replace(step, path, data, patches);
    }
    const auto changed = data.starts_with("#!") ? moved_script(data, prefix_, options_.env)
                                                : moved_text(data, prefix_);
    if (!changed) return {};
    if (matched_ == 0 && moved_text(data, prefix_)) ++matched_;
    return replace(step, path, *changed);
  }

  std::optional<std::string> moved(const std::string& path, const std::string& content) {
    const std::string_view name = base_name(path);
    if (path == "pyvenv.cfg" && !options_.interpreter.empty())
      return with_venv_setting(moved_text(content, move_).value_or(content), "home",
                               move_.to() + "/" + std::string(k_own_python) + "/bin");
    if (is_in_bin(path) && (name.starts_with("activate") || name.starts_with("Activate")))
      return moved_activate(content, move_);
    if (content.starts_with("#!"))
      return moved_script(content, move_, is_in_bin(path) ? options_.env : EnvPython::keep);
    if (content.find('\0') == std::string::npos) return moved_text(content, move_);
    if (options_.strings == Strings::keep) return std::nullopt;
    unsigned left = 0;
    const auto patches = string_patches(content, move_, 0, left);
    if (left > 0) add(strings_, path);
    if (patches.empty()) return std::nullopt;
    std::string changed = content;
    for (const auto& patch : patches) changed.replace(patch.at, patch.bytes.size(), patch.bytes);
    return changed;
  }

  // Notes what else must be known of it.
  void learn(const std::string& path, const std::string& content) {
    const std::string_view name = base_name(path);
    if (name == "RECORD" && path.find(".dist-info/") != std::string::npos) {
      records_.push_back(path);
    } else if (name == "direct_url.json") {
      const std::string source = editable_source(content);
      if (!source.empty() && !is_below(source, move_.to())) {
        const std::string_view package = base_name(split_path(path).parent);
        outside_[source] = std::string(package.substr(0, package.find('-')));
      }
    } else if (name.ends_with(".pth")) {
      for (const auto& directory : pth_paths(content)) {
        if (!is_below(directory, move_.to())) outside_.emplace(directory, std::string(name));
      }
    }
  }

  void compiled(const std::string& path, int fd) {
    std::string header(k_pyc_header, '\0');
    if (::pread(fd, header.data(), header.size(), 0) != static_cast<ssize_t>(header.size())) return;
    const bool by_hash = (little_endian(std::string_view(header), 4) & k_by_hash) != 0;
    compiled_[path] = by_hash ? Stamp{UINT32_MAX, UINT32_MAX}
                              : Stamp{little_endian(std::string_view(header), 8),
                                      little_endian(std::string_view(header), 12)};
  }

  Status replace(const WalkStep& step, const std::string& path, std::string_view content,
                 const std::vector<StringPatch>& patches = {}) {
    const WritableDirectory writable(step.dir_fd);
    constexpr int k_flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW;
    const auto file = open_at(step.dir_fd, k_new_name, k_flags, 0600);
    if (!file) return not_changed(path, file.error().code);
    Status written = write_all(file->get(), content);
    for (const auto& patch : patches) {
      if (written)
        written = pwrite_all(file->get(), std::as_bytes(std::span(patch.bytes)), patch.at);
    }
    if (!written) return not_changed(path, written.error().code);
    if (::fchmod(file->get(), step.info.st_mode & 0777) != 0 ||
        ::renameat(step.dir_fd, k_new_name, step.dir_fd, step.name.c_str()) != 0) {
      return not_changed(path, errno);
    }
    // What conda has changed has no valid hash in RECORD.
    if (patches.empty()) fresh_[path] = record_hash(content);
    return {};
  }

  Status update_records() {
    if (fresh_.empty()) return {};
    for (const auto& path : records_) TRY(update_record(path));
    return {};
  }

  Status update_record(const std::string& path) {
    const SplitPath split = split_path(path);
    const std::string site(split_path(split.parent).parent);
    const auto directory = open_directory_below(root_, split.parent);
    if (!directory) return not_changed(path, directory.error().code);
    const auto text = read_file(directory->get(), std::string(split.name), k_max_text);
    if (!text) return {};
    const auto updated = updated_record(*text, [&](const std::string& name) {
      const auto file = joined(site, name);
      const auto found = file ? fresh_.find(*file) : fresh_.end();
      return found == fresh_.end() ? std::string() : found->second;
    });
    if (!updated) return {};
    WalkStep step{WalkStep::Kind::leaf, directory->get(), std::string(split.name), {}, {}};
    if (::fstatat(step.dir_fd, step.name.c_str(), &step.info, AT_SYMLINK_NOFOLLOW) != 0)
      return not_changed(path, errno);
    return replace(step, path, *updated);
  }

  static void add(Finding& finding, const std::string& what) {
    if (finding.count++ == 0) finding.first = what;
  }

  [[nodiscard]] std::vector<std::string> uncompiled() const {
    std::vector<std::string> names;
    for (const auto& [path, stamp] : sources_) {
      const auto found = compiled_.find(compiled_name(path));
      const bool by_hash = found != compiled_.end() && found->second.mtime == UINT32_MAX;
      const bool valid = found != compiled_.end() && (by_hash || found->second == stamp);
      if (!valid || fresh_.contains(path)) names.push_back(path);
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  [[nodiscard]] std::vector<std::string> notes() const {
    std::vector<std::string> notes;
    const auto list = [&notes](const Finding& finding, const char* what, const char* advice) {
      if (finding.count == 0) return;
      const std::string others =
          finding.count == 1 ? "" : " and " + human_count(finding.count - 1) + " more";
      notes.push_back(shown(finding.first) + others + " " + what + " (" + advice + ")");
    };
    if (!outside_.empty()) {
      const auto& [source, package] = *outside_.begin();
      const std::string others =
          outside_.size() == 1 ? "" : ", and " + human_count(outside_.size() - 1) + " more";
      notes.push_back(shown(package) + " is still read from " + shown(source) + others +
                      " (install it without -e to have it here)");
    }
    list(libraries_, "look for libraries in the old directory (RPATH)",
         "make the environment from wheels, or give requirements.txt");
    list(strings_, "still contain the old path", "choose a shorter destination");
    list(links_, "lead out of the environment", "copy what they lead to into it");
    return notes;
  }

  const int root_;
  const VenvMove& move_;
  const VenvMove prefix_;  // the same, in the files of options_.prefixes
  const RelocationOptions& options_;
  const Meter& meter_;
  std::uint64_t files_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint64_t listed_ = 0;   // files of options_.prefixes
  std::uint64_t matched_ = 0;  // those among them that contained the path
  std::vector<std::string> records_;
  std::unordered_map<std::string, std::string> fresh_;  // rewritten file → "sha256=...,SIZE"
  std::unordered_map<std::string, Stamp> sources_;      // .py files below lib/pythonX.Y
  std::unordered_map<std::string, Stamp> compiled_;     // .pyc → its source
  std::map<std::string, std::string> outside_;  // editable sources → the packages that name them
  Finding libraries_;
  Finding strings_;
  Finding links_;
};

}  // namespace

Result<Relocated> relocate_environment(int dir_fd, const VenvMove& move,
                                       const RelocationOptions& options, const Meter& meter) {
  return VenvRelocation(dir_fd, move, options, meter).run();
}

}  // namespace nodestage
