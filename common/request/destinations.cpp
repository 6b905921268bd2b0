#include "common/request/destinations.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "common/text/archive_names.hpp"
#include "common/text/part_names.hpp"
#include "common/text/path_names.hpp"
#include "common/wire/worker_order.hpp"

namespace nodestage {
namespace {

constexpr const char* k_move =
    "; give one of them another destination: --stage-dataset=SOURCE:DEST";
constexpr const char* k_merge_or_move =
    "; if they are to become one tree, add the key merge to both: "
    "--stage-dataset=SOURCE:DEST,merge; else give one of them another destination: "
    "--stage-dataset=SOURCE:DEST";

// Only the node knows where a glob without a destination goes; the worker checks it.
bool is_open_glob(const DatasetItem& item) {
  return item.destination.empty() && is_glob(item.source);
}

// If one of the destinations is the other or below it, both go to the outer one.
// `sources`: their names, as texts show them.
Status check_apart(const std::string& sources, const std::string& one, const std::string& other,
                   const char* advice) {
  if (!is_below(one, other) && !is_below(other, one)) return {};
  return Error{EEXIST, sources + " would both go to $SLURM_TMPDIR/" +
                           (one.size() < other.size() ? one : other) + advice};
}

Status check_beside_venv(const DatasetItem& item, const VenvItem& venv) {
  if (is_open_glob(item)) return {};
  return check_apart("'" + item.source + "' and the environment '" + venv.source + "'",
                     destination_of(item), venv.destination,
                     "; give one of them another destination: --stage-venv=SOURCE:DEST");
}

Status check_beside(const DatasetItem& item, const DatasetItem& other) {
  if (is_open_glob(item) || is_open_glob(other)) return {};
  const std::string destination = destination_of(item);
  const std::string taken = destination_of(other);
  return check_apart("'" + other.source + "' and '" + item.source + "'", destination, taken,
                     destination == taken ? k_merge_or_move : k_move);
}

// What makes an item read-only.
struct ReadOnlyKey {
  const char* is;    // "shared"
  const char* name;  // of the key
};
constexpr ReadOnlyKey k_shared_key{"shared", "shared"};
constexpr ReadOnlyKey k_mount_key{"mounted", "mount"};

Status check_output(const OutputItem& output, const std::string& source,
                    const std::string& destination, const ReadOnlyKey& key = k_shared_key) {
  if (!is_below(output.source, destination)) return {};
  const std::string is = key.is;
  return Error{EROFS, "no result can be written to $SLURM_TMPDIR/" + output.source + ", because '" +
                          source + "' is " + is + " at $SLURM_TMPDIR/" + destination +
                          ", and what is " + is +
                          " is read-only; write results elsewhere below $SLURM_TMPDIR, or remove "
                          "the key " +
                          key.name};
}

Status check_count_of_images(const StageRequest& request) {
  const auto count = std::count_if(request.datasets.begin(), request.datasets.end(),
                                   [](const DatasetItem& item) { return item.mount; });
  if (static_cast<std::size_t>(count) <= k_max_images) return {};
  return Error{E2BIG, "the key mount is given " + std::to_string(count) +
                          " times, and a job can mount " + std::to_string(k_max_images) +
                          " images at most; put what belongs together into one image"};
}

// "strip=2", or "no strip=".
std::string key_text(const DatasetItem& item, const OptionKey<DatasetItem>& row) {
  const std::string name = row.name;
  const auto no = "no " + name + (*row.value == '\0' || !row.bare.empty() ? "" : "=");
  return std::visit(
      FormCases{[&](const FlagForm<DatasetItem>& form) { return item.*form.member ? name : no; },
                [&](const WordForm<DatasetItem>& form) {
                  const unsigned value = form.get(item);
                  return value == form.get(DatasetItem()) ? no
                                                          : name + "=" + word_of(form.words, value);
                },
                [&](const NumberForm<DatasetItem>& form) {
                  return item.*form.member == 0 ? no
                                                : name + "=" + std::to_string(item.*form.member);
                },
                [&](const TextForm<DatasetItem>& form) {
                  return (item.*form.member).empty() ? no : name + "=" + item.*form.member;
                },
                [&](const ListForm<DatasetItem>& form) {
                  std::string text;
                  for (const std::string& value : item.*form.member)
                    text += (text.empty() ? "" : ",") + name + "=" + value;
                  return text.empty() ? no : text;
                }},
      row.form);
}

Status check_keys_equal(const DatasetItem& first, const DatasetItem& item) {
  for (const auto& row : Option<DatasetItem>::keys) {
    const std::string one = key_text(first, row);
    const std::string other = key_text(item, row);
    if (one == other) continue;
    return Error{EINVAL, "'" + first.source + "' and '" + item.source +
                             "' become one tree at $SLURM_TMPDIR/" + item.destination +
                             " (merge), but one has " + one + " and the other has " + other +
                             "; give both the same keys, or another destination"};
  }
  return {};
}

// The memory is free again when the job ends: what cannot be delivered then could not be kept.
Status check_memory(const OutputItem& output, const DatasetItem& item) {
  const std::string destination = destination_of(item);
  if (!is_below(output.source, destination)) return {};
  return Error{EINVAL, "no result can be delivered from $SLURM_TMPDIR/" + output.source +
                           ", because '" + item.source +
                           "' has in=memory, and results that lie there would be lost if they "
                           "could not be delivered; write results elsewhere below $SLURM_TMPDIR, "
                           "or remove in=memory"};
}

}  // namespace

std::string default_name(std::string_view source, const DatasetItem& item) {
  const Extract extract = item.extract;
  if (item.mount) {
    const std::string image = last_part(without_slashes(std::string(source)));
    const std::size_t suffix = image_suffix(image).size();
    return suffix < image.size() ? image.substr(0, image.size() - suffix) : image;
  }
  if (extract == Extract::no) return last_part(without_slashes(std::string(source)));
  std::string name = default_destination(source);
  const std::size_t suffix = extract == Extract::yes ? compressed_suffix(source).size() : 0;
  if (suffix < name.size()) name.resize(name.size() - suffix);
  return name;
}

std::string destination_of(const DatasetItem& item) {
  if (!item.destination.empty()) return item.destination;
  return default_name(item.join ? whole_of_glob(item.source) : item.source, item);
}

Status add_or_merge(StageRequest& request, DatasetItem item) {
  const auto first =
      std::find_if(request.datasets.begin(), request.datasets.end(), [&item](const auto& one) {
        return one.merge != Merge::none && one.destination == item.destination;
      });
  if (item.merge == Merge::none || first == request.datasets.end()) {
    request.datasets.push_back(std::move(item));
    return {};
  }
  TRY(check_keys_equal(*first, item));
  if (item.newest != 0)
    return Error{EINVAL, "newest= chooses among the matches of one glob, and '" + first->source +
                             "' and '" + item.source +
                             "' are two options; name both in one, with braces: {a,b}/*.tar"};
  first->also.push_back(std::move(item.source));
  return {};
}

Status check_shared(const StageRequest& request) {
  TRY(check_count_of_images(request));
  for (const DatasetItem& item : request.datasets) {
    if (item.storage == Storage::memory) {
      for (const OutputItem& output : request.outputs) TRY(check_memory(output, item));
    }
    if (!item.shared && !item.mount) continue;
    if (is_open_glob(item) && !item.join)
      return Error{EINVAL, "'" + item.source +
                               "' is a glob without a destination: each match would go to a name "
                               "of its own, and only one can be shared; give it a destination: "
                               "--stage-dataset=SOURCE:DEST,shared"};
    if (item.writable) continue;
    for (const OutputItem& output : request.outputs)
      TRY(check_output(output, item.source, destination_of(item),
                       item.mount ? k_mount_key : k_shared_key));
  }
  if (!request.venv || !request.venv->shared) return {};
  for (const OutputItem& output : request.outputs)
    TRY(check_output(output, request.venv->source, request.venv->destination));
  return {};
}

Status check_together(const StageRequest& request) {
  std::size_t sources = request.venv ? 1 : 0;
  for (const DatasetItem& item : request.datasets) sources += 1 + item.also.size();
  if (sources > k_max_request_items || request.outputs.size() > k_max_request_items) {
    return Error{E2BIG, "more than " + std::to_string(k_max_request_items) + " of one option"};
  }
  std::set<std::string> names;
  for (std::size_t i = 0; i < request.datasets.size(); ++i) {
    const DatasetItem& item = request.datasets[i];
    for (std::size_t k = 0; k < i; ++k) TRY(check_beside(item, request.datasets[k]));
    if (request.venv) TRY(check_beside_venv(item, *request.venv));
    const std::string name = item.name.empty() ? variable_name(destination_of(item)) : item.name;
    if (!names.insert(name).second) {
      return Error{EEXIST, "two datasets would be named by the variable NODESTAGE_DATASET_" + name +
                               "; give one of them another name: --stage-dataset=SOURCE,name=NAME"};
    }
  }
  return check_shared(request);
}

}  // namespace nodestage
