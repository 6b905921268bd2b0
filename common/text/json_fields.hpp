// JsonFields: reads the members of one JSON object, as WireDecoder reads a message: after the first
// that is missing or wrong all others stay as they are, and status() says which one it was.
#pragma once

#include <cerrno>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "common/result.hpp"
#include "common/text/json_value.hpp"

namespace nodestage {

class JsonFields {
 public:
  // Borrowed. What is no object has no members.
  explicit JsonFields(const nlohmann::json& object) : object_(object) {}

  [[nodiscard]] bool has(const char* name) const { return object_.contains(name); }

  // As read_json_value().
  template <typename T>
  void read(const char* name, T& value) {
    const nlohmann::json* found = find(name);
    if (found != nullptr && !read_json_value(*found, value)) refuse(name, "is wrong");
  }

  // A text as it stands there, in UTF-8.
  void read_utf8(const char* name, std::string& value) {
    const nlohmann::json* found = find(name);
    if (found == nullptr) return;
    const auto* text = found->get_ptr<const std::string*>();
    if (text == nullptr) return refuse(name, "is no text");
    value = *text;
  }

  // The object or list of that name; a null value in its place.
  const nlohmann::json& value(const char* name) {
    static const nlohmann::json k_null;
    const nlohmann::json* found = find(name);
    return found == nullptr ? k_null : *found;
  }
  // Its elements are to be read one by one; what is no list has none.
  const nlohmann::json& list(const char* name) {
    static const nlohmann::json k_empty = nlohmann::json::array();
    const nlohmann::json& found = value(name);
    if (found.is_array()) return found;
    refuse(name, "is no list");
    return k_empty;
  }

  // By the caller, whom a value does not suit.
  void refuse(const char* name, const char* why) {
    if (status_) status_ = Error{EINVAL, std::string("'") + name + "' " + why};
  }

  [[nodiscard]] const Status& status() const { return status_; }

 private:
  const nlohmann::json* find(const char* name) {
    if (!status_) return nullptr;
    const auto found = object_.find(name);
    if (found != object_.end()) return &*found;
    refuse(name, "is missing");
    return nullptr;
  }

  const nlohmann::json& object_;
  Status status_;
};

}  // namespace nodestage
