#include "cli/doctor/version_text.hpp"

#include <archive.h>
#include <elf.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <linux/seccomp.h>
#include <openssl/crypto.h>
#include <seccomp.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

#include "cli/doctor/commit.hpp"
#include "cli/doctor/plugstack.hpp"
#include "common/build_info.hpp"
#include "common/os/file.hpp"
#include "common/text/human.hpp"
#include "daemon/worker/decode/codec.hpp"

namespace nodestage {
namespace {

bool is_file_system(const char* path, std::uint64_t magic) {
  struct statfs type {};
  return ::statfs(path, &type) == 0 && static_cast<std::uint64_t>(type.f_type) == magic;
}

// 0: not available.
int landlock_abi() {
  const long abi =
      ::syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  return abi > 0 ? static_cast<int>(abi) : 0;
}

bool has_seccomp() {
  const std::uint32_t action = SECCOMP_RET_KILL_PROCESS;
  return ::syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
}

std::string cgroup_text() {
  if (is_file_system("/sys/fs/cgroup", CGROUP2_SUPER_MAGIC)) return "v2";
  if (is_file_system("/sys/fs/cgroup/unified", CGROUP2_SUPER_MAGIC)) return "v1 with v2 beside it";
  return is_file_system("/sys/fs/cgroup", TMPFS_MAGIC) ||
                 is_file_system("/sys/fs/cgroup/memory", CGROUP_SUPER_MAGIC)
             ? "v1"
             : "none";
}

constexpr std::size_t k_max_program_bytes = 64 << 20;

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

std::string landlock_text(int abi) { return abi == 0 ? "no" : "ABI " + std::to_string(abi); }

bool has_openat2() {
  open_how how{};
  const long fd = ::syscall(SYS_openat2, AT_FDCWD, ".", &how, sizeof how);
  if (fd >= 0) ::close(static_cast<int>(fd));
  return fd >= 0 || errno != ENOSYS;
}

Result<PluginFile> read_plugin_file(const std::string& path) {
  TRY_ASSIGN(const Fd fd, open_at(AT_FDCWD, path, O_RDONLY));
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return system_error(path);
  TRY_ASSIGN(const std::string file, read_all(fd.get(), k_max_program_bytes));
  const auto slurm = exported_number(file, "plugin_version");
  if (!slurm) return Error{ENOEXEC, path + ": is not a Slurm plugin"};
  return PluginFile{path, *slurm, exported_number(file, "spank_plugin_version").value_or(0),
                    info.st_ctim};
}

bool exports(const std::string& path, std::string_view function) {
  const auto file = read_file(AT_FDCWD, path, k_max_program_bytes);
  const auto header = file ? header_of(*file) : std::nullopt;
  return header && exported(*file, *header, function);
}

namespace {

// Of the plugin in the line of plugstack.conf, or of the one in the directory of this build.
std::string plugin_text() {
  const auto line = plugstack_line(k_default_plugstack);
  const std::string path =
      plugin_path(line && *line ? (*line)->plugin : k_plugin_name, NODESTAGE_PLUGIN_DIR);
  const auto plugin = read_plugin_file(path);
  return plugin ? "for Slurm " + slurm_release_text(plugin->slurm_version) + ": " + path
                : "none here (" + plugin.error().what + ")";
}

std::string libarchive_text() {
  // Called once, since libarchive 3.6 leaks what its last call returned.
  static const std::string text = archive_version_details();
  const std::string name = "libarchive ";
  return text.starts_with(name) ? text.substr(name.size()) : text;
}

std::string seccomp_library_text() {
  const scmp_version* version = ::seccomp_version();
  return version == nullptr
             ? "not known"
             : std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
                   std::to_string(version->micro);
}

std::string library_text(bool is_there, const std::string& without) {
  return is_there ? "yes" : "not in this build: " + without;
}

std::string kernel_text() {
  utsname names{};
  if (::uname(&names) != 0) return "not known";
  return std::string(names.sysname) + " " + names.release + " " + names.machine;
}

}  // namespace

std::string version_line() { return std::string("nodestage ") + k_version; }

Facts version_facts() {
  Facts facts{{"commit", k_commit[0] == '\0' ? "not known" : k_commit},
              {"compiler", __VERSION__},
              {"plugin", plugin_text()},
              {"libarchive", libarchive_text()}};
  for (auto& library : codec_libraries()) facts.push_back(std::move(library));
  for (const auto& fact : Facts{
           {"OpenSSL", OpenSSL_version(OPENSSL_VERSION_STRING)},
           {"libseccomp", seccomp_library_text()},
           {"systemd", library_text(k_with_systemd, "the daemon reports to no service manager")},
           {"MUNGE", library_text(k_with_munge, "only a key of the cluster proves what nodes say")},
           {"kernel", kernel_text()},
           {"Landlock", landlock_text(landlock_abi())},
           {"seccomp", has_seccomp() ? "yes" : "no"},
           {"openat2", has_openat2() ? "yes" : "no"},
           {"cgroups", cgroup_text()}})
    facts.push_back(fact);
  return facts;
}

std::string facts_text(const Facts& facts) {
  std::size_t width = 0;
  for (const auto& fact : facts) width = std::max(width, fact.first.size());
  std::string text;
  for (const auto& [name, value] : facts)
    text += name + std::string(width - name.size() + 2, ' ') + printable(value) + "\n";
  return text;
}

std::string slurm_release_text(std::uint32_t version) {
  const std::string minor = std::to_string(version >> 8 & 255);
  return std::to_string(version >> 16) + "." + (minor.size() < 2 ? "0" : "") + minor;
}

}  // namespace nodestage
