// Original: a source on the file system where it lies, read with the rights of the job's user.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "common/result.hpp"
#include "common/wire/relay_board.hpp"
#include "daemon/worker/relay/peer_socket.hpp"

namespace nodestage {

class Original {
 public:
  Original() = default;
  Original(const Original&) = delete;
  Original& operator=(const Original&) = delete;
  virtual ~Original() = default;

  // Reads at least one byte at `offset`, and returns how many; 0 where the source ends. Can hang as
  // long as its file system does.
  virtual Result<std::size_t> read_at(std::uint64_t offset, std::span<std::byte> into) = 0;

  // The time by which it is measured how fast this file system is.
  [[nodiscard]] virtual RelayClock::time_point now() const { return RelayClock::now(); }

  // Drops what this node's memory has of the first `bytes`, so that the file system is asked for
  // them.
  virtual void forget(std::uint64_t bytes) { static_cast<void>(bytes); }
};

using OpenOriginal =
    std::function<Result<std::unique_ptr<Original>>(const std::string&, const RelayIdentity&)>;

// Refuses what is not a regular file, or not the one that the identity describes.
Result<std::unique_ptr<Original>> open_original(const std::string& path,
                                                const RelayIdentity& identity);

// Refuses what is not a directory that can be read here, or not the one that was identified.
Status check_original_directory(const std::string& path, const RelayIdentity& identity);

}  // namespace nodestage
