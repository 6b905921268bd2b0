#include "cli/doctor/version_text.hpp"

#include <archive.h>
#include <openssl/crypto.h>
#include <seccomp.h>
#include <sys/utsname.h>

#include <algorithm>

#include "cli/doctor/commit.hpp"
#include "cli/doctor/kernel_features.hpp"
#include "cli/doctor/plugin_file.hpp"
#include "cli/doctor/plugstack.hpp"
#include "common/build_info.hpp"
#include "common/text/human.hpp"
#include "daemon/worker/decode/codec.hpp"

namespace nodestage {
namespace {

constexpr const char* k_default_plugstack = "/etc/slurm/plugstack.conf";

// Returns the plugin in the line of plugstack.conf, or the one in the directory of this build.
std::string own_path() {
  const auto line = plugstack_line(k_default_plugstack);
  return plugin_path(line && *line ? (*line)->plugin : k_plugin_name, NODESTAGE_PLUGIN_DIR);
}

std::string plugin_text() {
  const std::string path = own_path();
  const auto plugin = read_plugin_file(path);
  return plugin ? "for Slurm " + slurm_release_text(plugin->slurm_version) + ": " + path
                : "none here (" + plugin.error().what + ")";
}

std::string commit_text() { return k_commit[0] == '\0' ? "not known" : k_commit; }

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
  Facts facts{{"commit", commit_text()},
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
