// FrameWriter: writes a stream as a zstd file of independent frames of 4 MiB each, compressed by
// several threads and followed by a seek table; or unchanged.
//
// A frame states its content size and has a checksum. 4 MiB is small enough for each thread to
// decode a frame on its own even if four datasets share a worker's memory
// (daemon/worker/decode/zstd_frames.hpp).
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "common/os/file.hpp"
#include "common/result.hpp"
#include "daemon/worker/decode/zstd_frames.hpp"

namespace nodestage {

enum class FrameForm { zstd, plain };

inline constexpr std::size_t k_frame_bytes = std::size_t{4} << 20;

class FrameWriter {
 public:
  // Reads the pipe `from` to its end. Closes it when it stops reading: at the end, at a fault, and
  // after stop(). `to` is borrowed.
  FrameWriter(Fd from, int to, FrameForm form) : from_(std::move(from)), to_(to), form_(form) {}

  // Writes everything with `threads` threads (plain: one), then the seek table.
  Status run(unsigned threads);

  // From any thread: makes run() return soon, with the fault ECANCELED.
  void stop() { stop_ = true; }

  [[nodiscard]] std::uint64_t written() const { return written_; }

 private:
  struct Turn {
    std::uint64_t number;
    std::size_t bytes;
  };
  void work();
  Status work_through();
  Result<Turn> read_next(std::string& content);
  Status write_in_turn(std::uint64_t number, std::string_view data, std::size_t content);
  void fail(const Error& error);

  Fd from_;
  const int to_;
  const FrameForm form_;
  std::atomic<bool> stop_ = false;
  std::atomic<std::uint64_t> written_ = 0;

  std::mutex reading_;
  std::uint64_t next_read_ = 0;

  std::mutex writing_;
  std::condition_variable turn_;
  std::uint64_t next_written_ = 0;
  std::vector<FrameSizes> frames_;
  Status fault_;
};

}  // namespace nodestage
