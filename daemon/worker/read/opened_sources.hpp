// Source files that another process has opened: how the keeper gets at what it has no right to open
// itself.
//
// A process of the job's user opens the files of an item, which proves that the user may read them
// now, and hands them over on a SOCK_SEQPACKET socket. Each message is a HandedSource and, of a
// file, its path; a file's descriptor travels with it. The last message of an item has none. The
// receiver believes nothing of it: what a descriptor leads to is looked at by the receiver, and a
// path is a name to show and to recognize an archive by.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/os/file.hpp"
#include "common/result.hpp"

namespace nodestage {

struct OpenedSource {
  std::string path;  // as the user gave it
  Fd fd;
};

struct OpenedItem {
  std::vector<OpenedSource> sources;
  bool is_group = false;  // the matches of a glob
};

using OpenedItems = std::map<std::uint32_t, OpenedItem>;  // by the item's index in the request
using OpenedByText = std::map<std::string, OpenedItem>;   // by the source as the request has it

inline constexpr std::size_t k_most_handed_over = 256;  // sources of an item

// Borrows the descriptor. Waits while the receiver has not read what was sent before.
Status hand_over(int socket, std::uint32_t item, const std::string& path, int fd);
Status end_item(int socket, std::uint32_t item, bool is_group);

// Receives until the sender has closed its end, or until all of `only` are complete, if it names
// any items. An item counts if it is complete, if all its descriptors are of regular files open for
// reading, and if each has a path of its own; without a group, there is one. What `is_of_site`
// denies is asked nothing: neither it nor its file may be on a file system of the user's (FUSE),
// which may not answer. Closes the rest, which can block for the same reason.
using IsOfSite = std::function<bool(int fd)>;
Result<OpenedItems> receive_items(int socket, const IsOfSite& is_of_site,
                                  const std::vector<std::uint32_t>& only = {});

// From now on, this process reads these items' sources and opens none by its path: find_sources(),
// examine_source() and Source::open() know no others. Without items, it opens sources again. Where
// the user gave one text or path to two files, one is read for both, and does not have the key of
// the other.
void read_opened_only(std::optional<OpenedByText> items);

// For these functions: the items; null if this process opens its sources itself.
const OpenedByText* opened_items();
// The descriptor of one of their sources, borrowed; -1 if it is none of them.
int opened_source(const std::string& path);

// Finds the files that a dataset's source means.
struct FoundSources {
  std::vector<std::string> paths;
  bool is_group = false;       // `paths` are the sorted matches of a glob
  std::uint64_t specials = 0;  // FIFOs, sockets, and devices that match, and are none of `paths`
  std::string whole = {};      // not "": `paths` are the parts of this file, in order
  std::string note = {};       // then: for the user, or ""
};

// Finds the files of a source, which is a glob only if no file has exactly that name. Each name
// that its braces stand for must exist, or match something. A match in a directory that is another
// match is left out. A directory that cannot be searched is a fault, unless it is one that
// `excludes` leaves out: by its path below the start of the glob. Faults include advice for the
// user.
Result<FoundSources> find_sources(const std::string& source,
                                  std::function<bool(const std::string& below)> excludes = {});

}  // namespace nodestage
