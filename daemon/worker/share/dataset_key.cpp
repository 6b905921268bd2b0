#include "daemon/worker/share/dataset_key.hpp"

#include "common/text/human.hpp"
#include "common/text/path_names.hpp"

namespace nodestage {

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
  key.add("extract", static_cast<unsigned>(item.extract));
  key.add("strip", item.strip);
  key.add("include", item.include);
  key.add("exclude", item.exclude);
  key.add("eof", item.eof == TarEnd::optional ? 1U : 0U);
  key.add("links", item.links == Links::follow ? 1U : 0U);
  return key;
}

// The name matters in a group, and says of a single file whether it claims to be an archive.
void add_source(ShareKey& key, const std::string& path, int fd) {
  key.add("source", std::string_view(last_part(path)));
  key.add_copied_file(path, fd);
}

}  // namespace nodestage
