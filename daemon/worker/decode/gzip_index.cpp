#include "daemon/worker/decode/gzip_index.hpp"

#include <zstd.h>

#include <algorithm>
#include <array>

#include "common/text/fnv1a.hpp"
#include "common/text/human.hpp"
#include "daemon/worker/decode/inflater.hpp"
#include "daemon/worker/read/opened_sources.hpp"

namespace nodestage {
namespace {

constexpr std::string_view k_index_magic = "nodestage-index\n";
constexpr std::uint32_t k_version = 1;
constexpr std::uint32_t k_gzip = 1;
constexpr std::size_t k_head_bytes = 48;
constexpr std::size_t k_place_bytes = 24;
constexpr std::size_t k_crc_bytes = 4;
constexpr std::size_t k_most_packed = k_index_window + k_index_window / 8;
constexpr std::uint64_t k_ranges = 16;
constexpr std::uint64_t k_range_bytes = 4096;
constexpr int k_level = 3;

void put_crc(std::string& text) {
  put_little_endian(text, crc32_of(std::as_bytes(std::span(text))));
}

bool has_crc(Bytes bytes) {
  const std::size_t size = bytes.size() - k_crc_bytes;
  return crc32_of(bytes.first(size)) == little_endian(bytes, size);
}

// Fewer bytes if the file is shorter. Neither progress nor paid for from the node's rate.
Result<std::vector<std::byte>> fetch(const Source& file, std::uint64_t offset, std::size_t size) {
  static const std::atomic<bool> k_never = false;
  std::vector<std::byte> bytes(size);
  TRY_ASSIGN(const Source::Fetched fetched, file.fetch_at(offset, bytes, k_never));
  bytes.resize(fetched.bytes);
  return bytes;
}

std::vector<std::byte> unpacked(Bytes packed) {
  std::vector<std::byte> window(k_index_window);
  const std::size_t size =
      ::ZSTD_decompress(window.data(), window.size(), packed.data(), packed.size());
  if (::ZSTD_isError(size) != 0 || size != window.size()) window.clear();
  return window;
}

}  // namespace

Result<GzipIndexHead> index_head_of(const Source& file) {
  GzipIndexHead head{file.size(), file.info().st_mtim.tv_sec, fnv1a("")};
  const std::uint64_t last = head.size - std::min(head.size, k_range_bytes);
  for (std::uint64_t i = 0; i < k_ranges; ++i) {
    TRY_ASSIGN(const auto range, fetch(file, last / (k_ranges - 1) * i, k_range_bytes));
    const std::string_view text(reinterpret_cast<const char*>(range.data()), range.size());
    head.sample = fnv1a(text, head.sample);
  }
  return head;
}

std::string encode_index_head(const GzipIndexHead& head) {
  std::string text(k_index_magic);
  put_little_endian(text, k_version);
  put_little_endian(text, k_gzip);
  put_little_endian(text, head.size);
  put_little_endian(text, head.mtime);
  put_little_endian(text, head.sample);
  put_crc(text);
  return text;
}

Result<std::string> encode_place(const GzipPlace& place) {
  std::string packed;
  if (!place.window.empty()) {
    packed.resize(::ZSTD_compressBound(place.window.size()));
    const std::size_t size = ::ZSTD_compress(packed.data(), packed.size(), place.window.data(),
                                             place.window.size(), k_level);
    if (::ZSTD_isError(size) != 0) return Error{ENOMEM, ::ZSTD_getErrorName(size)};
    packed.resize(size);
  }
  std::string text;
  put_little_endian(text, place.bit);
  put_little_endian(text, place.data);
  put_little_endian(text, place.member);
  put_little_endian(text, static_cast<std::uint32_t>(packed.size()));
  text += packed;
  put_crc(text);
  return text;
}

GzipIndex::Found GzipIndex::beside(const Source& file) {
  if (opened_items() != nullptr) return {};  // this process opens nothing by its path
  auto opened = Source::open(file.path() + std::string(k_gzip_index_suffix), file.meter());
  const int code = opened ? 0 : opened.error().code;
  if (code == ENOENT || code == ENAMETOOLONG) return {};
  // Who cannot open it can hardly make it anew.
  if (!opened)
    return {nullptr, "its index is ignored: " +
                         (code == EINVAL ? "it is no file"
                                         : system_error("it cannot be opened", code).what)};
  return check(std::move(*opened), file);
}

GzipIndex::Found GzipIndex::check(Source opened, const Source& file) {
  std::shared_ptr<GzipIndex> index(new GzipIndex(std::move(opened), file));
  const auto trouble = index->check_head(file);
  if (!trouble) return {nullptr, note_of(file.path(), "it cannot be read")};
  if (*trouble != Trouble::none) return {nullptr, note_of(file.path(), cause_of(*trouble))};
  index->go_on();
  if (!index->next_) return {nullptr, note_of(file.path(), cause_of(Trouble::damaged))};
  return {std::move(index), ""};
}

Result<GzipIndex::Trouble> GzipIndex::check_head(const Source& file) {
  TRY_ASSIGN(const auto bytes, read(k_head_bytes + k_crc_bytes));
  const std::string_view start(reinterpret_cast<const char*>(bytes.data()),
                               std::min(bytes.size(), k_index_magic.size()));
  if (bytes.size() < k_head_bytes + k_crc_bytes || start != k_index_magic || !has_crc(bytes))
    return Trouble::damaged;
  constexpr std::size_t k_version_at = 16;
  constexpr std::size_t k_coding_at = 20;
  if (little_endian(bytes, k_version_at) != k_version ||
      little_endian(bytes, k_coding_at) != k_gzip)
    return Trouble::version;
  const GzipIndexHead head{little_endian<std::uint64_t>(bytes, 24),
                           little_endian<std::int64_t>(bytes, 32),
                           little_endian<std::uint64_t>(bytes, 40)};
  if (head.size != file.size() || head.mtime != file.info().st_mtim.tv_sec)
    return Trouble::other_file;
  TRY_ASSIGN(const GzipIndexHead now, index_head_of(file));
  return head.sample == now.sample ? Trouble::none : Trouble::other_file;
}

// Fewer bytes at the end.
Result<std::vector<std::byte>> GzipIndex::read(std::size_t size) {
  TRY_ASSIGN(auto bytes, fetch(index_, read_, size));
  read_ += bytes.size();
  return bytes;
}

// Nothing: the end, or it is damaged.
std::optional<GzipPlace> GzipIndex::take_place() {
  const auto damaged = [this] {
    trouble_ = Trouble::damaged;
    return std::nullopt;
  };
  auto bytes = read(k_place_bytes);
  if (!bytes || bytes->size() < k_place_bytes) return damaged();
  const auto packed = little_endian(*bytes, k_place_bytes - 4);
  if (packed > k_most_packed) return damaged();
  const auto rest = read(packed + k_crc_bytes);
  if (!rest || rest->size() < packed + k_crc_bytes) return damaged();
  bytes->insert(bytes->end(), rest->begin(), rest->end());
  if (!has_crc(*bytes)) return damaged();
  GzipPlace place{little_endian<std::uint64_t>(*bytes), little_endian<std::uint64_t>(*bytes, 8),
                  little_endian(*bytes, 16),
                  unpacked(Bytes(*bytes).subspan(k_place_bytes, packed))};
  if (place.bit == 0) return std::nullopt;
  const GzipPlace none;
  const GzipPlace& before = here_ ? *here_ : none;
  const std::uint64_t data = place.member == before.member ? before.data : 0;
  const bool is_right = place.window.size() == k_index_window && place.bit / 8 < file_size_ &&
                        place.bit / 8 >= before.bit / 8 + k_least_indexed_input &&
                        place.member >= before.member && place.data >= k_least_indexed_output &&
                        place.data - k_least_indexed_output >= data;
  if (!is_right) return damaged();
  return place;
}

void GzipIndex::go_on() {
  here_ = std::move(next_);
  next_ = take_place();
}

GzipIndex::Piece GzipIndex::piece_at(std::uint64_t offset, std::size_t most_input,
                                     std::size_t most_output) {
  if (trouble_ != Trouble::none) return {most_input, std::nullopt};
  if (next_ && next_->bit / 8 == offset) go_on();
  if (!next_) return {most_input, std::nullopt};
  const std::uint64_t size = next_->bit / 8 - offset;
  if (size > most_input) return {most_input, std::nullopt};
  const auto input = static_cast<std::size_t>(size);
  const bool is_stretch = here_ && here_->bit / 8 == offset && here_->member == next_->member &&
                          next_->data - here_->data <= most_output;
  if (!is_stretch) return {input, std::nullopt};
  return {input, GzipStretch{here_->bit, next_->bit,
                             static_cast<std::size_t>(next_->data - here_->data), here_->window}};
}

std::string_view GzipIndex::cause_of(Trouble trouble) {
  switch (trouble) {
    case Trouble::none:
      break;
    case Trouble::other_file:
      return "it was made for another file";
    case Trouble::version:
      return "another release made it";
    case Trouble::damaged:
      return "it is damaged";
    case Trouble::no_fit:
      return "it does not fit";
  }
  return "";
}

std::string GzipIndex::note_of(const std::string& file, std::string_view cause) {
  return "its index is ignored: " + std::string(cause) + " (make it anew: nodestage pack --index " +
         shell_word(shown(file)) + ")";
}

std::string GzipIndex::note() const {
  const Trouble trouble = trouble_;
  return trouble == Trouble::none ? "" : note_of(file_, cause_of(trouble));
}

}  // namespace nodestage
