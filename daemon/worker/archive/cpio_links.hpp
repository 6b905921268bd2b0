// CpioLinks: the name under which a file of a cpio archive came first.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace nodestage {

class CpioLinks {
 public:
  // What all names of one file have in common.
  struct File {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    // For forms whose inode numbers are too short for today's file systems, so that different files
    // have the same number. In these forms, each name has its file's data.
    std::uint64_t mode = 0;
    std::uint64_t mtime = 0;
    std::uint64_t size = 0;
    auto operator<=>(const File&) const = default;
  };

  // For a file that claims `links` (more than 1) names: returns the name given to the first call
  // for it, or "" if this is the first. Empty: no memory for more. A file is remembered until all
  // of its names have come, or another file takes its first name.
  std::optional<std::string> first_name(const File& file, std::uint64_t links,
                                        const std::string& name) {
    const auto known = files_.find(file);
    if (known == files_.end()) {
      forget(name);
      if (bytes_ + bytes_of(name) > k_most_bytes) return std::nullopt;
      bytes_ += bytes_of(name);
      const auto added = files_.emplace(file, Names{name, links - 1}).first;
      firsts_.emplace(added->second.first, added);
      return "";
    }
    std::string first = known->second.first;
    if (first != name) forget(name);
    if (--known->second.to_come == 0) forget(first);
    return first;
  }

  // Another entry has this name from now on.
  void forget(const std::string& name) {
    const auto found = firsts_.find(name);
    if (found == firsts_.end()) return;
    bytes_ -= bytes_of(name);
    const auto file = found->second;
    firsts_.erase(found);
    files_.erase(file);
  }

  // Enough for a million files with names of 50 bytes.
  static constexpr std::size_t k_most_bytes = std::size_t{256} << 20U;

 private:
  struct Names {
    std::string first;
    std::uint64_t to_come;
  };
  // A node of each map with the allocator's overhead; long names count separately.
  static std::size_t bytes_of(const std::string& name) { return 208 + name.size(); }

  // Not hashes: the author of an archive chooses the numbers.
  std::map<File, Names> files_;
  std::map<std::string_view, std::map<File, Names>::iterator> firsts_;
  std::size_t bytes_ = 0;
};

}  // namespace nodestage
