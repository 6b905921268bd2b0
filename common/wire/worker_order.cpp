#include "common/wire/worker_order.hpp"

#include "common/text/json_fields.hpp"

namespace nodestage {
namespace {

// A worker cannot do anything without these fields.
bool is_required(std::string_view field) {
  return field == "task" || field == "job" || field == "restart" || field == "uid" ||
         field == "gid" || field == "directory";
}

// Calls field(name, member) for each member; serves both directions.
template <typename Order, typename Field>
void each_field(Order& order, Field field) {
  field("task", order.task);
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
  field("leave_free_bytes", order.leave_free_bytes);
  field("start_delay_ms", order.start_delay_ms);
  field("on_failure", order.on_failure);
  field("refuse_outputs", order.refuse_outputs);
  field("refuse_venv", order.refuse_venv);
  field("sandbox", order.sandbox);
  field("extract_escaping", order.extract.escaping);
  field("extract_special", order.extract.special);
  field("extract_max_entries", order.extract.max_entries);
  field("extract_max_ratio", order.extract.max_ratio);
  field("extract_xattrs", order.extract.xattrs);
  field("venv_build", order.venv_build);
  field("venv_installer", order.venv_installer);
  field("venv_find_links", order.venv_find_links);
  field("venv_uv", order.venv_uv);
  field("venv_module_init", order.venv_module_init);
  field("venv_limit_s", order.venv_limit_s);
  field("cache", order.cache);
  field("cache_never", order.cache_never);
  field("cache_min_age_s", order.cache_min_age_s);
  field("is_again", order.is_again);
  field("is_urgent", order.is_urgent);
  field("outcome", order.outcome);
  field("array_job", order.array_job);
  field("array_task", order.array_task);
  field("array_known", order.array_known);
  field("job_name", order.job_name);
  field("ran", order.ran);
  field("delivered", order.delivered);
  field("tries", order.tries);
  field("recover_to", order.recover_to);
  field("staged_ns", order.staged_ns);
  field("keeps_list", order.keeps_list);
  field("push_all", order.push_all);
  field("push_items", order.push_items);
  field("push_names", order.push_names);
  field("has_board", order.has_board);
  field("relay_least_bytes", order.relay_least_bytes);
  field("relay_window", order.relay_window);
  field("relay_file_systems", order.relay_file_systems);
  field("relay_silence_s", order.relay_silence_s);
  field("relay_patience_s", order.relay_patience_s);
  field("relay_plan_s", order.relay_plan_s);
  field("relay_first_port", order.relay_first_port);
  field("relay_last_port", order.relay_last_port);
  field("stdout_path", order.stdout_path);
  field("work_dir", order.work_dir);
  field("lines_to", order.lines_to);
}

}  // namespace

std::string encode_order(const WorkerOrder& order) {
  nlohmann::json json;
  each_field(order, [&json]<typename T>(const char* name, const T& value) {
    json[name] = to_json_value(value);
  });
  // Unlike other lists, users write this one: its texts can be any bytes.
  for (auto& name : json["push_names"]) name = latin1_to_utf8(name.get_ref<const std::string&>());
  json["shared"] = to_json(order.shared);
  return json.dump();
}

Result<WorkerOrder> decode_order(std::string_view text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (json.is_discarded())
    return Error{EINVAL, "the worker's order cannot be read: it is not JSON"};
  JsonFields fields(json);
  WorkerOrder order;
  each_field(order, [&fields](const char* name, auto& value) {
    // During an upgrade, a daemon of the previous release still starts workers of this one: a
    // field that it does not send keeps its default.
    if (fields.has(name) || is_required(name)) fields.read(name, value);
  });
  for (std::string& name : order.push_names) name = utf8_to_latin1(name);
  if (fields.has("shared")) {
    TRY_ASSIGN(order.shared, to_shared_items(fields.value("shared")));
  }
  if (fields.status()) return order;
  return Error{EINVAL, "the worker's order cannot be read: " + fields.status().error().what};
}

}  // namespace nodestage
