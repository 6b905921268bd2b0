// The codecs of compress(1), ".Z", and lzip(1), ".lz": filters of libarchive, which reads the input
// by itself.
#include <archive.h>
#include <archive_entry.h>

#include <algorithm>

#include "daemon/worker/decode/codecs.hpp"
#include "daemon/worker/read/buffer.hpp"

namespace nodestage {
namespace {

class LibarchiveCodec final : public Codec {
 public:
  LibarchiveCodec(int filter, const char* cause) : filter_(filter), cause_(cause) {}
  ~LibarchiveCodec() override { archive_read_free(archive_); }

  void read_from(CompressedInput& input) override { input_ = &input; }

  Status begin_frame() override {
    archive_read_free(archive_);
    archive_ = archive_read_new();
    given_ = taken_ = 0;
    has_begun_ = is_short_ = false;
    if (archive_ == nullptr || archive_read_support_format_raw(archive_) != ARCHIVE_OK ||
        archive_read_support_format_empty(archive_) != ARCHIVE_OK ||
        (filter_ == ARCHIVE_FILTER_LZIP
             ? archive_read_support_filter_lzip(archive_)
             : archive_read_support_filter_compress(archive_)) != ARCHIVE_OK)
      return Error{ENOMEM, "no memory"};
    return {};
  }

  Result<Step> decode(Bytes, std::span<std::byte> out) override {
    if (!has_begun_) {
      TRY(check_dictionary());
      const auto read = [](archive*, void* self, const void** data) {
        return static_cast<LibarchiveCodec*>(self)->give(data);
      };
      archive_entry* entry = nullptr;
      const int opened = archive_read_open(archive_, this, nullptr, read, nullptr);
      if (opened == ARCHIVE_OK && archive_filter_code(archive_, 0) != filter_) return fault();
      const int code = opened == ARCHIVE_OK ? archive_read_next_header(archive_, &entry) : opened;
      if (code == ARCHIVE_EOF) return ended();  // of no bytes
      if (code != ARCHIVE_OK) return fault();
      has_begun_ = true;
    }
    const la_ssize_t count = archive_read_data(archive_, out.data(), out.size());
    if (count < 0) return fault();
    return count > 0 ? Step{0, static_cast<std::size_t>(count), false} : ended();
  }

 private:
  // What was given last stays in the input until it was used.
  la_ssize_t give(const void** data) {
    input_->skip(given_);
    taken_ += given_;
    given_ = 0;
    const auto held = input_->ensure(1);
    is_short_ = !held || *held == 0;
    if (!held) return ARCHIVE_FATAL;
    *data = input_->front().data();
    given_ = input_->front().size();
    return static_cast<la_ssize_t>(given_);
  }

  // The input goes on behind what the filter has used.
  Step ended() {
    const auto used = static_cast<std::uint64_t>(std::max<la_int64_t>(
        archive_filter_bytes(archive_, archive_filter_count(archive_) - 1), 0));
    input_->skip(std::min<std::uint64_t>(used - std::min(used, taken_), given_));
    given_ = 0;
    return {0, 0, true};
  }

  // A step that does nothing needs more input: the file is cut off, or cannot be read.
  Result<Step> fault() {
    if (is_short_) return Step{0, 0, false};
    return failed({0, cause_}, 0, 0);
  }

  // libarchive does not tell it from damage.
  Status check_dictionary() {
    if (filter_ != ARCHIVE_FILTER_LZIP) return {};
    TRY_ASSIGN(const std::size_t held, input_->ensure(6));
    const bool is_large =
        held >= 6 && std::to_integer<unsigned>(input_->bytes_at<6>(0)[5] & std::byte{31}) > 27;
    if (is_large) return failed({ENOMEM, "its dictionary is too large"}, 0, 0);
    return {};
  }

  const int filter_;
  const char* const cause_;
  CompressedInput* input_ = nullptr;
  archive* archive_ = nullptr;
  std::size_t given_ = 0;    // bytes of the input's front
  std::uint64_t taken_ = 0;  // bytes of the frame before them
  bool has_begun_ = false;
  bool is_short_ = false;  // the input has ended, or has a fault
};

}  // namespace

std::unique_ptr<Codec> make_compress_codec(CodecLimits) {
  return std::make_unique<LibarchiveCodec>(ARCHIVE_FILTER_COMPRESS, "compress data");
}

std::unique_ptr<Codec> make_lzip_codec(CodecLimits) {
  return std::make_unique<LibarchiveCodec>(ARCHIVE_FILTER_LZIP, "lzip data");
}

bool begins_compress(Bytes bytes) {
  if (bytes.size() < 3) return false;
  const auto settings = std::to_integer<unsigned>(bytes[2]);
  return (settings & 0x60U) == 0 && (settings & 31U) >= 9 && (settings & 31U) <= 16;
}

}  // namespace nodestage
