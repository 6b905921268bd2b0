#include "common/text/archive_names.hpp"

#include <algorithm>
#include <vector>

#include "common/text/path_names.hpp"

namespace nodestage {
namespace {

using Use = ArchiveName::Use;

constexpr ArchiveName k_names[] = {
    {".tar", "tar"},
    {".tar.gz", "tar.gz"},
    {".tgz", "tar.gz"},
    {".taz", "tar.gz"},
    {".tar.bz2", "tar.bz2"},
    {".tbz", "tar.bz2"},
    {".tbz2", "tar.bz2"},
    {".tar.xz", "tar.xz"},
    {".txz", "tar.xz"},
    {".tar.zst", "tar.zst"},
    {".tzst", "tar.zst"},
    {".tar.lz4", "tar.lz4"},
    {".tlz4", "tar.lz4"},
    {".tar.lzma", "tar.lzma", Use::extracted, false},
    {".tlz", "tar.lzma", Use::extracted, false},
    {".tar.lz", "tar.lz", Use::extracted, false},
    {".tar.z", "tar.Z", Use::extracted, false},
    {".cpio", "cpio"},
    {".cpio.gz", "cpio.gz"},
    {".cpio.bz2", "cpio.bz2"},
    {".cpio.xz", "cpio.xz"},
    {".cpio.zst", "cpio.zst"},
    {".cpio.lz4", "cpio.lz4"},
    {".cpio.lzma", "cpio.lzma", Use::extracted, false},
    {".cpio.lz", "cpio.lz", Use::extracted, false},
    {".cpio.z", "cpio.Z", Use::extracted, false},
    {".zip", "zip"},
    {".7z", "7z", Use::extracted, false},
    // Other spellings.
    {".tar.gzip", "tar.gz", Use::extracted, false},
    {".tar.bz", "tar.bz2", Use::extracted, false},
    {".tb2", "tar.bz2", Use::extracted, false},
    {".tz2", "tar.bz2", Use::extracted, false},
    {".tar.zstd", "tar.zst", Use::extracted, false},

    {".tar.br", "brotli", Use::refused, false},
    {".tbr", "brotli", Use::refused, false},
    {".tar.lzo", "lzop", Use::refused, false},
    {".tzo", "lzop", Use::refused, false},
    {".tar.lrz", "lrzip", Use::refused, false},
    {".tar.sz", "snzip", Use::refused, false},
    {".tar.zpaq", "zpaq", Use::refused, false},
    {".zpaq", "zpaq", Use::refused, false},
    {".rar", "unrar", Use::refused, false},
    {".arj", "arj", Use::refused, false},
    {".sitx", "unar", Use::refused, false},

    {".npz", "zip", Use::copied, false},
    {".pt", "zip", Use::copied, false},
    {".pth", "zip", Use::copied, false},
    {".ckpt", "zip", Use::copied, false},
    {".keras", "zip", Use::copied, false},
    {".docx", "zip", Use::copied, false},
    {".xlsx", "zip", Use::copied, false},
    {".pptx", "zip", Use::copied, false},
    {".odt", "zip", Use::copied, false},
    {".ods", "zip", Use::copied, false},
    {".odp", "zip", Use::copied, false},
    {".jar", "zip", Use::copied, false},
    {".war", "zip", Use::copied, false},
    {".apk", "zip", Use::copied, false},
    {".whl", "zip", Use::copied, false},
    {".egg", "zip", Use::copied, false},
    {".epub", "zip", Use::copied, false},
    {".kmz", "zip", Use::copied, false},
};

bool is_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// "aa" to "cz", as split(1) names the first 78 parts, but for endings of other files.
bool is_split_ending(std::string_view text) {
  return text.size() == 2 && text[0] >= 'a' && text[0] <= 'c' && text[1] >= 'a' && text[1] <= 'z' &&
         text != "br" && text != "bz";
}

// What follows an archive's suffix in the name of one of its parts: ".001", ".aa", ".part1",
// "-part-aa".
bool is_part_ending(std::string_view text) {
  constexpr std::string_view k_joints = "._-";
  if (k_joints.find(text.front()) == std::string_view::npos) return false;
  text.remove_prefix(1);
  if (!text.starts_with("part")) {
    return is_split_ending(text) || (is_digits(text) && (text.size() == 2 || text.size() == 3));
  }
  text.remove_prefix(4);
  if (!text.empty() && k_joints.find(text.front()) != std::string_view::npos) text.remove_prefix(1);
  return (is_digits(text) && text.size() <= 5) || is_split_ending(text);
}

// Where the name may end and that of a part may begin.
std::vector<std::size_t> part_endings(std::string_view path) {
  constexpr std::size_t k_longest = 12;
  std::vector<std::size_t> endings;
  for (std::size_t at = path.size() - std::min(path.size(), k_longest); at < path.size(); ++at) {
    if (is_part_ending(path.substr(at))) endings.push_back(at);
  }
  return endings;
}

bool is_archive(const ArchiveName& name) { return name.use != Use::copied; }

}  // namespace

std::span<const ArchiveName> archive_names() { return k_names; }

const ArchiveName* archive_name(std::string_view path) {
  const ArchiveName* longest = nullptr;
  for (const ArchiveName& name : k_names) {
    const bool is_longer = longest == nullptr || name.suffix.size() > longest->suffix.size();
    if (is_longer && has_suffix(path, name.suffix)) longest = &name;
  }
  return longest;
}

std::string_view archive_suffix(std::string_view path) {
  const ArchiveName* name = archive_name(path);
  return name != nullptr && is_archive(*name) ? name->suffix : std::string_view();
}

Status check_written_archive(std::string_view suffix) {
  const ArchiveName* name = archive_name(suffix);
  if (name == nullptr || name->is_written || !is_archive(*name)) return {};
  return Error{EINVAL, "archives of the kind " + std::string(suffix) + " cannot be written" +
                           (name->use == Use::extracted ? ", only read" : "")};
}

std::string whole_archive(std::string_view path) {
  path.remove_prefix(path.rfind('/') + 1);
  if (archive_name(path) != nullptr) return {};
  const auto endings = part_endings(path);
  const auto found = std::find_if(endings.begin(), endings.end(), [path](std::size_t at) {
    return !archive_suffix(path.substr(0, at)).empty();
  });
  return std::string(found == endings.end() ? std::string_view() : path.substr(0, *found));
}

bool is_part_name(std::string_view path) { return !part_endings(path).empty(); }

}  // namespace nodestage
