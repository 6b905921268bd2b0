#include "cli/doctor/plugin_file.hpp"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <cstring>
#include <optional>
#include <string_view>

#include "common/os/file.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_max_bytes = 64 << 20;

// The record at an offset of the file, if it is complete.
template <typename T>
std::optional<T> record_at(std::string_view file, std::uint64_t offset) {
  if (offset > file.size() || file.size() - offset < sizeof(T)) return {};
  T record;
  std::memcpy(&record, file.data() + offset, sizeof record);
  return record;
}

std::optional<Elf64_Shdr> section(std::string_view file, const Elf64_Ehdr& header,
                                  unsigned number) {
  return record_at<Elf64_Shdr>(file, header.e_shoff + std::uint64_t{number} * header.e_shentsize);
}

// Returns the file offset of a virtual address.
std::optional<std::uint64_t> offset_of(std::string_view file, const Elf64_Ehdr& header,
                                       std::uint64_t address) {
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    const auto part =
        record_at<Elf64_Phdr>(file, header.e_phoff + std::uint64_t{i} * header.e_phentsize);
    if (part && part->p_type == PT_LOAD && address >= part->p_vaddr &&
        address - part->p_vaddr < part->p_filesz)
      return part->p_offset + (address - part->p_vaddr);
  }
  return {};
}

std::string_view text_at(std::string_view file, std::uint64_t offset) {
  if (offset >= file.size()) return {};
  const std::string_view rest = file.substr(offset);
  return rest.substr(0, rest.find('\0'));
}

std::optional<Elf64_Ehdr> header_of(std::string_view file) {
  const auto header = record_at<Elf64_Ehdr>(file, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return {};
  return header;
}

// What the file exports by that name.
std::optional<Elf64_Sym> exported(std::string_view file, const Elf64_Ehdr& header,
                                  std::string_view name) {
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    const auto symbols = section(file, header, i);
    if (!symbols || symbols->sh_type != SHT_DYNSYM) continue;
    const auto names = section(file, header, symbols->sh_link);
    if (!names) return {};
    for (std::uint64_t at = 0; at + sizeof(Elf64_Sym) <= symbols->sh_size;
         at += sizeof(Elf64_Sym)) {
      const auto symbol = record_at<Elf64_Sym>(file, symbols->sh_offset + at);
      if (!symbol) return {};
      if (symbol->st_shndx != SHN_UNDEF &&
          text_at(file, names->sh_offset + symbol->st_name) == name)
        return symbol;
    }
  }
  return {};
}

// Returns the value of a 32-bit constant that the file exports.
std::optional<std::uint32_t> exported_number(std::string_view file, std::string_view name) {
  const auto header = header_of(file);
  const auto symbol = header ? exported(file, *header, name) : std::nullopt;
  const auto offset = symbol ? offset_of(file, *header, symbol->st_value) : std::nullopt;
  return offset ? record_at<std::uint32_t>(file, *offset) : std::nullopt;
}

}  // namespace

Result<PluginFile> read_plugin_file(const std::string& path) {
  TRY_ASSIGN(const Fd fd, open_at(AT_FDCWD, path, O_RDONLY));
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return system_error(path);
  TRY_ASSIGN(const std::string file, read_all(fd.get(), k_max_bytes));
  const auto slurm = exported_number(file, "plugin_version");
  if (!slurm) return Error{ENOEXEC, path + ": is not a Slurm plugin"};
  return PluginFile{path, *slurm, exported_number(file, "spank_plugin_version").value_or(0),
                    info.st_ctim};
}

bool exports(const std::string& path, std::string_view function) {
  const auto file = read_file(AT_FDCWD, path, k_max_bytes);
  const auto header = file ? header_of(*file) : std::nullopt;
  return header && exported(*file, *header, function);
}

}  // namespace nodestage
