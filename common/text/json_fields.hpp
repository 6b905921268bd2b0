// JsonFields: reads the members of one JSON object, as WireDecoder reads a message. After the first
// member that is missing or wrong, every further value stays unchanged, and status() names that
// member.
#pragma once

#include <cerrno>
#include <concepts>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/reflection.hpp"
#include "common/result.hpp"
#include "common/text/encodings.hpp"

namespace nodestage {

// Texts that can be any bytes, such as the paths that users type, where a list of texts is
// otherwise in UTF-8.
struct ByteTexts : std::vector<std::string> {
  using std::vector<std::string>::vector;
  ByteTexts(std::vector<std::string> texts)  // NOLINT: it says no more than they do
      : std::vector<std::string>(std::move(texts)) {}
};

// Converts values of our own JSON documents (orders, journal entries, reports) to C++ values and
// back: one form for each type.
//
//   std::string                   a string; it can be any bytes: each becomes the code point of its
//                                 value
//   std::vector<std::string>      a list of strings in UTF-8
//   ByteTexts                     a list of strings that can be any bytes, as above
//   bool, double, integer, enum   true or false, a number
//   std::optional<integer>        a number, or null
//   std::vector<std::uint64_t>    a list of numbers
//   std::vector<JsonRecord>       a list of objects with the members that its each_field() names
//
// nlohmann's get<T>() casts any number to T: 1e40 as an int is undefined behavior, 300 as a byte is
// 44. read_json_value() refuses a number that T cannot hold and a value of another type, and throws
// nothing.
struct IgnoreField {
  template <typename Member>
  void operator()(const char*, Member&) const {}
};
// A struct with a function each_field(record, field) beside it, which calls field(name, member) for
// each member; it serves both directions.
template <typename T>
concept JsonRecord = requires(T& record) {
  each_field(record, IgnoreField());
};

template <typename T>
inline constexpr bool is_list = false;
template <typename Element>
inline constexpr bool is_list<std::vector<Element>> = true;
template <typename T>
inline constexpr bool is_optional = false;
template <typename Value>
inline constexpr bool is_optional<std::optional<Value>> = true;

template <typename T>
nlohmann::json to_json_value(const T& value);

// All members, those that are false or empty, too.
template <JsonRecord Record>
nlohmann::json to_json_record(const Record& record) {
  auto json = nlohmann::json::object();
  each_field(record,
             [&json](const char* name, const auto& member) { json[name] = to_json_value(member); });
  return json;
}

template <typename T>
nlohmann::json to_json_value(const T& value) {
  if constexpr (std::same_as<T, std::string>) {
    return latin1_to_utf8(value);
  } else if constexpr (JsonRecord<const T>) {
    return to_json_record(value);
  } else if constexpr (is_optional<T>) {
    return value ? nlohmann::json(*value) : nlohmann::json(nullptr);
  } else if constexpr (std::same_as<T, ByteTexts> ||
                       (is_list<T> && !std::same_as<T, std::vector<std::string>>)) {
    auto list = nlohmann::json::array();
    for (const auto& element : value) list.push_back(to_json_value(element));
    return list;
  } else {
    return value;
  }
}

// Returns false, and leaves `value` unchanged or partly read, if `json` is not a T. A record must
// have all members, but for those that it may_lack(record, name), which keep their values.
template <typename T>
bool read_json_value(const nlohmann::json& json, T& value);

template <typename T>
bool read_json_integer(const nlohmann::json& json, T& value) {
  const bool fits = json.is_number_unsigned()
                        ? std::in_range<T>(json.get<nlohmann::json::number_unsigned_t>())
                        : json.is_number_integer() &&
                              std::in_range<T>(json.get<nlohmann::json::number_integer_t>());
  if (fits) value = json.get<T>();
  return fits;
}

template <RangedEnum T>
bool read_json_enum(const nlohmann::json& json, T& value) {
  std::uint64_t number = 0;
  if (!read_json_integer(json, number)) return false;
  const auto known = to_enum<T>(number);
  if (known) value = *known;
  return known.has_value();
}

inline bool read_json_utf8(const nlohmann::json& json, std::string& value) {
  const auto* text = json.get_ptr<const std::string*>();
  if (text != nullptr) value = *text;
  return text != nullptr;
}

inline bool read_json_bytes(const nlohmann::json& json, std::string& value) {
  const auto* text = json.get_ptr<const std::string*>();
  if (text != nullptr) value = utf8_to_latin1(*text);
  return text != nullptr;
}

template <JsonRecord Record>
bool read_json_record(const nlohmann::json& json, Record& record) {
  bool is_read = true;
  each_field(record, [&](const char* name, auto& member) {
    const auto found = json.find(name);
    if constexpr (requires { may_lack(record, name); })
      if (found == json.end() && may_lack(record, name)) return;
    is_read = is_read && found != json.end() && read_json_value(*found, member);
  });
  return is_read;
}

template <typename List, typename Read>
bool read_json_list(const nlohmann::json& json, List& value, Read read) {
  List list;
  if (!json.is_array()) return false;
  for (const auto& element : json) {
    if (!read(element, list.emplace_back())) return false;
  }
  value = std::move(list);
  return true;
}

template <typename T>
bool read_json_value(const nlohmann::json& json, T& value) {
  if constexpr (std::same_as<T, std::string>) {
    return read_json_bytes(json, value);
  } else if constexpr (std::same_as<T, bool>) {
    if (json.is_boolean()) value = json.get<bool>();
    return json.is_boolean();
  } else if constexpr (std::same_as<T, double>) {
    if (json.is_number()) value = json.get<double>();
    return json.is_number();
  } else if constexpr (std::is_enum_v<T>) {
    return read_json_enum(json, value);
  } else if constexpr (std::is_integral_v<T>) {
    return read_json_integer(json, value);
  } else if constexpr (is_optional<T>) {
    value.reset();
    return json.is_null() || read_json_value(json, value.emplace());
  } else if constexpr (JsonRecord<T>) {
    return read_json_record(json, value);
  } else if constexpr (std::same_as<T, std::vector<std::string>>) {
    return read_json_list(json, value, read_json_utf8);
  } else {
    return read_json_list(json, value,
                          [](const auto& from, auto& to) { return read_json_value(from, to); });
  }
}

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
