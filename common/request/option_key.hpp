// OptionKey: the row of one key of an option, such as strip= of --stage-dataset. option_items.hpp
// has the tables. Parsing and its messages (key_text.hpp), the request's JSON (request.hpp), the
// keys of shared datasets (daemon/worker/share/dataset_key.hpp) and the shells' completion
// (conf/completion) are made from the rows. Tests compare the manual and the cheat sheet with them.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "common/text/words.hpp"

namespace nodestage {

// What a key does to the tree that is staged.
enum class TreeEffect {
  none,
  changes,   // It is a part of the key of a shared item.
  unshared,  // It changes the tree, and is refused together with `shared`.
};

// How a key is written, and which member of the item it sets. An item that does not have the key
// has the default value of the member: false, 0, or empty.
template <typename Item>
struct FlagForm {  // It has no value.
  bool Item::*member;
};

template <typename Item>
struct WordForm {  // made by word_form()
  std::span<const Word> words;
  unsigned (*get)(const Item&);
  void (*set)(Item&, unsigned);
};

enum class NumberUnit { count, seconds };
template <typename Item>
struct NumberForm {
  unsigned Item::*member;
  unsigned least;
  unsigned most;
  NumberUnit unit = NumberUnit::count;
};

enum class TextKind { variable, directory, program };
template <typename Item>
struct TextForm {
  std::string Item::*member;
  TextKind kind;
};

enum class ListKind { globs, modules };
template <typename Item>
struct ListForm {  // The key can be repeated.
  std::vector<std::string> Item::*member;
  ListKind kind;
};

template <typename Item>
struct OptionKey {
  const char* name;
  const char* value;  // as messages show it, such as "N"; "": the key has none
  std::variant<FlagForm<Item>, WordForm<Item>, NumberForm<Item>, TextForm<Item>, ListForm<Item>>
      form;
  TreeEffect tree;
  const char* help;  // a few words, without '|' and quotes
  const char* json = name;
};

template <typename Item, auto member>
constexpr WordForm<Item> word_form(std::span<const Word> words) {
  return {words, [](const Item& item) { return static_cast<unsigned>(item.*member); },
          [](Item& item, unsigned value) {
            item.*member = static_cast<std::remove_reference_t<decltype(item.*member)>>(value);
          }};
}

// For std::visit on a form.
template <typename... Cases>
struct FormCases : Cases... {
  using Cases::operator()...;
};
template <typename... Cases>
FormCases(Cases...) -> FormCases<Cases...>;

// The number of members of an aggregate: one that has neither a row nor another use is a mistake.
struct AnyMember {
  template <typename Value>
  operator Value() const;  // NOLINT: it is only asked whether it would convert
};
template <typename Item, typename... Members>
constexpr std::size_t members_of() {
  if constexpr (requires { Item{Members{}..., AnyMember{}}; })
    return members_of<Item, Members..., AnyMember>();
  else
    return sizeof...(Members);
}

}  // namespace nodestage
