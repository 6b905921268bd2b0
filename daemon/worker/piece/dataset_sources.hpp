// What a dataset's options mean now: which paths, and which entries of a directory.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/request/request.hpp"
#include "daemon/worker/piece/newest.hpp"
#include "daemon/worker/read/find_sources.hpp"

namespace nodestage {

struct DatasetSources {
  std::vector<std::string> paths;
  bool is_group = false;               // `paths` are the sorted matches of a glob
  std::optional<NewestChoice> newest;  // of a group: `paths` again
  std::string note = {};               // for the user, or ""
};

// The files of item.source, without what item.exclude leaves out of the search of a glob.
Result<FoundSources> find_sources(const DatasetItem& item);

// Faults include advice for the user.
Result<DatasetSources> dataset_sources(const DatasetItem& item);

// For a worker that goes on after another one has chosen: a text that holds the choice, and the
// same sources with that choice, where entries have only their names. Nothing from another text.
std::string text_of_choice(const DatasetSources& sources);
std::optional<DatasetSources> sources_of_choice(const DatasetItem& item, const std::string& text);

}  // namespace nodestage
