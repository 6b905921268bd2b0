#include "cli/pack/frame_writer.hpp"

#include <poll.h>
#include <unistd.h>
#include <zstd.h>

#include <exception>
#include <memory>
#include <system_error>
#include <thread>

#include "common/os/file.hpp"

namespace nodestage {
namespace {

constexpr int k_level = 3;
constexpr int k_stop_poll_ms = 100;

Error canceled() { return {ECANCELED, "it was stopped"}; }

Status check(std::size_t result) {
  if (ZSTD_isError(result) == 0) return {};
  return Error{ENOMEM, std::string("zstd: ") + ZSTD_getErrorName(result)};
}

// Compresses into `out`.
class Compressor {
 public:
  Compressor() : context_(ZSTD_createCCtx(), ZSTD_freeCCtx) {}

  Status prepare() {
    if (!context_) return Error{ENOMEM, "no memory"};
    TRY(check(ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_compressionLevel, k_level)));
    return check(ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_checksumFlag, 1));
  }

  // Compresses in one call, so that the frame's header has the content size.
  Status compress(std::string_view content, std::string& out) {
    out.resize(ZSTD_compressBound(content.size()));
    const std::size_t size =
        ZSTD_compress2(context_.get(), out.data(), out.size(), content.data(), content.size());
    TRY(check(size));
    out.resize(size);
    return {};
  }

 private:
  std::unique_ptr<ZSTD_CCtx, std::size_t (*)(ZSTD_CCtx*)> context_;
};

}  // namespace

Status FrameWriter::run(unsigned threads) {
  std::vector<std::thread> others;
  try {
    for (unsigned i = 1; i < threads && form_ == FrameForm::zstd; ++i)
      others.emplace_back([this] { work(); });
  } catch (const std::system_error&) {  // go on with fewer threads
  }
  work();
  for (auto& thread : others) thread.join();
  from_.reset();
  TRY(fault_);
  if (form_ == FrameForm::plain) return {};
  const std::string table = encode_seek_table(frames_);
  TRY(write_all(to_, table));
  written_ += table.size();
  return {};
}

void FrameWriter::work() {
  try {
    if (const Status done = work_through(); !done) fail(done.error());
  } catch (const std::exception& fault) {  // no memory
    fail(Error{ENOMEM, fault.what()});
  }
}

Status FrameWriter::work_through() {
  Compressor compressor;
  TRY(compressor.prepare());
  std::string content;
  std::string packed;
  for (;;) {
    TRY_ASSIGN(const Turn turn, read_next(content));
    // An empty archive is one empty frame: a file without frames is not a zstd file.
    if (turn.bytes == 0 && turn.number > 0) return {};
    if (form_ == FrameForm::zstd) TRY(compressor.compress(content, packed));
    TRY(write_in_turn(turn.number, form_ == FrameForm::zstd ? packed : content, turn.bytes));
    if (turn.bytes < k_frame_bytes) return {};
  }
}

// Turn::bytes is 0 at the end.
Result<FrameWriter::Turn> FrameWriter::read_next(std::string& content) {
  const std::lock_guard lock(reading_);
  content.resize(k_frame_bytes);
  std::size_t done = 0;
  while (done < content.size()) {
    pollfd on{from_.get(), POLLIN, 0};
    if (stop_) return canceled();
    if (::poll(&on, 1, k_stop_poll_ms) <= 0) continue;
    const ssize_t count = ::read(from_.get(), content.data() + done, content.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return system_error("pipe");
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  content.resize(done);
  return Turn{next_read_++, done};
}

Status FrameWriter::write_in_turn(std::uint64_t number, std::string_view data,
                                  std::size_t content) {
  std::unique_lock lock(writing_);
  turn_.wait(lock, [&] { return stop_ || next_written_ == number; });
  if (stop_) return canceled();
  TRY(write_all(to_, data));
  written_ += data.size();
  frames_.push_back({static_cast<std::uint32_t>(data.size()), static_cast<std::uint32_t>(content)});
  ++next_written_;
  turn_.notify_all();
  return {};
}

void FrameWriter::fail(const Error& error) {
  stop_ = true;
  const std::lock_guard lock(writing_);
  if (fault_) fault_ = error;
  turn_.notify_all();
}

}  // namespace nodestage
