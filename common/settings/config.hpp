// The daemon's configuration: /etc/nodestage/nodestaged.toml.
//
// conf/nodestaged.toml has every key with its default and its unit; a unit test compares it with
// this struct. An unknown key, a wrong type, or a value out of range is a fault that names the
// file, the line, the key, and what is allowed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"
#include "common/wire/worker_order.hpp"

namespace nodestage {

enum class CreateDirectory { on_request, always, never };
enum class UseCgroups { automatic, off };
enum class UseBarrier { automatic, off };
enum class OnMissing { fail, proceed };
enum class UnkeptOutputs { refuse, deliver };
enum class ShareScope { user, readers };     // whose jobs find what was kept
enum class ReportTo { output, file, none };  // what became of a job's results

struct Config {
  struct {
    std::string path = "/localscratch/%u.%j.0";
    CreateDirectory create = CreateDirectory::on_request;
    std::uint64_t wait_s = 60;
  } tmpdir;
  struct {
    std::uint64_t max_jobs = 4;
    std::uint64_t max_jobs_per_user = 0;
    std::uint64_t threads = 0;
    std::uint64_t leave_free_bytes = 1ULL << 30;
    std::uint64_t trash_wait_s = 30;
    std::uint64_t space_wait_s = 900;
    std::uint64_t promise_share_percent = 50;
    std::uint64_t promise_time_s = 300;
    std::uint64_t limit_s = 86'400;
    std::uint64_t groups_wait_s = 30;
    OnFailure on_failure = OnFailure::fail;
    bool hints = true;
    std::vector<std::string> users;     // and
    std::vector<std::uint64_t> groups;  // of whom jobs are staged; both empty: of all
  } staging;
  struct {
    std::uint64_t max_rate_bytes = 0;
    std::uint64_t start_jitter_s = 5;
    std::uint64_t start_jitter_nodes = 64;
  } read;
  ExtractRules extract;
  struct {
    std::string path = "/dev/shm";  // a tmpfs
    std::uint64_t max_share_percent = 75;
    std::uint64_t step_wait_s = 15;
  } memory;
  struct Cache {
    bool enabled = true;
    std::uint64_t keep_free_percent = 20;
    std::uint64_t max_bytes = 0;
    std::uint64_t max_age_s = 7 * 86'400;
    std::uint64_t identify_wait_s = 60;
    std::uint64_t readers_wait_s = 600;
    std::uint64_t min_age_s = 60;
    std::vector<std::string> never;
    ShareScope scope = ShareScope::user;
    std::string keeper = "nodestage-keeper";

    bool operator==(const Cache&) const = default;
  } cache;
  VenvRules venv;
  struct {
    std::uint64_t epilog_wait_s = 0;  // see epilog_wait_of()
    std::uint64_t limit_s = 86'400;
    UnkeptOutputs unkept = UnkeptOutputs::refuse;
    std::uint64_t max_rate_bytes = 0;
    std::uint64_t least_interval_s = 60;
    std::uint64_t push_stall_s = 600;
    ReportTo report = ReportTo::output;
  } stageout;
  struct Hold {
    std::uint64_t days = 30;
    std::uint64_t max_bytes = 100ULL << 30;
    std::uint64_t max_inodes = 5'000'000;
    std::uint64_t max_jobs = 1000;
    std::uint64_t retry_first_s = 60;
    std::uint64_t retry_most_s = 3600;
    std::uint64_t warn_days = 3;

    bool operator==(const Hold&) const = default;
  } hold;
  struct {
    UseCgroups cgroup = UseCgroups::automatic;
    SandboxNeed sandbox = SandboxNeed::available;
    std::uint64_t memory_bytes = 4ULL << 30;
    std::uint64_t pids = 256;
    std::uint64_t kill_wait_s = 10;
  } worker;
  struct Peer {
    UseBarrier barrier = UseBarrier::automatic;
    std::uint64_t port = 6825;
    std::string user = "nodestage";
    std::uint64_t begin_wait_s = 120;
    std::uint64_t silence_wait_s = 90;
    OnMissing on_missing = OnMissing::fail;
    std::uint64_t outcome_wait_s = 10;
    std::uint64_t io_wait_s = 5;
    std::uint64_t max_connections = 1024;
    std::vector<std::string> addresses;  // "NODE=ADDRESS"
    std::string key_file;                // empty: MUNGE, or the key of Slurm's auth/slurm
    std::string program;                 // default: the one of this build

    bool operator==(const Peer&) const = default;
  } peer;
  struct Relay : RelayRules {
    bool enabled = true;
    std::uint64_t chain = 32;
    std::vector<std::string> addresses;  // "NODE=ADDRESS"

    bool operator==(const Relay&) const = default;
  } relay;
  struct {
    std::string scontrol = "/usr/bin/scontrol";
    std::uint64_t answer_wait_s = 20;
  } slurm;
  struct Credit {
    bool enabled = false;
    std::uint64_t max_minutes = 60;
    std::uint64_t least_s = 120;
  } credit;
  struct {
    std::uint64_t keep = 1000;
    std::uint64_t days = 30;
  } records;
  struct {
    std::string textfile;
  } metrics;
  struct {
    std::string socket = "/run/nodestage/nodestaged.sock";
    std::string state_dir = "/var/lib/nodestage";
    std::string worker_path;  // default: the one of this build
    std::uint64_t request_wait_s = 5;
    std::uint64_t max_connections = 4096;
    std::uint64_t orphan_check_s = 300;
    std::string log_level = "info";
  } daemon;
};

Result<Config> parse_config(std::string_view text, const std::string& file_name);
Result<Config> load_config(const std::string& path);

// Whether the nodes of a job pass sources on to each other, where notes can get from one to the
// other.
inline bool relays_sources(const Config& config) {
  return config.relay.enabled && config.relay.window_bytes > 0 &&
         config.peer.barrier != UseBarrier::off;
}

// What the keys of shared items depend on, as far as it follows from the settings alone.
void set_rules(IdentifyOrder& order, const Config& config);

// Every key as "section.key", in the order of the struct.
std::vector<std::string> config_keys();

// tmpdir.path is "ROOT/NAME"; only NAME contains patterns.
std::string tmpdir_root(const Config& config);
std::string tmpdir_name_pattern(const Config& config);

// Seconds that an epilog waits for deliveries. Slurm lets no job run on the node meanwhile, so it
// is short; but what is not delivered by then is lost where the site makes the job directories.
std::uint64_t epilog_wait_of(const Config& config);

// Looks for the paths that the settings name on this host, for `nodestaged --check`.

// Returns a sentence for each path that nodestaged needs as the settings have it and that is not
// so: directories, the parents of those that it makes itself, programs, and files. Needs no root; a
// path that this process may not look up counts as there. `owner` must own the directory of the job
// directories: root, except in tests.
std::vector<std::string> faults_of_paths(const Config& config, std::uint32_t owner = 0);

}  // namespace nodestage
