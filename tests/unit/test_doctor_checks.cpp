#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <filesystem>
#include <fstream>

#include "cli/doctor/checks.hpp"
#include "cli/doctor/plugstack.hpp"
#include "cli/doctor/version_text.hpp"
#include "common/os/file.hpp"
#include "common/wire/node_report.hpp"
#include "scratch.hpp"
#include "texts.hpp"

using namespace nodestage;

namespace {

constexpr std::uint32_t k_22_05 = 22 << 16 | 5 << 8;

PlugstackLine line_of(const char* text) {
  const Scratch scratch;
  std::ofstream(scratch / "plugstack.conf") << text;
  auto line = must(plugstack_line(scratch / "plugstack.conf"));
  REQUIRE(line);
  return *line;
}

}  // namespace

TEST_CASE("doctor: Slurm's configuration and version") {
  const SlurmConfig known = parse_slurm_config(
      "Configuration data as of 2026-11-21T22:00:00\nPrologFlags             = Alloc,Contain\n"
      "SLURM_CONF              = /etc/slurm/slurm.conf\nJobContainerType        = (null)\n");
  CHECK(known.at("PrologFlags") == "Alloc,Contain");
  CHECK(known.at("SLURM_CONF") == "/etc/slurm/slurm.conf");
  CHECK(slurm_release_of("slurm-wlm 22.05.8") == k_22_05);
  CHECK(slurm_release_of("slurm 24.11.5") == (24 << 16 | 11 << 8));
  CHECK(slurm_release_of("") == 0);
  CHECK(slurm_release_of("slurm 24") == 0);
}

TEST_CASE("doctor: a plugin for another Slurm is a problem") {
  PluginFile plugin{"/p/spank_nodestage.so", k_22_05 | 8, 1000, {}};
  CHECK(judge_plugin(plugin, k_22_05).grade == Grade::ok);
  const Finding wrong = judge_plugin(plugin, 23 << 16 | 2 << 8);
  CHECK(wrong.grade == Grade::problem);
  CHECK(wrong.what == "/p/spank_nodestage.so is for Slurm 22.05, but this host's is 23.02");
  CHECK(has(wrong.to_do, "23.02"));
  CHECK(judge_plugin(plugin, 0).grade == Grade::warning);
}

TEST_CASE("doctor: the plugin's own file is no plugin when it is something else") {
  const Scratch scratch;
  CHECK_FALSE(read_plugin_file(scratch / "none.so"));
  std::ofstream(scratch / "text.so") << "no ELF";
  CHECK_FALSE(read_plugin_file(scratch / "text.so"));
  // Cut off anywhere, a real one is refused or read, never overrun.
  std::ifstream self("/proc/self/exe", std::ios::binary);
  std::string bytes(200'000, '\0');
  self.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  for (const std::size_t size : {16U, 63U, 64U, 100U, 1000U, 5000U, 200'000U}) {
    std::ofstream(scratch / "cut.so", std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(size));
    CHECK_FALSE(read_plugin_file(scratch / "cut.so"));
  }
}

TEST_CASE("doctor: the line in plugstack.conf, also an included one") {
  const Scratch scratch;
  std::filesystem::create_directory(scratch / "d");
  std::ofstream(scratch / "plugstack.conf")
      << "# required spank_nodestage.so\nrequired other.so\ninclude " << (scratch / "d/*.conf")
      << "\n";
  auto none = must(plugstack_line(scratch / "plugstack.conf"));
  CHECK_FALSE(none);
  CHECK(judge_line(none, "P").grade == Grade::problem);
  std::ofstream(scratch / "d/a.conf")
      << "  required /x/spank_nodestage.so begin_wait=3 progress=no # a\n";
  auto found = plugstack_line(scratch / "plugstack.conf");
  REQUIRE(found);
  REQUIRE(*found);
  CHECK((*found)->is_required);
  CHECK((*found)->file == scratch / "d/a.conf");
  CHECK((*found)->plugin == "/x/spank_nodestage.so");
  CHECK((*found)->arguments == std::vector<std::string>{"begin_wait=3", "progress=no"});
  CHECK(judge_line(*found, "P").grade == Grade::ok);
  std::ofstream(scratch / "plugstack.conf") << "include d/*.conf\n";  // relative to the file
  found = plugstack_line(scratch / "plugstack.conf");
  REQUIRE(found);
  CHECK(*found);
  CHECK_FALSE(plugstack_line(scratch / "missing"));
  const PlugstackLine optional = line_of("optional spank_nodestage.so\n");
  CHECK(judge_line(optional, "P").grade == Grade::problem);
}

TEST_CASE("doctor: arguments of the plugin that are wrong") {
  PlugstackLine line = line_of("required spank_nodestage.so progress=no\n");
  std::vector<char*> arguments;
  for (std::string& argument : line.arguments) arguments.push_back(argument.data());
  const auto findings = judge_arguments(line, parse_settings(arguments));
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].grade == Grade::warning);
  CHECK(has(findings[0].what, "progress"));
}

TEST_CASE("doctor: slurmd must have begun after the plugin came") {
  const PluginFile plugin{"p", k_22_05, 1000, {1000, 5}};
  PlugstackLine line;
  CHECK(judge_slurmd({1000, 6}, plugin, line).grade == Grade::ok);
  CHECK(judge_slurmd({1000, 4}, plugin, line).grade == Grade::problem);
  line.changed = {2000, 0};
  CHECK(judge_slurmd({1500, 0}, plugin, line).grade == Grade::warning);
}

TEST_CASE("doctor: slurm.conf") {
  CHECK(judge_prolog_flags({{"PrologFlags", "Alloc"}}).grade == Grade::ok);
  CHECK(judge_prolog_flags({{"PrologFlags", "Alloc,Contain"}}).grade == Grade::ok);
  CHECK(judge_prolog_flags({{"PrologFlags", "(null)"}}).grade == Grade::problem);
  CHECK(judge_prolog_flags({{"PrologFlags", "Serial"}}).grade == Grade::problem);
  CHECK(judge_proctrack({{"ProctrackType", "proctrack/cgroup"}}).grade == Grade::ok);
  CHECK(judge_proctrack({{"ProctrackType", "proctrack/linuxproc"}}).grade == Grade::warning);
  PluginSettings settings;
  CHECK(judge_batch_start({{"BatchStartTimeout", "10 sec"}}, settings).grade == Grade::ok);
  CHECK(judge_batch_start({{"BatchStartTimeout", "5 sec"}}, settings).grade == Grade::warning);
  settings.begin_wait = std::chrono::seconds(60);
  CHECK(judge_batch_start({{"BatchStartTimeout", "10 sec"}}, settings).grade == Grade::warning);
}

TEST_CASE("doctor: nodes that Slurm switches off") {
  CHECK(judge_power({}).empty());
  CHECK(judge_power({{"SuspendProgram", "(null)"}}).empty());
  const SlurmConfig suspends = {{"SuspendProgram", "/usr/bin/slurm_suspend"}};
  const Finding lost = judge_power(suspends).front();
  CHECK(lost.grade == Grade::warning);
  CHECK(has(lost.what, "loses the results that it holds"));
  CHECK(has(lost.to_do, "SuspendExcNodes"));
}

TEST_CASE("doctor: PrologEpilogTimeout against the epilog's wait") {
  const PluginSettings settings;  // epilog_wait 900
  const auto judged = [&](const char* value, std::uint64_t wait) {
    const auto findings = judge_time_limits({{"PrologEpilogTimeout", value}}, settings, wait);
    REQUIRE(findings.size() == 1);
    return findings.front();
  };
  CHECK(judged("65534", 600).grade == Grade::ok);
  CHECK(judged("(null)", 600).grade == Grade::ok);
  CHECK(judged("615", 600).grade == Grade::ok);
  const Finding cut = judged("100", 600);
  CHECK(cut.grade == Grade::warning);
  CHECK(has(cut.what, "waits 85 s"));
  CHECK(has(cut.to_do, "615"));
  CHECK(judged("800", 0).grade == Grade::warning);  // the plugin's 900
  CHECK(judged("20", 600).grade == Grade::problem);
}

TEST_CASE("doctor: a limit for prologs and one for epilogs, as Slurm 25.11 has them") {
  const PluginSettings settings;
  const auto judged = [&](const char* prolog, const char* epilog) {
    std::string text;
    const SlurmConfig both = {{"PrologTimeout", prolog}, {"EpilogTimeout", epilog}};
    for (const Finding& finding : judge_time_limits(both, settings, 600))
      text += "owp"[static_cast<int>(finding.grade)];
    return text;
  };
  CHECK(judged("65534", "65534") == "oo");
  CHECK(judged("20", "65534") == "po");
  CHECK(judged("300", "100") == "ow");
}

TEST_CASE("doctor: releases of command, plugin and daemon") {
  CHECK(judge_versions("0.1.0", "0.1.0", 1000).grade == Grade::ok);
  CHECK(judge_versions("0.1.0", "", 0).grade == Grade::ok);
  CHECK(judge_versions("0.1.0", "0.1.1", 1000).grade == Grade::problem);
  CHECK(judge_versions("1.2.3", "", 1'002'003).grade == Grade::ok);
  CHECK(judge_versions("1.2.3", "1.2.3", 1'002'002).grade == Grade::problem);
}

TEST_CASE("doctor: the disk") {
  DaemonAbout about{.tmpdir_root = "/s", .leave_free_bytes = 10};
  const auto worst = [&](const LocalDisk& disk) {
    Grade grade = Grade::ok;
    for (const Finding& finding : judge_disk(disk, about)) grade = std::max(grade, finding.grade);
    return grade;
  };
  CHECK(worst({0xEF53, 500, 1000, 5}) == Grade::ok);
  CHECK(worst({0x12345, 500, 1000, 5}) == Grade::ok);
  CHECK(worst({0xEF53, 50, 1000, 5}) == Grade::warning);
  CHECK(worst({0xEF53, 500, 1000, 0}) == Grade::warning);
  CHECK(worst({0xEF53, 10, 1000, 5}) == Grade::problem);
  CHECK(worst({0x01021994, 500, 1000, 5}) == Grade::warning);
  CHECK(worst({0x6969, 500, 1000, 5}) == Grade::problem);
  CHECK(worst({0xEF53, 500, 1000, 5, true}) == Grade::warning);
  CHECK(has(judge_disk({0xEF53, 500, 1000, 5, true}, about).back().what, "mounted noexec"));
  CHECK(worst({0xEF53, 500, 1000, 5, false, true}) == Grade::warning);
  CHECK(has(judge_disk({0xEF53, 500, 1000, 5, false, true}, about).back().what, "can list /s"));
}

TEST_CASE("doctor: slurmd's spool, if users can list it") {
  CHECK(spool_path("/spool/%h/%n-%n", "n1", "host") == "/spool/host/n1-n1");
  CHECK(spool_path("/spool", "n1", "host") == "/spool");
  CHECK(judge_spool("/spool", 0040711).grade == Grade::ok);
  const Finding finding = judge_spool("/spool", 0040755);
  CHECK(finding.grade == Grade::warning);
  CHECK(has(finding.what, "every user can list /spool (SlurmdSpoolDir): "));
  CHECK(has(finding.to_do, "chmod 711 /spool"));
}

TEST_CASE("doctor: the directory of shared items is root's, and nobody else writes to it") {
  CHECK(judge_cache_directory({"/s/.nodestage-cache", 0040711, 0}).grade == Grade::ok);
  CHECK(judge_cache_directory({"/s/.nodestage-cache", 0040755, 0}).grade == Grade::ok);
  for (const std::uint32_t mode : {0040731U, 0040713U, 0041777U, 0100600U, 0120777U}) {
    CAPTURE(mode);
    const Finding finding = judge_cache_directory({"/s/.nodestage-cache", mode, 0});
    CHECK(finding.grade == Grade::problem);
    CHECK(has(finding.what, "/s/.nodestage-cache is "));
  }
  const Finding foreign = judge_cache_directory({"/s/.nodestage-cache", 0040711, 1000});
  CHECK(foreign.grade == Grade::problem);
  CHECK(has(foreign.what, "belongs to uid 1000, not to root"));
}

TEST_CASE("doctor: less free than cache.keep_free is a warning") {
  const auto judged = [](std::uint64_t free, const Config::Cache& settings) {
    return judge_keep_free({0xEF53, free, 1000, 5}, settings);
  };
  REQUIRE(judged(200, {}).size() == 1);
  CHECK(judged(200, {}).front().grade == Grade::ok);
  REQUIRE(judged(199, {}).size() == 1);
  CHECK(judged(199, {}).front().grade == Grade::warning);
  CHECK(has(judged(199, {}).front().what, "19% are free there, less than cache.keep_free (20%)"));
  CHECK(judged(199, {.keep_free_percent = 10}).front().grade == Grade::ok);
  CHECK(judged(1, {.enabled = false}).empty());
  CHECK(judge_keep_free({}, {}).empty());
}

TEST_CASE("the tmpfs of in=memory: one of root's, which nobody else empties") {
  const MemoryLocation good{true, 0x01021994, true, 0};
  CHECK(judge_memory("", {}, "").empty());
  const auto is_noted = [&good](const std::string& path, const char* logind) {
    const Finding finding = judge_memory(path, good, logind).at(0);
    CHECK(finding.grade == Grade::ok);
    return finding.what.find("RemoveIPC=no") != std::string::npos;
  };
  CHECK(!is_noted("/dev/shm", ""));
  CHECK(!is_noted("/dev/shm", "RemoveIPC=no\n"));
  CHECK(!is_noted("/var/lib/nodestage_memory", "RemoveIPC=yes\n"));
  CHECK(is_noted("/dev/shm", "RemoveIPC=yes\n"));
  for (const MemoryLocation& bad :
       {MemoryLocation{}, MemoryLocation{true, 0xEF53, true, 0},
        MemoryLocation{true, 0x01021994, false, 0}, MemoryLocation{true, 0x01021994, true, 1000}}) {
    const Finding finding = judge_memory("/dev/shm", bad, "").at(0);
    CHECK(finding.grade == Grade::warning);
    CHECK(has(finding.what, "in=memory fail on this node"));
  }
}

TEST_CASE("doctor: the ports of the relay, where it is on") {
  const auto read = [](const char* text) { return parse_config(text, "nodestaged.toml"); };
  REQUIRE(read(""));
  CHECK(relays_sources(*read("")));
  CHECK(relays_sources(*read("[relay]\nwindow = 1\n")));
  for (const char* off : {"[relay]\nenabled = false\n", "[relay]\nwindow = 0\n",
                          "[relay]\nwindow = '0GiB'\n", "[peer]\nbarrier = 'off'\n"}) {
    CAPTURE(off);
    REQUIRE(read(off));
    CHECK_FALSE(relays_sources(*read(off)));
  }
}

TEST_CASE("doctor: a range of ports of which one is free is enough, and one of none a warning") {
  const PortRange settings{7000, 7099};
  const Finding some = judge_relay_ports(settings, {100, 1, "Address already in use"});
  CHECK(some.grade == Grade::ok);
  CHECK(some.what == "1 of 100 ports of relay.ports (7000-7099) are free");
  const Finding none = judge_relay_ports(settings, {100, 0, "Address already in use"});
  CHECK(none.grade == Grade::warning);
  CHECK(none.what ==
        "no port of relay.ports (7000-7099) is free (Address already in use): jobs on this node "
        "pass no source on to their other nodes");
  CHECK(has(none.to_do, "relay.enabled = false"));
}

TEST_CASE("doctor: a port is free until somebody listens there, on IPv4 alone, too") {
  Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  REQUIRE(::bind(fd.get(), generic, size) == 0);
  REQUIRE(::listen(fd.get(), 1) == 0);
  REQUIRE(::getsockname(fd.get(), generic, &size) == 0);
  const std::uint16_t port = ntohs(address.sin_port);
  const FreePorts taken = find_free_ports(port, port);
  CHECK(taken.tried == 1);
  CHECK(taken.free == 0);
  CHECK(taken.fault == "Address already in use");
  fd.reset();
  CHECK(find_free_ports(port, port).free == 1);
  CHECK(find_free_ports(port, port).fault.empty());
}

TEST_CASE("doctor: a daemon that does not answer, and what systemd knows of it") {
  const auto judged = [](const char* unit) {
    Finding finding = judge_silent_daemon("no socket", unit);
    finding.what += " -> " + finding.to_do;
    return finding;
  };
  CHECK(has(judged("System has not been booted with systemd\n").what, "systemctl enable --now"));
  CHECK(has(judged("NRestarts=0\nExecMainStatus=0\nActiveState=inactive\n").what,
            "systemctl enable"));
  CHECK(has(judged("NRestarts=5\nExecMainStatus=219\nActiveState=failed\n").what, "219/CGROUP"));
  CHECK(has(judged("NRestarts=0\nExecMainStatus=78\nActiveState=failed\n").what, "--check names"));
  check_has(judged("NRestarts=7\nExecMainStatus=1\nActiveState=failed\n").what,
            {"after 7 restarts", "reset-failed"});
}

TEST_CASE("doctor: the sandbox, as the daemon's own try has told") {
  DaemonAbout about;
  CHECK(judge_sandbox(about).grade == Grade::warning);
  about.sandbox = {SandboxState::Kind::holds, ""};
  CHECK(judge_sandbox(about).grade == Grade::ok);
  about.sandbox = {SandboxState::Kind::lacking, "no Landlock"};
  CHECK(judge_sandbox(about).grade == Grade::warning);
  CHECK(has(judge_sandbox(about).what, "no Landlock"));
  about.sandbox_required = true;
  CHECK(judge_sandbox(about).grade == Grade::problem);
  CHECK(has(judge_sandbox(about).what, "jobs that stage fail"));
  about.sandbox = {SandboxState::Kind::fault, "seccomp: not permitted"};
  CHECK(judge_sandbox(about).grade == Grade::problem);
  CHECK(has(judge_sandbox(about).what, "seccomp: not permitted"));
}

TEST_CASE("doctor: what the build lacks is said where it matters") {
  CHECK(judge_build(true, true).empty());
  CHECK(judge_build(false, false).empty());
  const auto lacking = judge_build(false, true);
  REQUIRE(lacking.size() == 1);
  CHECK(has(lacking[0].what, "without systemd"));
}

TEST_CASE("doctor: by what the nodes of a job prove their notes") {
  using Kind = CredentialState::Kind;
  CHECK(judge_credentials({Kind::unknown, ""}, 3).empty());
  CHECK(judge_credentials({Kind::off, ""}, 3).empty());
  const auto held = judge_credentials({Kind::holds, "the key in /etc/slurm/slurm.key"}, 3);
  REQUIRE(held.size() == 1);
  CHECK(held[0].grade == Grade::ok);
  CHECK(has(held[0].what, "credentials by the key in /etc/slurm/slurm.key"));
  const CredentialState none{Kind::fault, "MUNGE: Failed to access \"/run/munge/munge.socket.2\""};
  for (const std::size_t nodes : {0UL, 2UL, 10000UL}) {
    const auto found = judge_credentials(none, nodes);
    REQUIRE(found.size() == 1);
    CHECK(found[0].grade == Grade::problem);
    CHECK(has(found[0].what, "MUNGE: Failed to access"));
    CHECK(has(found[0].to_do, "peer.key_file"));
  }
  CHECK(judge_credentials(none, 1).front().grade == Grade::warning);
}

TEST_CASE("doctor: the kernel and cgroups") {
  CHECK(judge_openat2(true).grade == Grade::ok);
  CHECK(judge_openat2(false).grade == Grade::problem);
  CHECK(judge_fuse({}).grade == Grade::ok);
  CHECK(judge_fuse("/dev/fuse: No such file or directory").grade == Grade::warning);
  DaemonAbout about;
  CHECK(judge_cgroups(about).grade == Grade::ok);
  about.cgroups_missing = "off";
  CHECK(judge_cgroups(about).grade == Grade::warning);
  about.cgroups_missing = "memory, pids";
  CHECK(has(judge_cgroups(about).what, "memory, pids"));
  about.cgroups_in_unit = true;
  CHECK(judge_cgroups(about).grade == Grade::problem);
  CHECK(has(judge_cgroups(about).what, "219"));
}

TEST_CASE("doctor: what the jobs wait for that are queued on this node") {
  StatusRow queued;
  queued.job = 14;
  queued.state = to_text(JobState::queued);
  queued.others = "waiting for its turn to stage on this node";
  StatusRow ready = queued;
  ready.state = to_text(JobState::ready);
  CHECK_FALSE(list_queued({ready}));
  CHECK(list_queued({queued, ready})->what ==
        "job 14 is waiting for its turn to stage on this node");
  const auto many = list_queued(std::vector<StatusRow>(10, queued));
  CHECK(many->grade == Grade::ok);
  CHECK(many->what.ends_with("; and 2 more"));
}
