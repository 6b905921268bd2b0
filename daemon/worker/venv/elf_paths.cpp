#include "daemon/worker/venv/elf_paths.hpp"

#include <elf.h>
#include <link.h>

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "common/os/file.hpp"

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

}  // namespace nodestage
