#include "daemon/worker/share/dataset_key.hpp"

#include "common/text/fnv1a.hpp"
#include "common/text/human.hpp"
#include "common/text/path_names.hpp"

namespace nodestage {
namespace {

void add_value(ShareKey& key, const DatasetItem& item, const OptionKey<DatasetItem>& row) {
  using Item = DatasetItem;
  std::visit(
      FormCases{[&](const FlagForm<Item>& form) { key.add(row.name, item.*form.member ? 1U : 0U); },
                [&](const WordForm<Item>& form) { key.add(row.name, form.get(item)); },
                [&](const NumberForm<Item>& form) { key.add(row.name, item.*form.member); },
                [&](const TextForm<Item>& form) {
                  key.add(row.name, std::string_view(item.*form.member));
                },
                [&](const ListForm<Item>& form) { key.add(row.name, item.*form.member); }},
      row.form);
}

bool is_given(const DatasetItem& item, const OptionKey<DatasetItem>& row) {
  using Item = DatasetItem;
  const Item none;
  return std::visit(
      FormCases{[&](const WordForm<Item>& form) { return form.get(item) != form.get(none); },
                [&](const auto& form) { return item.*form.member != none.*form.member; }},
      row.form);
}

}  // namespace

// A name with an archive's suffix is that of an archive, or a fault.
std::string dataset_name(const DatasetItem& item, const std::string& source) {
  if (!item.destination.empty()) return last_part(item.destination);
  return item.extract == Extract::no ? last_part(source) : default_destination(source);
}

ShareKey dataset_key(const DatasetItem& item, bool is_group, const std::string& first,
                     const ShareRules& rules) {
  ShareKey key(rules, is_group ? "datasets" : "dataset", dataset_name(item, first));
  if (is_group && item.destination.empty())
    key.refuse("several files are kept only below one destination: --stage-dataset=SOURCE:DEST");
  for (const auto& row : Option<DatasetItem>::keys)
    if (row.tree == TreeEffect::changes) add_value(key, item, row);
  return key;
}

TreeLook dataset_tree(const DatasetItem& item, const std::string& path, int fd,
                      const ShareRules& rules) {
  const EntryFilter filter(0, {}, item.exclude);
  SourceTrust trust(rules.order.cache_never);
  const LinksOut links = item.links == Links::follow ? LinksOut::followed : LinksOut::kept;
  return look_at_tree(path, fd, {filter, links, rules.order.threads, trust, rules.copy_stop});
}

std::uint64_t file_mark(const DatasetItem& item, const std::string& path, int fd,
                        const ShareRules& rules) {
  ShareKey key = dataset_key(item, false, path, rules);
  add_source(key, path, fd);
  const SourceIdentity identity = key.identity();
  return identity.why_not.empty() ? fnv1a(identity.key) : 0;
}

std::uint64_t directory_mark(const DatasetItem& item, int fd) {
  for (const auto& row : Option<DatasetItem>::keys)
    if (row.tree == TreeEffect::changes && is_given(item, row)) return 0;
  const auto look = look_at(fd);
  if (!look) return 0;
  return fnv1a(std::to_string(look->device) + " " + std::to_string(look->file_system) + " " +
               std::to_string(look->inode));
}

// The name matters in a group, and says of a single file whether it claims to be an archive.
void add_source(ShareKey& key, const std::string& path, int fd) {
  key.add("source", std::string_view(last_part(path)));
  key.add_copied_file(path, fd);
}

void add_source(ShareKey& key, const std::string& path, const TreeLook& tree) {
  key.add("source", std::string_view(last_part(path)));
  key.add_tree(path, tree);
}

}  // namespace nodestage
