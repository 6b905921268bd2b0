#include "common/request/key_text.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "common/request/option_parts.hpp"
#include "common/request/venv_environment.hpp"
#include "common/text/did_you_mean.hpp"
#include "common/text/duration.hpp"
#include "common/text/glob_text.hpp"
#include "common/text/human.hpp"
#include "common/text/name_pattern.hpp"
#include "common/text/parsing.hpp"
#include "common/text/path_names.hpp"

namespace nodestage {
namespace {

constexpr unsigned k_day_s = 86'400;

struct KeyText {
  std::string key;
  std::string value;
  bool has_value = false;

  [[nodiscard]] std::string text() const { return key + "=" + value; }
};

KeyText split_key(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos) return {text, "", false};
  return {text.substr(0, equals), text.substr(equals + 1), true};
}

// Adds the options that have the key.
template <typename Item>
void add_owner(std::string& owners, const std::string& key) {
  const auto& keys = Option<Item>::keys;
  if (std::any_of(std::begin(keys), std::end(keys),
                  [&](const auto& row) { return key == row.name; }))
    owners.append(owners.empty() ? "" : " and ").append("--").append(Option<Item>::name);
}

template <typename Item>
Error unknown_key(const std::string& key) {
  if (key.empty())
    return wrong_form(
        "a key is missing after a comma: remove the comma, or write \\, for one "
        "inside a path",
        Option<Item>::example);
  std::string owners;
  add_owner<DatasetItem>(owners, key);
  add_owner<OutputItem>(owners, key);
  add_owner<VenvItem>(owners, key);
  std::vector<std::string_view> names;
  std::string keys;
  for (const auto& row : Option<Item>::keys) {
    const std::string_view value = row.value;
    keys.append(names.empty() ? "" : ", ").append(row.name).append(value.empty() ? "" : "=");
    names.emplace_back(row.name);
  }
  const std::string meant =
      owners.empty() ? did_you_mean(key, names) : ": it is a key of " + owners;
  const bool may_be_a_path = meant.empty();
  return Error{EINVAL,
               "unknown key '" + key + "'" + meant +
                   (may_be_a_path ? "; write \\, for a comma inside a path" : ""),
               "keys: " + keys + "; more: man 7 nodestage"};
}

// "always, success or failure"
std::string list_of(const std::vector<std::string_view>& words) {
  std::string list;
  for (const auto& word : words) {
    if (&word != &words.front()) list += &word == &words.back() ? " or " : ", ";
    list += word;
  }
  return list;
}

Result<unsigned> to_word(const KeyText& entry, std::span<const Word> words,
                         std::string_view example) {
  if (const auto value = value_of(words, entry.value)) return *value;
  const std::vector<std::string_view> names = texts_of(words);
  // A word that is the only one needs no guess.
  const std::string meant = names.size() > 1 ? did_you_mean(entry.value, names) : "";
  return wrong_form(entry.text() + meant + ": only " + list_of(names), example);
}

template <typename Item>
Result<unsigned> to_count(const KeyText& entry, const NumberForm<Item>& form) {
  const auto value = parse_number<unsigned>(entry.value);
  if (value && *value >= form.least && *value <= form.most) return *value;
  const std::string most = form.most < 10'000 ? std::to_string(form.most) : human_count(form.most);
  return Error{EINVAL, entry.text() + ": a number from " + std::to_string(form.least) + " to " +
                           most + " is needed"};
}

template <typename Item>
Result<unsigned> to_seconds(const KeyText& entry, const NumberForm<Item>& form) {
  const auto seconds = parse_duration(entry.value);
  if (seconds && *seconds >= form.least && *seconds <= form.most)
    return static_cast<unsigned>(*seconds);
  return Error{EINVAL, entry.text() + ": a time from " + std::to_string(form.least) +
                           " second to " + std::to_string(form.most / k_day_s) +
                           " days is needed, such as 900, 90s, 15m, 1h or 2d"};
}

// "python3.11" and "3.11" are names, which are looked up in PATH, as a shell does.
Result<std::string> to_program(const std::string& text, const SubmitPlace& place) {
  const bool is_version = text.find_first_not_of("0123456789.") == std::string::npos;
  const std::string name = is_version ? "python" + text : text;
  if (is_program_name(name)) return name;
  return absolute_path(text, place);
}

// Braces are several globs.
Status add_globs(const KeyText& entry, std::vector<std::string>& globs) {
  TRY_ASSIGN(const auto texts, brace_texts(entry.value));
  globs.insert(globs.end(), texts.begin(), texts.end());
  if (globs.size() <= k_max_request_items) return {};
  return Error{E2BIG, entry.key + "= has more than " + human_count(k_max_request_items) +
                          " globs (braces stand for several); write '*' for what varies"};
}

// "python/3.11+gcc" is two modules.
Status add_modules(const KeyText& entry, std::vector<std::string>& modules,
                   std::string_view example) {
  std::string_view rest = entry.value;
  for (;;) {
    const std::size_t plus = rest.find('+');
    const std::string_view name = rest.substr(0, plus);
    if (name.empty() || name.starts_with('-'))
      return wrong_form(entry.key + "=: the name of a module is missing; several are joined by '+'",
                        example);
    modules.emplace_back(name);
    if (plus == std::string_view::npos) return {};
    rest.remove_prefix(plus + 1);
  }
}

// Sets a value. FlagForm is the only form without one.
template <typename Item>
struct SetValue {
  Item& item;
  const KeyText& entry;
  const SubmitPlace& place;

  Status operator()(const FlagForm<Item>& form) const {
    item.*form.member = true;
    return {};
  }

  Status operator()(const WordForm<Item>& form) const {
    TRY_ASSIGN(const unsigned value, to_word(entry, form.words, Option<Item>::example));
    form.set(item, value);
    return {};
  }

  Status operator()(const NumberForm<Item>& form) const {
    const bool is_time = form.unit == NumberUnit::seconds;
    TRY_ASSIGN(item.*form.member, is_time ? to_seconds(entry, form) : to_count(entry, form));
    return {};
  }

  Status operator()(const TextForm<Item>& form) const {
    switch (form.kind) {
      case TextKind::variable:
        item.*form.member = variable_name(entry.value);
        break;
      case TextKind::directory: {
        TRY_ASSIGN(item.*form.member, absolute_path(entry.value, place));
        break;
      }
      case TextKind::program: {
        TRY_ASSIGN(item.*form.member, to_program(entry.value, place));
        break;
      }
    }
    return {};
  }

  Status operator()(const ListForm<Item>& form) const {
    std::vector<std::string>& list = item.*form.member;
    return form.kind == ListKind::globs ? add_globs(entry, list)
                                        : add_modules(entry, list, Option<Item>::example);
  }
};

}  // namespace

std::string key_name(const std::string& text) { return split_key(text).key; }

template <typename Item>
Status set_key(Item& item, const std::string& text, const SubmitPlace& place) {
  const KeyText entry = split_key(text);
  for (const auto& row : Option<Item>::keys) {
    if (entry.key != row.name) continue;
    const bool is_flag = std::holds_alternative<FlagForm<Item>>(row.form);
    if (is_flag && entry.has_value)
      return wrong_form("the key '" + entry.key + "' takes no value", Option<Item>::example);
    if (!is_flag && entry.value.empty())
      return wrong_form("the key '" + entry.key + "' needs a value: " + entry.key + "=...",
                        Option<Item>::example);
    return std::visit(SetValue<Item>{item, entry, place}, row.form);
  }
  return unknown_key<Item>(entry.key);
}

template Status set_key(DatasetItem&, const std::string&, const SubmitPlace&);
template Status set_key(OutputItem&, const std::string&, const SubmitPlace&);
template Status set_key(VenvItem&, const std::string&, const SubmitPlace&);

}  // namespace nodestage
