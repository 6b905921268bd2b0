// Items with the key `shared`: staged once on a node, and found there by every further job of the
// same user that asks for the same. Their sources are archives, other files, directories, and lists
// of requirements.
//
// The way of such an item:
//   1. The worker task `identify` opens the source as the user and writes into the item's record
//      (status_file.hpp): flag k_item_shared; `name`: its key, or "" if it must not be kept, and
//      then `note`: why; `what`: the last part of its destination; bytes_total: of its source.
//   2. The daemon decides what the job does with it: ShareRole.
//   3. The worker task `stage` learns it from StageOrder::shared. An item that it staged to be kept
//      has the flag k_item_whole, and one that it only linked k_item_linked.
//   4. The daemon moves a whole item into the cache by one exchange of names, which leaves the link
//      in the job directory.
//
// The cache is ROOT/.nodestage-cache, beside the job directories:
//   <uid>.<random>/        root's, 0711; an earlier release's: <uid>.<key>
//     <name>               the tree or the file, the user's, without write bits (a directory: 0500)
//   <uid>.<random>.record  root's, 0600; says the key; an entry without it does not count
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/enum_range.hpp"
#include "common/wire/is.hpp"

namespace nodestage {

inline constexpr std::size_t k_share_key_bytes = 32;  // lowercase hexadecimal digits

enum class ShareRole {
  own,   // stage it read-only for this job alone; `note` says why
  lead,  // stage it to be kept at `path`
  link,  // it is there: link to `path`
};
constexpr EnumRange<ShareRole> range_of(ShareRole) { return {ShareRole::own, ShareRole::link}; }

struct SharedItem {
  std::uint32_t item = 0;  // its index among the request's items: datasets, then the environment
  ShareRole role = ShareRole::own;
  std::string key;   // as identified; empty for `own`
  std::string path;  // absolute, of the tree or file in the cache; empty for `own`
  // For the summary: "staged by job 4711", why it is not shared, or why for no other user.
  std::string note;
  bool for_readers = false;  // the entry is for all who may read the source
  // `link`, staged for this job by another process: what that has staged. Else 0.
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;
  std::uint64_t elapsed_ms = 0;

  bool operator==(const SharedItem&) const = default;
};

// For documents that hold such items: a worker's order, the journal.
void each_field(Is<SharedItem> auto& shared, auto field) {
  field("item", shared.item);
  field("role", shared.role);
  field("key", shared.key);
  field("path", shared.path);
  field("note", shared.note);
  field("for_readers", shared.for_readers);
  field("files", shared.files);
  field("bytes", shared.bytes);
  field("elapsed_ms", shared.elapsed_ms);
}

// The journal of an earlier daemon does not have them.
constexpr bool may_lack(const SharedItem&, std::string_view name) {
  return name == "for_readers" || name == "files" || name == "bytes" || name == "elapsed_ms";
}

// Whether a request can have such an item. A request that says so in other words than
// encode_request() is staged without sharing.
inline bool may_share(std::string_view request) {
  return request.find("\"shared\":true") != std::string_view::npos;
}

// Whether a request can have an item with in=memory; in other words than encode_request(), it is
// refused by the worker.
inline bool may_be_in_memory(std::string_view request) {
  return request.find("\"in\":\"memory\"") != std::string_view::npos;
}

}  // namespace nodestage
