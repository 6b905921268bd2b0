// JsonFields: reads the members of one JSON object, as WireDecoder reads a message. After the first
// member that is missing or wrong, every further value stays unchanged, and status() names that
// member.
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
  // Borrows `object`. A value that is not an object has no members.
  explicit JsonFields(const nlohmann::json& object) : object_(object) {}

  [[nodiscard]] bool has(const char* name) const { return object_.contains(name); }

  // Converts the member as read_json_value() does.
  template <typename T>
  void read(const char* name, T& value) {
    const nlohmann::json* found = find(name);
    if (found != nullptr && !read_json_value(*found, value)) refuse(name, "is wrong");
  }

  // Reads a string without conversion, as UTF-8.
  void read_utf8(const char* name, std::string& value) {
    const nlohmann::json* found = find(name);
    if (found != nullptr && !read_json_utf8(*found, value)) refuse(name, "is not a string");
  }

  // Reads the members that each_field() names. Without one for which `is_required(name)` is false,
  // such as one that an earlier release did not know, the record's member keeps its value.
  template <JsonRecord Record, typename IsRequired>
  void read_record(Record& record, IsRequired is_required) {
    each_field(record, [&](const char* name, auto& member) {
      if (has(name) || is_required(name)) read(name, member);
    });
  }

  // The member of that name, for example an object; a null value if it is missing.
  const nlohmann::json& value(const char* name) {
    static const nlohmann::json k_null;
    const nlohmann::json* found = find(name);
    return found == nullptr ? k_null : *found;
  }
  // The list of that name, whose elements the caller reads; an empty list if it is not a list.
  const nlohmann::json& list(const char* name) {
    static const nlohmann::json k_empty = nlohmann::json::array();
    const nlohmann::json& found = value(name);
    if (found.is_array()) return found;
    refuse(name, "is not a list");
    return k_empty;
  }

  // Rejects the value of a member, for `why`.
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
