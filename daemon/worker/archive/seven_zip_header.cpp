#include <lzma.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "common/text/human.hpp"
#include "daemon/worker/archive/archive_entries.hpp"
#include "daemon/worker/archive/container.hpp"
#include "daemon/worker/archive/zip_index.hpp"

namespace nodestage {
namespace {

using namespace std::string_view_literals;

constexpr std::uint64_t k_most_header = std::uint64_t{256} << 20;  // of some million files
constexpr int k_most_codings = 4;                                  // of a header, in each other

enum class SevenZipId : unsigned char {
  end = 0,
  header = 1,
  archive_properties = 2,
  more_streams = 3,
  main_streams = 4,
  files = 5,
  pack_info = 6,
  unpack_info = 7,
  substreams = 8,
  sizes = 9,
  checksums = 10,
  folder = 11,
  unpack_sizes = 12,
  streams_of_folders = 13,
  coded_header = 23,
};

struct SevenZipCoder {
  std::string_view method;
  std::string_view properties;
  std::uint64_t inputs = 1;
  std::uint64_t outputs = 1;
};

struct SevenZipFolder {
  std::vector<SevenZipCoder> coders;
  std::uint64_t outputs = 0;
  std::uint64_t unpacked = 0;  // the largest of its streams
  std::uint64_t streams = 1;   // files in it
  bool has_checksum = false;
};

struct SevenZipStreams {
  std::uint64_t position = 0;
  std::uint64_t packed = 0;  // the first stream
  std::vector<SevenZipFolder> folders;
};

// Takes what a header has, one after the other. What is read beyond its end, or cannot be right,
// makes it wrong: then all numbers are 0.
class SevenZipReader {
 public:
  explicit SevenZipReader(std::string_view rest) : rest_(rest) {}

  [[nodiscard]] bool is_wrong() const { return is_wrong_; }
  [[nodiscard]] bool is_at(SevenZipId id) const {
    return !rest_.empty() && rest_.front() == static_cast<char>(id);
  }

  std::string_view bytes(std::uint64_t count) {
    if (count > rest_.size()) is_wrong_ = true;
    if (is_wrong_) return {};
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }
  unsigned char byte() {
    const std::string_view taken = bytes(1);
    return taken.empty() ? 0 : static_cast<unsigned char>(taken.front());
  }
  bool take(SevenZipId id) {
    if (!is_at(id)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect(SevenZipId id) { is_wrong_ = !take(id) || is_wrong_; }

  std::uint64_t number() {
    const unsigned char first = byte();
    const auto more = static_cast<std::size_t>(std::countl_one(first));
    const std::string_view low = bytes(more);
    std::uint64_t value = 0;
    for (std::size_t i = low.size(); i-- > 0;)
      value = value << 8 | static_cast<unsigned char>(low[i]);
    if (more < 7) value |= std::uint64_t{first & (0x7fU >> more)} << 8 * more;
    return is_wrong_ ? 0 : value;
  }

  // The number of things that take at least `least` bytes each of what follows.
  std::uint64_t count(std::uint64_t least = 1) {
    const std::uint64_t value = number();
    if (value > rest_.size() / least) is_wrong_ = true;
    return is_wrong_ ? 0 : value;
  }

  // The same for what takes nothing there but is one of `most`.
  std::uint64_t count_of(std::uint64_t most) {
    const std::uint64_t value = number();
    if (value > most) is_wrong_ = true;
    return is_wrong_ ? 0 : value;
  }

  // Which of `count` things have a checksum; the checksums are passed over.
  std::vector<bool> checksums(std::uint64_t count) {
    std::vector<bool> has(count, true);
    if (byte() == 0) {
      const std::string_view bits = bytes((count + 7) / 8);
      for (std::uint64_t i = 0; i < count && !is_wrong_; ++i)
        has[i] = (static_cast<unsigned char>(bits[i / 8]) & 0x80U >> i % 8) != 0;
    }
    bytes(4 * static_cast<std::uint64_t>(std::count(has.begin(), has.end(), true)));
    return has;
  }

  [[nodiscard]] std::uint64_t left() const { return rest_.size(); }

 private:
  std::string_view rest_;
  bool is_wrong_ = false;
};

void read_pack_info(SevenZipReader& in, SevenZipStreams& streams) {
  streams.position = in.number();
  const std::uint64_t count = in.count();
  if (in.take(SevenZipId::sizes)) {
    for (std::uint64_t i = 0; i < count && !in.is_wrong(); ++i) {
      const std::uint64_t size = in.number();
      if (i == 0) streams.packed = size;
    }
  }
  if (in.take(SevenZipId::checksums)) in.checksums(count);
  in.expect(SevenZipId::end);
}

SevenZipCoder read_coder(SevenZipReader& in) {
  const unsigned char flags = in.byte();
  SevenZipCoder coder{in.bytes(flags & 0xfU), {}};
  if ((flags & 0x10U) != 0) {
    coder.inputs = in.count();
    coder.outputs = in.count();
  }
  if ((flags & 0x20U) != 0) coder.properties = in.bytes(in.number());
  return coder;
}

SevenZipFolder read_folder(SevenZipReader& in) {
  SevenZipFolder folder;
  std::uint64_t inputs = 0;
  const std::uint64_t coders = in.count();
  for (std::uint64_t i = 0; i < coders && !in.is_wrong(); ++i) {
    folder.coders.push_back(read_coder(in));
    inputs += folder.coders.back().inputs;
    folder.outputs += folder.coders.back().outputs;
  }
  const std::uint64_t pairs = folder.outputs - std::min<std::uint64_t>(folder.outputs, 1);
  for (std::uint64_t i = 0; i < pairs && !in.is_wrong(); ++i) {
    in.count_of(inputs);
    in.count_of(folder.outputs);
  }
  const std::uint64_t packed = inputs - std::min(inputs, pairs);
  for (std::uint64_t i = 0; packed > 1 && i < packed && !in.is_wrong(); ++i) in.count_of(inputs);
  return folder;
}

void read_unpack_info(SevenZipReader& in, SevenZipStreams& streams) {
  in.expect(SevenZipId::folder);
  const std::uint64_t count = in.count();
  if (in.byte() != 0) return;  // they are elsewhere, which nothing here reads
  for (std::uint64_t i = 0; i < count && !in.is_wrong(); ++i)
    streams.folders.push_back(read_folder(in));
  in.expect(SevenZipId::unpack_sizes);
  for (SevenZipFolder& folder : streams.folders) {
    for (std::uint64_t i = 0; i < folder.outputs && !in.is_wrong(); ++i)
      folder.unpacked = std::max(folder.unpacked, in.number());
  }
  if (in.take(SevenZipId::checksums)) {
    const std::vector<bool> has = in.checksums(count);
    for (std::size_t i = 0; i < streams.folders.size(); ++i)
      streams.folders[i].has_checksum = has[i];
  }
  in.expect(SevenZipId::end);
}

// Each of a folder's streams but its last has its size here.
void read_substreams(SevenZipReader& in, SevenZipStreams& streams) {
  if (in.take(SevenZipId::streams_of_folders)) {
    for (SevenZipFolder& folder : streams.folders) folder.streams = in.count_of(in.left() + 1);
  }
  std::uint64_t sizes = 0;
  std::uint64_t unchecked = 0;
  for (const SevenZipFolder& folder : streams.folders) {
    sizes += folder.streams - std::min<std::uint64_t>(folder.streams, 1);
    if (folder.streams != 1 || !folder.has_checksum) unchecked += folder.streams;
  }
  if (in.take(SevenZipId::sizes)) {
    for (std::uint64_t i = 0; i < sizes && !in.is_wrong(); ++i) in.number();
  } else if (sizes > 0) {
    in.expect(SevenZipId::sizes);
  }
  if (in.is_wrong()) return;
  if (in.take(SevenZipId::checksums)) in.checksums(unchecked);
  in.expect(SevenZipId::end);
}

SevenZipStreams read_streams(SevenZipReader& in) {
  SevenZipStreams streams;
  if (in.take(SevenZipId::pack_info)) read_pack_info(in, streams);
  if (in.take(SevenZipId::unpack_info)) read_unpack_info(in, streams);
  if (in.take(SevenZipId::substreams)) read_substreams(in, streams);
  in.expect(SevenZipId::end);
  return streams;
}

void skip_archive_properties(SevenZipReader& in) {
  while (!in.is_wrong() && in.byte() != 0) in.bytes(in.number());
}

// What comes after the number of files takes no more than the bytes that there are. Each file has a
// name, which ends with two zeros.
SevenZipStreams read_header(SevenZipReader& in) {
  if (in.take(SevenZipId::archive_properties)) skip_archive_properties(in);
  if (in.take(SevenZipId::more_streams)) read_streams(in);
  SevenZipStreams streams;
  if (in.take(SevenZipId::main_streams)) streams = read_streams(in);
  if (in.take(SevenZipId::files)) in.count(2);
  return streams;
}

constexpr std::string_view k_lzma = "\3\1\1"sv;
constexpr std::string_view k_lzma2 = "\x21"sv;
constexpr std::string_view k_ppmd = "\3\4\1"sv;

// What a coder keeps in memory; a dictionary is never larger than the data.
std::uint64_t memory_of(const SevenZipCoder& coder, std::uint64_t unpacked) {
  if (coder.method == k_lzma && coder.properties.size() >= 5)
    return std::min<std::uint64_t>(little_endian<std::uint32_t>(coder.properties, 1), unpacked);
  if (coder.method == k_ppmd && coder.properties.size() >= 5)
    return little_endian<std::uint32_t>(coder.properties, 1);
  if (coder.method != k_lzma2 || coder.properties.size() != 1) return 0;
  const auto bits = static_cast<unsigned char>(coder.properties.front());
  if (bits >= 40) return unpacked;
  return std::min((std::uint64_t{2} | (bits & 1U)) << (bits / 2U + 11U), unpacked);
}

struct LzmaFilter {
  explicit LzmaFilter(const SevenZipCoder& coder) {
    filters[0].id = coder.method == k_lzma ? LZMA_FILTER_LZMA1 : LZMA_FILTER_LZMA2;
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(coder.properties.data());
    is_right = ::lzma_properties_decode(filters.data(), nullptr, bytes, coder.properties.size()) ==
               LZMA_OK;
  }
  LzmaFilter(const LzmaFilter&) = delete;
  LzmaFilter& operator=(const LzmaFilter&) = delete;
  ~LzmaFilter() { std::free(filters[0].options); }  // NOLINT: as liblzma has allocated it

  std::array<lzma_filter, 2> filters = {lzma_filter{LZMA_VLI_UNKNOWN, nullptr},
                                        {LZMA_VLI_UNKNOWN, nullptr}};
  bool is_right = false;
};

// Empty: it is damaged, which the reader says better.
std::string unpacked_by(const SevenZipCoder& coder, std::string_view packed, std::uint64_t size) {
  LzmaFilter filter(coder);
  if (!filter.is_right) return {};
  auto& options = *static_cast<lzma_options_lzma*>(filter.filters[0].options);
  options.dict_size = std::min<std::uint32_t>(
      options.dict_size, static_cast<std::uint32_t>(std::max<std::uint64_t>(size, 4096)));
  lzma_stream stream = LZMA_STREAM_INIT;
  if (::lzma_raw_decoder(&stream, filter.filters.data()) != LZMA_OK) return {};
  std::string out(size, '\0');
  stream.next_in = reinterpret_cast<const std::uint8_t*>(packed.data());
  stream.avail_in = packed.size();
  stream.next_out = reinterpret_cast<std::uint8_t*>(out.data());
  stream.avail_out = out.size();
  const lzma_ret status = ::lzma_code(&stream, LZMA_RUN);
  const bool is_whole = (status == LZMA_OK || status == LZMA_STREAM_END) && stream.avail_out == 0;
  ::lzma_end(&stream);
  return is_whole ? out : std::string();
}

class SevenZipCheck {
 public:
  explicit SevenZipCheck(const Source& source) : source_(source) {}

  Status run() {
    TRY_ASSIGN(const std::string start, source_.text_at(0, k_seven_zip_start));
    if (start.size() < k_seven_zip_start) return {};
    const auto offset = little_endian<std::uint64_t>(start, 12);
    const auto size = little_endian<std::uint64_t>(start, 20);
    if (size > source_.size() || offset > source_.size()) return {};  // cut off
    if (size > k_most_header) return too_large(size);
    TRY_ASSIGN(std::string text, source_.text_at(k_seven_zip_start + offset, size));
    if (text.size() < size) return {};
    for (int codings = 0; codings < k_most_codings; ++codings) {
      SevenZipReader in(text);
      const bool is_coded = in.take(SevenZipId::coded_header);
      if (!is_coded && !in.take(SevenZipId::header)) return {};
      const SevenZipStreams streams = is_coded ? read_streams(in) : read_header(in);
      if (in.is_wrong()) return wrong();
      TRY(check_memory(streams));
      if (!is_coded) return {};
      TRY_ASSIGN(text, decoded(streams));
      if (text.empty()) return {};
    }
    return wrong();
  }

 private:
  // Empty: it is left to the reader.
  [[nodiscard]] Result<std::string> decoded(const SevenZipStreams& streams) const {
    if (streams.folders.size() != 1 || streams.folders[0].coders.size() != 1) return std::string();
    const SevenZipFolder& folder = streams.folders[0];
    const SevenZipCoder& coder = folder.coders[0];
    if (coder.method != k_lzma && coder.method != k_lzma2) return std::string();
    if (streams.packed > source_.size() || streams.position > source_.size()) return std::string();
    const std::uint64_t size = std::max(streams.packed, folder.unpacked);
    if (size > k_most_header) return too_large(size);
    TRY_ASSIGN(const std::string packed,
               source_.text_at(k_seven_zip_start + streams.position, streams.packed));
    return unpacked_by(coder, packed, folder.unpacked);
  }

  [[nodiscard]] Status check_memory(const SevenZipStreams& streams) const {
    for (const SevenZipFolder& folder : streams.folders) {
      for (const SevenZipCoder& coder : folder.coders) {
        if (const std::uint64_t bytes = memory_of(coder, folder.unpacked); bytes > k_most_memory)
          return fault(ENOMEM,
                       shown(source_.path()) +
                           ": needs too much memory to decode: a dictionary of " +
                           human_bytes(bytes),
                       "Compress it with a dictionary of at most " + human_bytes(k_most_memory) +
                           ": 7z a -md=64m");
      }
    }
    return {};
  }

  [[nodiscard]] Error too_large(std::uint64_t size) const {
    return archive_fault(source_.path(), Container::seven_zip,
                         "its header has " + human_bytes(size));
  }
  [[nodiscard]] Error wrong() const {
    return archive_fault(source_.path(), Container::seven_zip,
                         "its header counts more than it can hold");
  }

  static constexpr std::uint64_t k_most_memory = std::uint64_t{1} << 30;
  const Source& source_;
};

}  // namespace

Status check_seven_zip_header(const Source& source) { return SevenZipCheck(source).run(); }

}  // namespace nodestage
