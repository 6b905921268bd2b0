#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <concepts>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "common/reflection.hpp"
#include "common/settings/config.hpp"
#include "scratch.hpp"
#include "texts.hpp"

using namespace nodestage;
namespace fs = std::filesystem;

namespace {

std::string fault_of(std::string_view text) {
  const auto config = parse_config(text, "f.toml");
  return config ? "" : config.error().what;
}

// Whether all settings are equal, those of each section.
template <typename Settings>
bool is_same(const Settings& a, const Settings& b) {
  if constexpr (std::equality_comparable<Settings>) {
    return a == b;
  } else {
    bool is_equal = false;
    with_members(a, [&](const auto&... of_a) {
      with_members(b, [&](const auto&... of_b) { is_equal = (is_same(of_a, of_b) && ...); });
    });
    return is_equal;
  }
}

// conf/nodestaged.toml, as if each line were in force, and what it shows for "section.key".
struct Example {
  std::string uncommented;
  std::map<std::string, std::string> defaults;
};

Example installed_example() {
  Example example;
  std::string section;
  std::istringstream lines(source_text("conf/nodestaged.toml"));
  const std::regex title(R"(\[(\w+)\])");
  const std::regex item(R"(#?(\w+) = (.*))");
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_match(line, match, title)) section = match[1];
    if (std::regex_match(line, match, item)) {
      example.defaults[section + "." + match[1].str()] = match[2];
      if (line[0] == '#') line.erase(0, 1);
    }
    example.uncommented += line + "\n";
  }
  return example;
}

// What nodestaged.toml.5 says of a key; "section.key" is its name.
struct Documented {
  std::string default_value;
  std::string kind;
};

std::map<std::string, Documented> manual_page() {
  std::map<std::string, Documented> keys;
  const std::string page =
      std::regex_replace(source_text("docs/nodestaged.toml.5"), std::regex(R"(\\\(dq)"), "\"");
  std::istringstream lines(page);
  std::string section;
  const std::regex title(R"(\.Sh \[(\w+)\])");
  const std::regex item(R"(\.It Va (\w+) No = Li (.*))");
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_match(line, match, title)) section = match[1];
    if (!std::regex_match(line, match, item)) continue;
    Documented& told = keys[section + "." + match[1].str()];
    told.default_value = match[2];
    std::getline(lines, told.kind);
  }
  return keys;
}

// The numbers and the quoted words of a text, in order.
std::vector<std::string> values_in(const std::string& text) {
  const std::regex value(R"(\b[0-9]+\b|"[^"]*")");
  return {std::sregex_token_iterator(text.begin(), text.end(), value), {}};
}

}  // namespace

TEST_CASE("an empty file gives the defaults") {
  const auto config = must(parse_config("", "f.toml"));
  CHECK(config.tmpdir.path == "/localscratch/%u.%j.0");
  CHECK(tmpdir_root(config) == "/localscratch");
  CHECK(tmpdir_name_pattern(config) == "%u.%j.0");
  CHECK(epilog_wait_of(config) == 60);
}

TEST_CASE("settings take numbers, sizes with units, and choices") {
  const auto config = must(parse_config(
      "[tmpdir]\npath='/s/"
      "%j'\ncreate='never'\n[staging]\nleave_free='512MiB'\non_failure='continue'\n"
      "[read]\nmax_rate=1000\n[extract]\nescaping='skip'\nmax_entries=10\nmax_ratio=20\nxattrs="
      "true\nspecial='keep'\n",
      "f.toml"));
  CHECK(config.tmpdir.create == CreateDirectory::never);
  CHECK(epilog_wait_of(config) == 600);
  CHECK(config.staging.leave_free_bytes == 512ULL << 20);
  CHECK(config.staging.on_failure == OnFailure::proceed);
  CHECK(config.read.max_rate_bytes == 1000);
  CHECK(config.extract == ExtractRules{Escaping::skip, Special::keep, 10, 20, true});
}

TEST_CASE("peer.addresses takes one address or several for each node") {
  const auto config =
      parse_config("[peer.addresses]\nn1='10.0.0.1'\nn2=['10.0.0.2', 'fe80::1']\n", "f.toml");
  REQUIRE(config);
  CHECK(config->peer.addresses ==
        std::vector<std::string>{"n1=10.0.0.1", "n2=10.0.0.2", "n2=fe80::1"});
  CHECK(has(fault_of("[peer]\naddresses={n1='host'}\n"), "a table of names"));
  CHECK(has(fault_of("[peer]\nuser='root'\n"), "not root"));
}

TEST_CASE("the ports of the relay are a range of ports that a user can listen on") {
  const auto range_of_ports = [](const std::string& ports) {
    const auto config = parse_config("[relay]\nports='" + ports + "'\n", "f.toml");
    return config ? std::pair(config->relay.ports.first, config->relay.ports.last)
                  : std::pair<std::uint16_t, std::uint16_t>();
  };
  using Ports = std::pair<std::uint16_t, std::uint16_t>;
  CHECK(range_of_ports("7000-7099") == Ports(7000, 7099));
  CHECK(range_of_ports("1024-1024") == Ports(1024, 1024));
  CHECK(range_of_ports("65535-65535") == Ports(65535, 65535));
  for (const char* wrong : {"", "7000", "7000-", "-7000", "7000-6999", "1023-7000", "7000-65536",
                            "7000-7099x", "7000 - 7099", "7000-7099-7199", "0x1b58-7099"})
    CHECK_MESSAGE(fault_of("[relay]\nports='" + std::string(wrong) + "'\n") ==
                      "f.toml:2: 'relay.ports' must be a range of ports from 1024 on, such as "
                      "\"6826-6925\"",
                  wrong);
  CHECK(has(fault_of("[relay]\nports=7000\n"), "a range of ports"));
}

TEST_CASE("the file systems of the relay are a bounded list of types") {
  const auto config = must(parse_config("[relay]\nfile_systems=['nfs4', 'fuse']\n", "f.toml"));
  CHECK(config.relay.file_systems == std::vector<std::string>{"nfs4", "fuse"});
  CHECK(must(parse_config("[relay]\nfile_systems=[]\n", "f.toml")).relay.file_systems.empty());
  const auto list_of = [](std::size_t count, const std::string& type) {
    std::string list;
    for (std::size_t i = 0; i < count; ++i) list += "'" + type + "',";
    return "[relay]\nfile_systems=[" + list + "]\n";
  };
  CHECK(fault_of(list_of(100, "nfs4")).empty());
  CHECK(fault_of(list_of(1, std::string(64, 'f'))).empty());
  for (const std::string& wrong : {list_of(101, "nfs4"), list_of(1, std::string(65, 'f')),
                                   list_of(1, ""), std::string("[relay]\nfile_systems='nfs4'\n"),
                                   std::string("[relay]\nfile_systems=['nfs4', 4]\n")})
    CHECK_MESSAGE(
        fault_of(wrong) ==
            "f.toml:2: 'relay.file_systems' must be a list of at most 100 types of file systems, "
            "such as [\"nfs4\"]",
        wrong);
}

TEST_CASE("the addresses of the relay are those of another network than the barrier's") {
  const auto config = must(parse_config(
      "[peer.addresses]\nn1='10.0.0.1'\n[relay.addresses]\nn1='10.9.0.1'\nn2=['fe80::1']\n",
      "f.toml"));
  CHECK(config.peer.addresses == std::vector<std::string>{"n1=10.0.0.1"});
  CHECK(config.relay.addresses == std::vector<std::string>{"n1=10.9.0.1", "n2=fe80::1"});
  CHECK(fault_of("[relay]\naddresses={n1='ib-n1'}\n") ==
        "f.toml:2: 'relay.addresses' must be a table of names of nodes, each with an address or a "
        "list of them");
}

TEST_CASE("users and groups of a pilot are lists") {
  const auto config =
      must(parse_config("[staging]\nusers=['alice','bob']\ngroups=[20100]\n", "f.toml"));
  CHECK(config.staging.users == std::vector<std::string>{"alice", "bob"});
  CHECK(config.staging.groups == std::vector<std::uint64_t>{20'100});
  CHECK(fault_of("[staging]\nusers=['alice','']\n") ==
        "f.toml:2: 'staging.users' must be a list of at most 10000 names of users");
  for (const char* groups : {"['lab']", "[0]", "[-1]", "[4294967295]", "5"})
    CHECK(fault_of("[staging]\ngroups=" + std::string(groups) + "\n") ==
          "f.toml:2: 'staging.groups' must be a list of at most 1000 numbers of groups");
}

TEST_CASE("a key that is gone is an error with what to do") {
  for (const std::string key : {"keep_powered=true", "notify='/usr/bin/keep-on'"}) {
    const std::string fault = fault_of("[hold]\n" + key + "\n");
    CHECK(fault.starts_with("f.toml:2: unknown key 'hold." + key.substr(0, key.find('='))));
    CHECK(has(fault, "remove the line"));
  }
}

TEST_CASE("a fault names file, line, key and what is allowed") {
  CHECK(fault_of("\n[staging]\nmax_job=1\n") ==
        "f.toml:3: unknown key 'staging.max_job'; the keys of [staging] are: max_jobs, "
        "max_jobs_per_user, "
        "threads, "
        "leave_free, trash_wait, space_wait, promise_share, promise_time, limit, groups_wait, "
        "on_failure, hints, users, groups");
  CHECK(fault_of("[stage]\nx=1\n")
            .find("f.toml:1: unknown section or key 'stage'; the sections are: tmpdir, "
                  "staging, read, extract, memory, cache, venv, stageout, hold, worker, peer, "
                  "relay, slurm, "
                  "credit, records, "
                  "metrics, daemon") == 0);
  CHECK(fault_of("[staging]\nmax_jobs=0\n") ==
        "f.toml:2: 'staging.max_jobs' must be a whole number from 1 to 10000");
  CHECK(has(fault_of("[staging]\nmax_jobs='4'\n"), "a whole number"));
  CHECK(has(fault_of("[staging]\nmax_jobs=-1\n"), "a whole number"));
  CHECK(has(fault_of("[staging]\nleave_free='1 GB'\n"), "\"512MiB\""));
  CHECK(has(fault_of("[staging]\nleave_free='99999999999TiB'\n"), "\"512MiB\""));
  CHECK(fault_of("[staging]\non_failure='ignore'\n") ==
        "f.toml:2: 'staging.on_failure' must be one of \"fail\" \"continue\"");
  CHECK(fault_of("[tmpdir]\ncreate='sometimes'\n") ==
        "f.toml:2: 'tmpdir.create' must be one of \"on-request\" \"always\" \"never\"");
  CHECK(fault_of("[extract]\nspecial='allow'\n") ==
        "f.toml:2: 'extract.special' must be one of \"skip\" \"keep\"");
  CHECK(has(fault_of("[extract]\nspecial=true\n"), "must be one of"));
  CHECK(has(fault_of("[tmpdir]\npath='/s/%u/%j'\n"), "only the last part"));
  CHECK(has(fault_of("[tmpdir]\npath='/s/%u'\n"), "%j among them"));
  CHECK(has(fault_of("[tmpdir]\npath='/%j'\n"), "absolute path"));
  CHECK(has(fault_of("[tmpdir]\npath='/s/%N.%j'\n"), "absolute path"));
  CHECK(fault_of("[records]\nkeep=-1\n") ==
        "f.toml:2: 'records.keep' must be a whole number from 0 to 100000");
  CHECK(has(fault_of("[records]\nkeep='all'\n"), "a whole number"));
  CHECK(fault_of("[records]\ndays=0\n") ==
        "f.toml:2: 'records.days' must be a whole number from 1 to 3650");
  CHECK(fault_of("[tmpdir\n").find("f.toml:1: ") == 0);
  CHECK(has(fault_of("[daemon]\nsocket='x.sock'\n"), "an absolute path"));
}

TEST_CASE("the installed example shows every key with its default, and nothing else") {
  const Example example = installed_example();
  std::set<std::string> shown;
  for (const auto& [name, value] : example.defaults) shown.insert(name);
  const auto known = config_keys();
  CHECK(shown == std::set<std::string>(known.begin(), known.end()));
  auto from_example = parse_config(example.uncommented, "example");
  REQUIRE_MESSAGE(from_example, (from_example ? "" : from_example.error().what));
  const auto defaults = parse_config("", "f.toml");
  from_example->peer.program = defaults->peer.program;  // of the build
  from_example->daemon.worker_path = defaults->daemon.worker_path;
  CHECK(is_same(*from_example, *defaults));
}

TEST_CASE("nodestaged.toml(5) tells of every key, with the default of the installed file") {
  std::map<std::string, std::string> told;
  for (const auto& [name, key] : manual_page()) told[name] = key.default_value;
  CHECK(told == installed_example().defaults);
}

TEST_CASE("nodestaged.toml(5) tells of each key what is allowed") {
  for (const auto& entry : manual_page()) {
    const std::string& name = entry.first;
    const Documented& told = entry.second;
    CAPTURE(name);
    const std::string key = name.substr(name.find('.') + 1);
    const std::string fault =
        fault_of("[" + name.substr(0, name.find('.')) + "]\n" + key + " = 1.5\n");
    const auto must_be = fault.find("' must be ");
    REQUIRE(must_be != std::string::npos);
    const std::string allowed = fault.substr(must_be + 10);
    if (told.kind.starts_with("Size")) {
      CHECK(has(allowed, "512MiB"));
    } else if (allowed.starts_with("a whole number") || allowed.starts_with("one of")) {
      CHECK(values_in(told.kind) == values_in(allowed));
    } else {
      const std::string text = told.kind.substr(1, told.kind.find_first_of(".,(") - 1);
      CHECK(allowed.find(text.substr(0, text.find(" with patterns"))) != std::string::npos);
    }
  }
}

TEST_CASE("no page and no guide names a key that does not exist") {
  std::set<std::string> sections;
  const auto known = config_keys();
  for (const std::string& name : known) sections.insert(name.substr(0, name.find('.')));
  for (const char* page :
       {"README.md", "SECURITY.md", "docs/comparison.md", "docs/compatibility.md", "docs/faq.md",
        "docs/admin.md", "docs/user.md", "docs/nodestage.1", "docs/nodestage.7",
        "docs/nodestaged.8", "docs/nodestaged.toml.5", "docs/spank_nodestage.8"}) {
    const std::string text = source_text(page);
    REQUIRE(!text.empty());
    // `section.key`, and .Va section.key
    const std::regex named(R"((?:`|\.Va (?:[a-z_.]+ , )*|\()([a-z]+)\.([a-z_]+)\b)");
    for (std::sregex_iterator match(text.begin(), text.end(), named), end; match != end; ++match) {
      if (!sections.contains((*match)[1])) continue;
      const std::string name = (*match)[1].str() + "." + (*match)[2].str();
      CAPTURE(page);
      CAPTURE(name);
      CHECK(std::find(known.begin(), known.end(), name) != known.end());
    }
  }
}

namespace {

// Settings whose paths are all there, in `scratch`.
Config settings_in(const Scratch& scratch) {
  Config config;
  fs::create_directories(scratch / "local");
  ::chmod((scratch / "local").c_str(), 0755);
  std::ofstream(scratch / "program") << "x";
  config.tmpdir.path = scratch / "local/%u.%j.0";
  config.daemon.state_dir = scratch / "state";
  config.daemon.socket = scratch / "run/x.sock";
  for (std::string* path :
       {&config.slurm.scontrol, &config.daemon.worker_path, &config.peer.program})
    *path = scratch / "program";
  return config;
}

std::string faults_in(const Config& config, std::uint32_t owner = ::geteuid()) {
  std::string all;
  for (const std::string& fault : faults_of_paths(config, owner)) all += fault + "\n";
  return all;
}

}  // namespace

TEST_CASE("paths of the settings: nothing is wrong where they are, or can be made") {
  const Scratch scratch;
  CHECK(faults_in(settings_in(scratch)).empty());
}

TEST_CASE("paths of the settings: the directory of the job directories is there, and its owner's") {
  const Scratch scratch;
  Config config = settings_in(scratch);
  ::chmod((scratch / "local").c_str(), 0777);
  CHECK(has(faults_in(config), "tmpdir.path: " + (scratch / "local") + " must belong to root"));
  ::chmod((scratch / "local").c_str(), 01777);
  CHECK(faults_in(config).empty());
  CHECK(has(faults_in(config, ::geteuid() + 1), "must belong to root"));
  config.tmpdir.path = scratch / "none/deep/%j";
  CHECK(has(faults_in(config), "tmpdir.path: " + (scratch / "none/deep") + " does not exist"));
  config.tmpdir.path = scratch / "program/%j";
  CHECK(has(faults_in(config), "is not a directory"));
}

TEST_CASE("paths of the settings: what nodestaged makes needs its parent, and files exist") {
  const Scratch scratch;
  Config config = settings_in(scratch);
  config.daemon.state_dir = scratch / "none/state";
  config.daemon.socket = scratch / "none/run/x.sock";
  config.metrics.textfile = scratch / "none/x.prom";
  config.venv.find_links = {scratch / "local", scratch / "wheels"};
  config.venv.module_init = scratch / "lmod.sh";
  config.peer.key_file = scratch / "key";
  config.slurm.scontrol = scratch / "scontrol";
  const std::string faults = faults_in(config);
  CHECK(std::count(faults.begin(), faults.end(), '\n') == 7);
  for (const char* setting :
       {"daemon.state_dir: ", "daemon.socket: ", "metrics.textfile: ", "venv.find_links: ",
        "venv.module_init: ", "peer.key_file: ", "slurm.scontrol: "})
    CHECK(has(faults, setting));
  CHECK_FALSE(has(faults, "venv.uv"));
  config.venv.installer = VenvInstaller::uv;
  config.venv.uv = scratch / "uv";
  CHECK(has(faults_in(config), "venv.uv: " + (scratch / "uv") + " does not exist"));
}
