// Entries of an archive, with those of the archives in it: `nested`.
//
// A member that is an archive by its name and by its content becomes a directory of its name
// without the suffix, and its entries come below that, in place of itself. A tar is read while the
// outer archive is, from the same blocks; what has to seek (zip, 7z) is copied to an unnamed
// file first, one for each level, which each such member of the level uses again. It is emptied
// when the member ends.
//
// What is named like an archive and is none comes as the file that it is, and so does a link, a
// checkpoint, and whatever lies deeper than `levels`. If it is empty, that is a fault. Of an
// archive of which the filter takes nothing, only the directory comes, and of one whose own name it
// excludes the file: the caller's filter then drops them.
#pragma once

#include <memory>
#include <optional>

#include "common/request/request.hpp"
#include "common/wire/worker_order.hpp"
#include "daemon/worker/archive/entry_filter.hpp"
#include "daemon/worker/archive/entry_limits.hpp"
#include "daemon/worker/archive/nested_member.hpp"
#include "daemon/worker/decode/decoder.hpp"
#include "daemon/worker/read/source.hpp"

namespace nodestage {

struct NestedRules {
  unsigned levels = 1;
  TarEnd end = TarEnd::required;
  ExtractRules rules = {};              // a copy is limited as what is written of the archive is
  std::optional<NestedRoom> room = {};  // empty: what has to seek comes as a file, for an estimate
  std::shared_ptr<const EntryFilter> filter = {};  // null: all is wanted
  DecoderLimits decoding{1};  // of one large compressed archive at a time, beside the outer one's
};

// The size of a name's part before its suffix if it is that of an archive to extract, and something
// is left: "train/n01" of "train/n01.tar.gz"; otherwise 0.
std::size_t nested_stem(std::string_view name);

// The entries of `outer`, which was opened from `source` (borrowed), and of the archives in it.
// Their names have the member's before them, and faults name both: "/p/outer.tar: entry
// 'train/n01.tar': …". Data of what is in an inner archive come from read().
std::unique_ptr<Entries> open_nested_entries(std::unique_ptr<Entries> outer, const Source& source,
                                             const NestedRules& rules);

}  // namespace nodestage
