// A gzip file and an index of it, decoded by one thread without the index and by several with it:
// both return the same data, or find a fault. The checksums of what the input says are made right,
// since no input would get beyond them.
//
//   u16 size of the gzip file | that file | u8 form
//   form 0: what follows the index's head, as it is
//   other forms: places: u32 bit | u32 bytes before it | u8 member | u8 window: 0 is the right one
#include <algorithm>
#include <string_view>

#include "daemon/worker/decode/decoder.hpp"
#include "daemon/worker/decode/gzip_index.hpp"
#include "gzip_seen.hpp"

using namespace nodestage;

namespace {

constexpr std::size_t k_place_bytes = 10;

enum class By { one_thread, index };

GzipSeen decoded(const MemoryFile& file, By by, const MemoryFile* index_file) {
  Reading reading;
  auto source = Source::open(file.path(), reading.meter);
  require(static_cast<bool>(source));
  constexpr std::size_t k_memory = std::size_t{64} << 20;
  auto decoder = Decoder::open(*source, {by == By::index ? 3U : 1U, k_memory});
  require(static_cast<bool>(decoder));
  if (decoder->coding() != Coding::gzip) return {};
  if (by == By::index) {
    auto opened = Source::open(index_file->path(), reading.meter);
    require(static_cast<bool>(opened));
    auto found = GzipIndex::check(std::move(*opened), *source);
    require((found.index == nullptr) != found.note.empty());
    decoder->use(std::move(found.index));
  }
  return seen_of(*decoder, source->size());
}

std::uint64_t number_at(std::string_view text, std::size_t at, std::size_t bytes) {
  std::uint64_t number = 0;
  for (std::size_t i = bytes; i-- > 0;)
    number = number << 8 | static_cast<unsigned char>(text[at + i]);
  return number;
}

std::string places_of(std::string_view text, const std::string& data) {
  std::string index;
  for (; text.size() >= k_place_bytes; text.remove_prefix(k_place_bytes)) {
    GzipPlace place;
    place.bit = number_at(text, 0, 4);
    place.data = number_at(text, 4, 4);
    place.member = static_cast<std::uint32_t>(number_at(text, 8, 1));
    place.window.assign(k_index_window, std::byte{0});
    if (text[9] == 0 && place.data >= k_index_window && place.data <= data.size()) {
      const auto right =
          std::as_bytes(std::span(data)).subspan(place.data - k_index_window, k_index_window);
      std::copy(right.begin(), right.end(), place.window.begin());
    }
    index += *encode_place(place);
  }
  return index + *encode_place({});
}

std::string head_of(const MemoryFile& file) {
  Reading reading;
  const auto source = Source::open(file.path(), reading.meter);
  require(static_cast<bool>(source));
  return encode_index_head(*index_head_of(*source));
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = text_of(data, size);
  if (size < 3) return 0;
  const std::size_t gzip = std::min<std::size_t>(number_at(text, 0, 2), size - 3);
  const MemoryFile file(text.substr(2, gzip));
  const bool is_as_it_is = text[2 + gzip] == 0;
  const std::string_view rest = text.substr(3 + gzip);
  const GzipSeen one = decoded(file, By::one_thread, nullptr);
  const MemoryFile index(head_of(file) +
                         (is_as_it_is ? std::string(rest) : places_of(rest, one.data)));
  const GzipSeen many = decoded(file, By::index, &index);
  require_same(one, many);
  return 0;
}
