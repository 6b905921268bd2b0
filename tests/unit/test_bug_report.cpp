#include <archive.h>
#include <doctest/doctest.h>

#include <regex>

#include "cli/doctor/bug_report.hpp"
#include "cli/doctor/plugstack.hpp"
#include "cli/doctor/version_text.hpp"
#include "common/build_info.hpp"
#include "texts.hpp"

using namespace nodestage;

namespace {

PrivateNames names() {
  return {{"alice", "root"}, {"n12.cluster.example", "n12", "big"}, {"/my data/alice"}};
}

std::string redacted(std::string_view text) { return Redactor(names()).redact(text); }

// Every path in a text that is outside of the directories that a report may name.
std::vector<std::string> other_paths(const std::string& text) {
  static const std::regex k_path(R"((^|[\s"'=:(,\[])(/[A-Za-z0-9_.%-]+)[^\s]*)");
  std::vector<std::string> found;
  for (std::sregex_iterator at(text.begin(), text.end(), k_path), end; at != end; ++at) {
    const std::string top = (*at)[2];
    if (top != "/etc" && top != "/usr" && top != "/run" && top != "/var") found.push_back(top);
  }
  return found;
}

}  // namespace

TEST_CASE("redactor: paths") {
  CHECK(redacted("job directories are in /localscratch/x, ext4") ==
        "job directories are in <path-1>, ext4");
  CHECK(redacted("/home/a: full. See /home/b and /home/a.") ==
        "<path-1>: full. See <path-2> and <path-1>.");
  for (const char* kept :
       {"/etc/slurm/plugstack.conf", "at /run/nodestage/nodestaged.sock", "/usr/lib64/slurm/x.so",
        "/var/lib/nodestage", "proctrack/cgroup", "1 GiB/s", "no private /tmp"}) {
    CAPTURE(kept);
    if (std::string_view(kept) != "no private /tmp") CHECK(redacted(kept) == kept);
  }
  CHECK(redacted("no private /tmp") == "no private <path-1>");
  CHECK(redacted("key=/project/p") == "key=<path-1>");
  CHECK(redacted("/usr/../home/x /etcetera") == "<path-1> <path-2>");
  CHECK(redacted("in /my data/alice/secret: full") == "in <path-1>: full");
}

TEST_CASE("redactor: users, hosts, addresses") {
  CHECK(redacted("/var/spool/alice/x") == "/var/spool/<user>/x");
  CHECK(redacted("Alice's alice_1 malice") == "<user>'s <user>_1 malice");
  CHECK(redacted("as root on N12, n12.cluster.example and n123") ==
        "as root on <host>, <host> and n123");
  CHECK(redacted("10.0.0.1:6817 and fe80:0:0:1::2") == "<address>:6817 and <address>");
  CHECK(redacted("libarchive 3.6.2, at 15:30:00") == "libarchive 3.6.2, at 15:30:00");
}

TEST_CASE("redactor: this host's own names") {
  const PrivateNames here = names_here();
  CHECK_FALSE(here.hosts.empty());
  CHECK_FALSE(here.users.empty());
}

TEST_CASE("settings: what can name nothing of a site") {
  const std::string text = settings_text(
      "[tmpdir]\npath = \"/scratch/%u\"\ncreate = \"always\"\n[staging]\nmax_jobs = 2\n"
      "leave_free = \"1GiB\"\n[credit]\nenabled = true\n[venv]\nfind_links = [\"/project/p\"]\n"
      "[peer]\nuser = \"genome\"\naddresses = { n1 = \"10.0.0.1\" }\nSecret = 1\n");
  CHECK(has(text, "tmpdir.path = /scratch/%u\n"));  // the redactor replaces it
  check_has(text, {"tmpdir.create = \"always\"\n", "staging.max_jobs = 2\n",
                   "staging.leave_free = \"1GiB\"\n", "credit.enabled = true\n",
                   "venv.find_links = (a list of 1)\n", "peer.user = (a text)\n",
                   "peer.addresses = (a table of 1)\n", "peer.(a key) = 1\n"});
  CHECK(settings_text("") == "(all defaults)\n");
  CHECK(settings_text("/project/p") == "(not TOML)\n");
}

TEST_CASE("bug report: nothing in it says whose it is, or where") {
  BugReport report{version_facts(),
                   "Debian GNU/Linux 12 (bookworm)",
                   "0.1.0",
                   "xfs",
                   {problem("/localscratch/alice: full on n12", "Look at /home/alice."),
                    ok("nodestaged answers at /run/nodestage/nodestaged.sock")},
                   settings_text("[tmpdir]\npath = \"/localscratch/p-genome/%u.%j\"\n"),
                   {},
                   {}};
  report.slurm = {{"PrologFlags", "Alloc,Contain"},
                  {"TmpFS", "/localscratch/p-genome"},
                  {"Prolog[0]", "/project/p-genome/prolog"},
                  {"Epilog", "(null)"},
                  {"ClusterName", "big"},
                  {"StateSaveLocation", "/home/slurm"}};
  report.line = PlugstackLine{"/etc/slurm/plugstack.conf",
                              true,
                              "/home/alice/spank_nodestage.so",
                              {"begin_wait=5", "venv_environment=P_GENOME", "alice"},
                              {}};
  Redactor redactor(names());
  const std::string text = bug_report_text(report, redactor);
  CAPTURE(text);
  CHECK(other_paths(text).empty());
  for (const char* secret : {"alice", "n12", "genome", "GENOME", "/localscratch", "/home", "big"})
    CHECK_FALSE(has(text, secret));
  for (const char* wanted :
       {"problem  <path-", "answers at /run/nodestage/nodestaged.sock", "Alloc,Contain", "(set)",
        "Epilog", "(not set)", "required <path-", "begin_wait=\"5\"", "xfs", "Debian", "libarchive",
        "venv_environment=(a text) (an argument)"})
    CHECK_MESSAGE(has(text, wanted), wanted);
}

TEST_CASE("bug report: hosts that Slurm's configuration names") {
  const auto hosts = hosts_in({{"ClusterName", "big"},
                               {"SlurmctldHost[0]", "ctl.example(10.0.0.1)"},
                               {"AccountingStorageHost", "(null)"},
                               {"AuthType", "auth/munge"}});
  CHECK(hosts == std::vector<std::string>{"big", "big", "ctl.example", "ctl"});
  CHECK(hosts_in_file("# SlurmctldHost=x\nClusterName=big\nslurmctldhost=ctl(10.0.0.1)\n") ==
        std::vector<std::string>{"big", "big", "ctl", "ctl"});
}

TEST_CASE("bug report: the file system of a directory, and the name of the system") {
  const char* mounts =
      "/dev/a / ext4 rw 0 0\n/dev/b /scratch xfs rw 0 0\n/dev/c /scratch/deep btrfs rw 0 0\n"
      "tmpfs /scratch/deep tmpfs rw 0 0\n";
  CHECK(file_system_of("/scratch", mounts) == "xfs");
  CHECK(file_system_of("/scratch/deep/x", mounts) == "tmpfs");
  CHECK(file_system_of("/scratch2", mounts) == "ext4");
  CHECK(file_system_of("/scratch2", "").empty());
  CHECK(system_name("ID=x\nPRETTY_NAME=\"An OS 1\"\n") == "An OS 1");
  CHECK(system_name("ID=x\n").empty());
}

TEST_CASE("version: each fact has a value, and those that can be checked are right") {
  CHECK(version_line() == std::string("nodestage ") + k_version);
  const Facts facts = version_facts();
  for (const auto& fact : facts) {
    CAPTURE(fact.first);
    CHECK_FALSE(fact.second.empty());
    CHECK_FALSE(has(fact.second, "\n"));
  }
  const auto value_of = [&facts](std::string_view wanted) {
    for (const auto& [name, value] : facts) {
      if (name == wanted) return value;
    }
    return std::string();
  };
  CHECK(std::regex_match(value_of("commit"), std::regex("not known|[0-9a-f]{12,}(-dirty)?")));
  CHECK(value_of("libarchive")
            .starts_with(
                std::string(archive_version_string()).substr(std::string("libarchive ").size())));
  CHECK(has(value_of("zstd"), "."));
  const std::string isal = value_of("ISA-L");
  CHECK((isal.find("built with 2.") != std::string::npos ||
         isal.starts_with("not in this build: zlib 1.")));
  CHECK(value_of("MUNGE").starts_with(k_with_munge ? "yes" : "not in this build: "));
  CHECK(value_of("systemd").starts_with(k_with_systemd ? "yes" : "not in this build: "));
  CHECK(value_of("kernel").starts_with("Linux "));
}

TEST_CASE("version: the text has a line for each fact, and values below each other") {
  CHECK(facts_text({{"a", "1"}, {"long", "2\n3"}}) == "a     1\nlong  2\\x0a3\n");
  CHECK(slurm_release_text(22 << 16 | 5 << 8 | 8) == "22.05");
  CHECK(slurm_release_text(24 << 16 | 11 << 8) == "24.11");
  CHECK(landlock_text(0) == "no");
  CHECK(landlock_text(2) == "ABI 2");
}
