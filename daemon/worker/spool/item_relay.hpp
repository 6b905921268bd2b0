// ItemRelay: what became of the relay of one item's sources, for its record and its note.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "daemon/worker/budget/meter.hpp"
#include "daemon/worker/spool/relayed_source.hpp"
#include "daemon/worker/spool/relayed_sources.hpp"
#include "daemon/worker/spool/relayed_tree.hpp"

namespace nodestage {

// For any thread. Borrows everything.
class ItemRelay {
 public:
  // `sources` is null if nothing is relayed.
  ItemRelay(RelayedSources* sources, Meter& meter) : sources_(sources), meter_(meter) {}
  ItemRelay(const ItemRelay&) = delete;
  ItemRelay& operator=(const ItemRelay&) = delete;

  // Asks for the relay of an open source that is read next, from `offset` on. Returns null if the
  // original must be read.
  std::unique_ptr<RelayedSource> begin(const std::string& path, int fd, const struct stat& info,
                                       std::uint64_t offset);

  // The same for a directory; `wanted` is a fingerprint of what is wanted of it (relay_board.hpp).
  std::unique_ptr<RelayedTree> begin_directory(const std::string& path, int fd,
                                               const struct stat& info, std::uint64_t wanted);

  // Call it when a source of begin() or begin_directory() is closed.
  void add(const RelayedSource::Outcome& outcome);

  // Returns whether a relay was asked for any source of this item.
  [[nodiscard]] bool was_asked() const;

  // Returns a text for the user: where the data came from instead, or from which node; or "".
  [[nodiscard]] std::string note() const;

 private:
  RelayedSources* const sources_;
  Meter& meter_;
  mutable std::mutex mutex_;  // over what follows
  bool was_asked_ = false;
  std::string node_;  // from which most came
  std::uint64_t from_node_ = 0;
  std::string why_;  // the first reason for reading the original
};

}  // namespace nodestage
