// A value of each key of an option that is not its default one.
#pragma once

#include "common/request/option_items.hpp"

template <typename Item>
void set_other(Item& item, const nodestage::OptionKey<Item>& row) {
  using namespace nodestage;
  std::visit(FormCases{[&](const FlagForm<Item>& form) { item.*form.member = true; },
                       [&](const WordForm<Item>& form) {
                         for (const Word& word : form.words)
                           if (word.value != form.get(Item())) form.set(item, word.value);
                       },
                       [&](const NumberForm<Item>& form) { item.*form.member = form.most; },
                       [&](const TextForm<Item>& form) { item.*form.member = "/x"; },
                       [&](const ListForm<Item>& form) {
                         item.*form.member = {"x", "y"};
                       }},
             row.form);
}
