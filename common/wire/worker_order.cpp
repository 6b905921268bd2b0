#include "common/wire/worker_order.hpp"

#include <algorithm>
#include <concepts>
#include <type_traits>
#include <utility>

#include "common/text/json_fields.hpp"

namespace nodestage {

// Calls field(name, member) for each member of that kind of order; serves both directions.
template <typename Order>
requires std::derived_from<std::remove_const_t<Order>, OrderHead>
static void each_field(Order& order, auto field) {
  field("job", order.job);
  field("restart", order.restart);
  field("uid", order.uid);
  field("gid", order.gid);
  field("user", order.user);
  field("node", order.node);
  field("node_index", order.node_index);
  field("node_count", order.node_count);
  field("directory", order.directory);
  field("threads", order.threads);
  if constexpr (requires { order.sandbox; }) field("sandbox", order.sandbox);
  if constexpr (requires { order.extract; }) {
    field("extract_escaping", order.extract.escaping);
    field("extract_special", order.extract.special);
    field("extract_max_entries", order.extract.max_entries);
    field("extract_max_ratio", order.extract.max_ratio);
    field("extract_xattrs", order.extract.xattrs);
    field("venv_build", order.venv.build);
    field("venv_installer", order.venv.installer);
    field("venv_find_links", order.venv.find_links);
    field("venv_uv", order.venv.uv);
    field("venv_module_init", order.venv.module_init);
    field("venv_limit_s", order.venv.limit_s);
    field("cache", order.cache);
    field("cache_never", order.cache_never);
    field("cache_min_age_s", order.cache_min_age_s);
    field("for_readers", order.for_readers);
    field("hands_over", order.hands_over);
    field("only_items", order.only_items);
    field("only_groups", order.only_groups);
    field("refuse_user", order.refuse_user);
  }
  if constexpr (requires { order.on_failure; }) {
    field("leave_free_bytes", order.leave_free_bytes);
    field("start_delay_ms", order.start_delay_ms);
    field("on_failure", order.on_failure);
    field("refuse_outputs", order.refuse_outputs);
    field("refuse_venv", order.refuse_venv);
    field("shared", order.shared);
    field("is_again", order.is_again);
    field("memory_directory", order.memory.directory);
    field("memory_refusal", order.memory.refusal);
    field("memory_share", order.memory.share_percent);
    field("memory_most", order.memory.most_bytes);
    field("image_mounts", order.images.mounts);
    field("image_refusal", order.images.refusal);
  }
  if constexpr (requires { order.relay; }) {
    field("has_board", order.has_board);
    field("relay_least_bytes", order.relay.least_bytes);
    field("relay_window", order.relay.window_bytes);
    field("relay_file_systems", order.relay.file_systems);
    field("relay_silence_s", order.relay.silence_wait_s);
    field("relay_patience_s", order.relay.patience_s);
    field("relay_plan_s", order.relay.answer_wait_s);
    field("relay_first_port", order.relay.ports.first);
    field("relay_last_port", order.relay.ports.last);
    field("relay_site_rate", order.relay.site_rate_bytes);
  }
  if constexpr (requires { order.job_name; }) {
    field("job_name", order.job_name);
    field("array_job", order.array_job);
    field("array_task", order.array_task);
    field("array_known", order.array_known);
  }
  if constexpr (requires { order.outcome; }) {
    field("outcome", order.outcome);
    field("ran", order.ran);
    field("delivered", order.delivered);
    field("tries", order.tries);
    field("held_since", order.held_since);
    field("keeps_list", order.keeps_list);
    field("staged_ns", order.staged_ns);
  }
  if constexpr (requires { order.push_all; }) {
    field("push_all", order.push_all);
    field("push_items", order.push_items);
    field("push_names", order.push_names);
    field("shows_total", order.shows_total);
  }
  if constexpr (std::same_as<std::remove_const_t<Order>, ServeOrder>) field("images", order.images);
  if constexpr (requires { order.recover_to; }) field("recover_to", order.recover_to);
  if constexpr (requires { order.is_urgent; }) field("is_urgent", order.is_urgent);
  if constexpr (requires { order.stdout_path; }) field("stdout_path", order.stdout_path);
  if constexpr (requires { order.work_dir; }) field("work_dir", order.work_dir);
  if constexpr (requires { order.lines_to; }) {
    field("lines_to", order.lines_to);
    field("output_job", order.output_job);
  }
}

std::vector<int> worker_descriptors(int null, int log,
                                    std::initializer_list<WorkerDescriptor> given,
                                    const std::vector<int>& fuse_fds) {
  std::vector<int> descriptors(k_worker_started_fd + 1, null);
  descriptors[1] = descriptors[2] = log;
  for (const auto& [number, fd] : given)
    if (fd >= 0) descriptors[static_cast<std::size_t>(number)] = fd;
  std::copy_n(fuse_fds.begin(), std::min(fuse_fds.size(), k_max_images),
              descriptors.begin() + k_worker_fuse_fd);
  return descriptors;
}

std::string lines_file_name(std::uint32_t job) {
  return "nodestage-" + std::to_string(job) + ".log";
}

namespace {

// A worker cannot do anything without these fields.
bool is_required(std::string_view field) {
  return field == "job" || field == "restart" || field == "uid" || field == "gid" ||
         field == "directory";
}

Error unreadable(const Status& status) {
  return Error{EINVAL, "the worker's order cannot be read: " + status.error().what};
}

// During an upgrade, a daemon of the previous release still starts workers of this one: a field
// that it does not send keeps its default, and those of other tasks are passed over.
template <typename Order>
Status read_order(const nlohmann::json& json, Order& order) {
  JsonFields fields(json);
  fields.read_record(order, is_required);
  return fields.status() ? Status() : unreadable(fields.status());
}

template <std::size_t... index>
WorkerOrder blank_alternative(std::size_t wanted, std::index_sequence<index...>) {
  WorkerOrder order;
  static_cast<void>(
      ((index == wanted && (static_cast<void>(order.emplace<index>()), true)) || ...));
  return order;
}

}  // namespace

WorkerOrder blank_order(WorkerTask task) {
  return blank_alternative(to_number(task),
                           std::make_index_sequence<std::variant_size_v<WorkerOrder>>());
}

std::string encode_order(const WorkerOrder& order) {
  auto json = std::visit([](const auto& one) { return to_json_record(one); }, order);
  json["task"] = order.index();
  return json.dump();
}

DeliveryOrder* delivery_of(WorkerOrder& order) {
  return std::visit(
      []<typename Order>(Order& one) -> DeliveryOrder* {
        if constexpr (std::derived_from<Order, DeliveryOrder>) return &one;
        return nullptr;
      },
      order);
}

Result<WorkerOrder> decode_order(std::string_view text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  WorkerTask task{};
  JsonFields fields(json);
  fields.read("task", task);
  if (!fields.status()) return unreadable(fields.status());
  WorkerOrder order = blank_order(task);
  TRY(std::visit([&json](auto& one) { return read_order(json, one); }, order));
  return order;
}

Result<StageOutOrder> decode_stage_out(std::string_view text) {
  StageOutOrder order;
  TRY(read_order(nlohmann::json::parse(text, nullptr, false), order));
  return order;
}

}  // namespace nodestage
