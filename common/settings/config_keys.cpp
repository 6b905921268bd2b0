#include "common/settings/config_keys.hpp"

#include <arpa/inet.h>

#include <limits>
#include <string_view>

#include "common/text/glob_text.hpp"
#include "common/text/parsing.hpp"

namespace nodestage {
namespace {

std::optional<std::uint64_t> to_bytes(std::string_view unit) {
  const auto value = take_number<std::uint64_t>(unit);
  if (!value) return {};
  static constexpr std::string_view k_units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  for (std::size_t i = 0; i < std::size(k_units); ++i) {
    if (unit == k_units[i] && *value <= k_no_largest >> (10 * i)) return *value << (10 * i);
  }
  return {};
}

bool is_address(const std::string& text) {
  in6_addr address{};
  return ::inet_pton(AF_INET, text.c_str(), &address) == 1 ||
         ::inet_pton(AF_INET6, text.c_str(), &address) == 1;
}

// All addresses go to nodestage-peer in one message (common/wire/peer_channel.hpp).
constexpr std::size_t k_max_addresses_bytes = 96 * 1024;

// [peer.addresses]: n1 = "10.0.0.1" or n1 = ["10.0.0.1", "10.1.0.1"].
std::optional<std::string> to_addresses(const toml::node& node, std::vector<std::string>& into) {
  const std::string allowed = "a table of names of nodes, each with an address or a list of them";
  if (!node.is_table()) return allowed;
  into.clear();
  std::size_t bytes = 0;
  for (const auto& [name, value] : *node.as_table()) {
    toml::array one;
    if (!value.is_array()) one.push_back(value);
    for (const auto& address : value.is_array() ? *value.as_array() : one) {
      const auto text = address.value_exact<std::string>();
      if (!text || !is_address(*text)) return allowed;
      into.push_back(std::string(name.str()) + "=" + *text);
      bytes += into.back().size() + sizeof(std::uint32_t);
    }
  }
  if (bytes > k_max_addresses_bytes) return "at most 96 KiB: let the system resolve the names";
  return {};
}

}  // namespace

Setter number(const Member<std::uint64_t>& member, std::uint64_t smallest, std::uint64_t largest) {
  return [=](Config& config, const toml::node& node) -> std::optional<std::string> {
    const auto value = node.value_exact<std::int64_t>();
    if (value && *value >= 0 && static_cast<std::uint64_t>(*value) >= smallest &&
        static_cast<std::uint64_t>(*value) <= largest) {
      member(config) = static_cast<std::uint64_t>(*value);
      return {};
    }
    return "a whole number from " + std::to_string(smallest) + " to " + std::to_string(largest);
  };
}

Setter boolean(const Member<bool>& member) {
  return [=](Config& config, const toml::node& node) -> std::optional<std::string> {
    const auto value = node.value_exact<bool>();
    if (!value) return "true or false";
    member(config) = *value;
    return {};
  };
}

Setter size(const Member<std::uint64_t>& member) {
  return [=](Config& config, const toml::node& node) -> std::optional<std::string> {
    std::optional<std::uint64_t> bytes;
    if (const auto text = node.value_exact<std::string>()) bytes = to_bytes(*text);
    if (const auto value = node.value_exact<std::int64_t>(); value && *value >= 0) {
      bytes = static_cast<std::uint64_t>(*value);
    }
    if (!bytes) return "a number of bytes, or a text such as \"512MiB\" (B, KiB, MiB, GiB, TiB)";
    member(config) = *bytes;
    return {};
  };
}

Setter absolute_path(const Member<std::string>& member) {
  return [=](Config& config, const toml::node& node) -> std::optional<std::string> {
    const auto text = node.value_exact<std::string>();
    if (!text || !text->starts_with('/') || text->ends_with('/')) return "an absolute path";
    member(config) = *text;
    return {};
  };
}

Setter path_or_empty(const Member<std::string>& member) {
  return [=](Config& config, const toml::node& node) -> std::optional<std::string> {
    const auto text = node.value_exact<std::string>();
    if (!text || (!text->empty() && (!text->starts_with('/') || text->ends_with('/'))))
      return "an absolute path, or \"\"";
    member(config) = *text;
    return {};
  };
}

namespace {

// The values of a list whose elements are all of that type and right; none of anything else.
template <typename T, typename IsRight>
std::optional<std::vector<T>> list_of(const toml::node& node, IsRight is_right) {
  const auto* list = node.as_array();
  if (list == nullptr) return {};
  std::vector<T> values;
  for (const auto& element : *list) {
    const auto value = element.value_exact<T>();
    if (!value || !is_right(*value)) return {};
    values.push_back(*value);
  }
  return values;
}

}  // namespace

Setter directories(const Member<std::vector<std::string>>& member) {
  return [=](Config& config, const toml::node& node) -> std::optional<std::string> {
    std::size_t bytes = 0;
    auto paths = list_of<std::string>(node, [&bytes](const std::string& path) {
      bytes += path.size();
      return path.starts_with('/');
    });
    if (!paths || bytes > 16 * 1024) return "a list of absolute paths, in all at most 16 KiB";
    member(config) = std::move(*paths);
    return {};
  };
}

Setter user_names(const Member<std::vector<std::string>>& member) {
  return [=](Config& config, const toml::node& node) -> std::optional<std::string> {
    auto names = list_of<std::string>(node, [](const std::string& name) { return !name.empty(); });
    if (!names || names->size() > 10'000) return "a list of at most 10000 names of users";
    member(config) = std::move(*names);
    return {};
  };
}

Setter group_ids(const Member<std::vector<std::uint64_t>>& member) {
  return [=](Config& config, const toml::node& node) -> std::optional<std::string> {
    const auto ids = list_of<std::int64_t>(node, [](std::int64_t id) {
      return id >= 1 && id < std::numeric_limits<std::uint32_t>::max();
    });
    if (!ids || ids->size() > 1000) return "a list of at most 1000 numbers of groups";
    member(config).assign(ids->begin(), ids->end());
    return {};
  };
}

Setter addresses(const Member<std::vector<std::string>>& member) {
  return [=](Config& config, const toml::node& node) { return to_addresses(node, member(config)); };
}

// "6826-6925"
std::optional<std::string> set_relay_ports(Config& config, const toml::node& node) {
  const std::string allowed = "a range of ports from 1024 on, such as \"6826-6925\"";
  const auto text = node.value_exact<std::string>();
  if (!text) return allowed;
  std::string_view rest = *text;
  const auto first = take_number<std::uint16_t>(rest);
  if (!first || !rest.starts_with('-')) return allowed;
  rest.remove_prefix(1);
  const auto last = take_number<std::uint16_t>(rest);
  if (!last || !rest.empty() || *first < 1024 || *last < *first) return allowed;
  config.relay.ports = {*first, *last};
  return {};
}

std::optional<std::string> set_relay_file_systems(Config& config, const toml::node& node) {
  const std::string allowed = "a list of at most 100 types of file systems, such as [\"nfs4\"]";
  const auto* list = node.as_array();
  if (list == nullptr || list->size() > 100) return allowed;
  std::vector<std::string> types;
  for (const auto& value : *list) {
    const auto text = value.value_exact<std::string>();
    if (!text || text->empty() || text->size() > 64) return allowed;
    types.push_back(*text);
  }
  config.relay.file_systems = std::move(types);
  return {};
}

std::optional<std::string> set_tmpdir_path(Config& config, const toml::node& node) {
  const std::string allowed =
      "an absolute path of which only the last part holds patterns, %j among them "
      "(%j job id, %u user, %r restart count), such as \"/localscratch/%u.%j.0\"";
  const auto text = node.value_exact<std::string>();
  if (!text || !text->starts_with('/') || text->ends_with('/')) return allowed;
  const std::size_t slash = text->rfind('/');
  const std::string name = text->substr(slash + 1);
  if (slash == 0 || text->find('%') < slash || name.find("%j") == std::string::npos) return allowed;
  PatternFacts facts;
  facts.user = "u";
  if (!expand_pattern(name, facts) || names_node(name)) return allowed;
  config.tmpdir.path = *text;
  return {};
}

namespace {

std::optional<std::string> set_user(std::string& user, const toml::node& node) {
  const auto text = node.value_exact<std::string>();
  if (!text || text->empty() || *text == "root") return "the name of a user, not root";
  user = *text;
  return {};
}

}  // namespace

std::optional<std::string> set_peer_user(Config& config, const toml::node& node) {
  return set_user(config.peer.user, node);
}

std::optional<std::string> set_cache_keeper(Config& config, const toml::node& node) {
  return set_user(config.cache.keeper, node);
}

#define MEMBER(path) \
  [](Config & c) -> auto& { return c.path; }

const std::vector<ConfigKey>& all_config_keys() {
  static const std::vector<ConfigKey> k_keys = {
      {"tmpdir", "path", set_tmpdir_path},
      {"tmpdir", "create",
       choice<CreateDirectory>(MEMBER(tmpdir.create), {{"on-request", CreateDirectory::on_request},
                                                       {"always", CreateDirectory::always},
                                                       {"never", CreateDirectory::never}})},
      {"tmpdir", "wait", number(MEMBER(tmpdir.wait_s), 1, 86'400)},
      {"staging", "max_jobs", number(MEMBER(staging.max_jobs), 1, 10'000)},
      {"staging", "max_jobs_per_user", number(MEMBER(staging.max_jobs_per_user), 0, 10'000)},
      {"staging", "threads", number(MEMBER(staging.threads), 0, 1024)},
      {"staging", "leave_free", size(MEMBER(staging.leave_free_bytes))},
      {"staging", "trash_wait", number(MEMBER(staging.trash_wait_s), 0, 3600)},
      {"staging", "space_wait", number(MEMBER(staging.space_wait_s), 0, 86'400)},
      {"staging", "promise_share", number(MEMBER(staging.promise_share_percent), 1, 100)},
      {"staging", "promise_time", number(MEMBER(staging.promise_time_s), 1, 86'400)},
      {"staging", "limit", number(MEMBER(staging.limit_s), 1, 30 * 86'400)},
      {"staging", "groups_wait", number(MEMBER(staging.groups_wait_s), 1, 3600)},
      {"staging", "on_failure",
       choice<OnFailure>(MEMBER(staging.on_failure),
                         {{"fail", OnFailure::fail}, {"continue", OnFailure::proceed}})},
      {"staging", "hints", boolean(MEMBER(staging.hints))},
      {"staging", "users", user_names(MEMBER(staging.users))},
      {"staging", "groups", group_ids(MEMBER(staging.groups))},
      {"read", "max_rate", size(MEMBER(read.max_rate_bytes))},
      {"read", "start_jitter", number(MEMBER(read.start_jitter_s), 0, 3600)},
      {"read", "start_jitter_nodes", number(MEMBER(read.start_jitter_nodes), 1, 1'000'000)},
      {"extract", "escaping",
       choice<Escaping>(MEMBER(extract.escaping),
                        {{"fail", Escaping::fail}, {"skip", Escaping::skip}})},
      {"extract", "special",
       choice<Special>(MEMBER(extract.special),
                       {{"skip", Special::skip}, {"keep", Special::keep}})},
      {"extract", "xattrs", boolean(MEMBER(extract.xattrs))},
      {"extract", "max_entries", number(MEMBER(extract.max_entries), 1, k_no_largest)},
      {"extract", "max_ratio", number(MEMBER(extract.max_ratio), 1, k_no_largest)},
      {"memory", "path", path_or_empty(MEMBER(memory.path))},
      {"memory", "max_share", number(MEMBER(memory.max_share_percent), 1, 100)},
      {"memory", "step_wait", number(MEMBER(memory.step_wait_s), 0, 3600)},
      {"cache", "enabled", boolean(MEMBER(cache.enabled))},
      {"cache", "keep_free", number(MEMBER(cache.keep_free_percent), 0, 100)},
      {"cache", "max_bytes", size(MEMBER(cache.max_bytes))},
      {"cache", "max_age", number(MEMBER(cache.max_age_s), 1, 3650 * 86'400ULL)},
      {"cache", "identify_wait", number(MEMBER(cache.identify_wait_s), 1, 3600)},
      {"cache", "readers_wait", number(MEMBER(cache.readers_wait_s), 1, 86'400)},
      {"cache", "min_age", number(MEMBER(cache.min_age_s), 0, 86'400)},
      {"cache", "never", directories(MEMBER(cache.never))},
      {"cache", "scope",
       choice<ShareScope>(MEMBER(cache.scope),
                          {{"user", ShareScope::user}, {"readers", ShareScope::readers}})},
      {"cache", "keeper", set_cache_keeper},
      {"venv", "build",
       choice<VenvBuild>(MEMBER(venv.build), {{"wheels-only", VenvBuild::wheels_only},
                                              {"off", VenvBuild::off},
                                              {"any", VenvBuild::any}})},
      {"venv", "find_links", directories(MEMBER(venv.find_links))},
      {"venv", "installer",
       choice<VenvInstaller>(MEMBER(venv.installer),
                             {{"pip", VenvInstaller::pip}, {"uv", VenvInstaller::uv}})},
      {"venv", "uv", absolute_path(MEMBER(venv.uv))},
      {"venv", "module_init", path_or_empty(MEMBER(venv.module_init))},
      {"venv", "limit", number(MEMBER(venv.limit_s), 1, 86'400)},
      {"stageout", "epilog_wait", number(MEMBER(stageout.epilog_wait_s), 0, 86'400)},
      {"stageout", "limit", number(MEMBER(stageout.limit_s), 1, 30 * 86'400)},
      {"stageout", "unkept",
       choice<UnkeptOutputs>(MEMBER(stageout.unkept), {{"refuse", UnkeptOutputs::refuse},
                                                       {"deliver", UnkeptOutputs::deliver}})},
      {"stageout", "max_rate", size(MEMBER(stageout.max_rate_bytes))},
      {"stageout", "least_interval", number(MEMBER(stageout.least_interval_s), 1, 86'400)},
      {"stageout", "push_stall", number(MEMBER(stageout.push_stall_s), 1, 86'400)},
      {"stageout", "report",
       choice<ReportTo>(
           MEMBER(stageout.report),
           {{"output", ReportTo::output}, {"file", ReportTo::file}, {"none", ReportTo::none}})},
      {"hold", "days", number(MEMBER(hold.days), 1, 3650)},
      {"hold", "max_bytes", size(MEMBER(hold.max_bytes))},
      {"hold", "max_inodes", number(MEMBER(hold.max_inodes), 0, 1'000'000'000'000)},
      {"hold", "max_jobs", number(MEMBER(hold.max_jobs), 0, 1'000'000)},
      {"hold", "retry_first", number(MEMBER(hold.retry_first_s), 1, 86'400)},
      {"hold", "retry_most", number(MEMBER(hold.retry_most_s), 1, 30 * 86'400)},
      {"hold", "warn_days", number(MEMBER(hold.warn_days), 0, 3650)},
      {"worker", "cgroup",
       choice<UseCgroups>(MEMBER(worker.cgroup),
                          {{"auto", UseCgroups::automatic}, {"off", UseCgroups::off}})},
      {"worker", "sandbox",
       choice<SandboxNeed>(MEMBER(worker.sandbox), {{"available", SandboxNeed::available},
                                                    {"required", SandboxNeed::required}})},
      {"worker", "memory", size(MEMBER(worker.memory_bytes))},
      {"worker", "pids", number(MEMBER(worker.pids), 16, 1'000'000)},
      {"worker", "kill_wait", number(MEMBER(worker.kill_wait_s), 1, 600)},
      {"peer", "barrier",
       choice<UseBarrier>(MEMBER(peer.barrier),
                          {{"auto", UseBarrier::automatic}, {"off", UseBarrier::off}})},
      {"peer", "port", number(MEMBER(peer.port), 1, 65'535)},
      {"peer", "user", set_peer_user},
      {"peer", "begin_wait", number(MEMBER(peer.begin_wait_s), 1, 86'400)},
      {"peer", "silence_wait", number(MEMBER(peer.silence_wait_s), 1, 86'400)},
      {"peer", "on_missing",
       choice<OnMissing>(MEMBER(peer.on_missing),
                         {{"fail", OnMissing::fail}, {"continue", OnMissing::proceed}})},
      {"peer", "outcome_wait", number(MEMBER(peer.outcome_wait_s), 0, 3600)},
      {"peer", "io_wait", number(MEMBER(peer.io_wait_s), 1, 600)},
      {"peer", "max_connections", number(MEMBER(peer.max_connections), 8, 100'000)},
      {"peer", "addresses", addresses(MEMBER(peer.addresses))},
      {"peer", "key_file", path_or_empty(MEMBER(peer.key_file))},
      {"peer", "program", absolute_path(MEMBER(peer.program))},
      {"relay", "enabled", boolean(MEMBER(relay.enabled))},
      {"relay", "least_bytes", size(MEMBER(relay.least_bytes))},
      {"relay", "window", size(MEMBER(relay.window_bytes))},
      {"relay", "chain", number(MEMBER(relay.chain), 2, 100'000)},
      {"relay", "ports", set_relay_ports},
      {"relay", "silence_wait", number(MEMBER(relay.silence_wait_s), 2, 3600)},
      {"relay", "patience", number(MEMBER(relay.patience_s), 1, 3600)},
      {"relay", "answer_wait", number(MEMBER(relay.answer_wait_s), 1, 3600)},
      {"relay", "file_systems", set_relay_file_systems},
      {"relay", "site_rate", size(MEMBER(relay.site_rate_bytes))},
      {"relay", "addresses", addresses(MEMBER(relay.addresses))},
      {"slurm", "scontrol", absolute_path(MEMBER(slurm.scontrol))},
      {"slurm", "answer_wait", number(MEMBER(slurm.answer_wait_s), 1, 600)},
      {"credit", "enabled", boolean(MEMBER(credit.enabled))},
      {"credit", "max", number(MEMBER(credit.max_minutes), 1, 100'000)},
      {"credit", "least", number(MEMBER(credit.least_s), 1, 86'400)},
      {"records", "keep", number(MEMBER(records.keep), 0, 100'000)},
      {"records", "days", number(MEMBER(records.days), 1, 3650)},
      {"metrics", "textfile", path_or_empty(MEMBER(metrics.textfile))},
      {"daemon", "socket", absolute_path(MEMBER(daemon.socket))},
      {"daemon", "state_dir", absolute_path(MEMBER(daemon.state_dir))},
      {"daemon", "worker_path", absolute_path(MEMBER(daemon.worker_path))},
      {"daemon", "request_wait", number(MEMBER(daemon.request_wait_s), 1, 60)},
      {"daemon", "max_connections", number(MEMBER(daemon.max_connections), 16, 100'000)},
      {"daemon", "orphan_check", number(MEMBER(daemon.orphan_check_s), 1, 86'400)},
      {"daemon", "log_level",
       choice<std::string>(
           MEMBER(daemon.log_level),
           {{"debug", "debug"}, {"info", "info"}, {"warning", "warning"}, {"error", "error"}})},
  };
  return k_keys;
}

#undef MEMBER

}  // namespace nodestage
