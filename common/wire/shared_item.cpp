#include "common/wire/shared_item.hpp"

#include "common/text/json_fields.hpp"

namespace nodestage {

nlohmann::json to_json(const std::vector<SharedItem>& items) {
  nlohmann::json list = nlohmann::json::array();
  for (const SharedItem& shared : items) {
    list.push_back({{"item", shared.item},
                    {"role", shared.role},
                    {"key", to_json_value(shared.key)},
                    {"path", to_json_value(shared.path)},
                    {"note", to_json_value(shared.note)}});
  }
  return list;
}

Result<std::vector<SharedItem>> to_shared_items(const nlohmann::json& json) {
  std::vector<SharedItem> items;
  if (!json.is_array()) return Error{EINVAL, "'shared' is not a list"};
  for (const auto& element : json) {
    JsonFields fields(element);
    SharedItem& shared = items.emplace_back();
    fields.read("item", shared.item);
    fields.read("role", shared.role);
    fields.read("key", shared.key);
    fields.read("path", shared.path);
    fields.read("note", shared.note);
    TRY(fields.status());
  }
  return items;
}

}  // namespace nodestage
