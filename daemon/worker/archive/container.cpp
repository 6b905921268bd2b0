#include "daemon/worker/archive/container.hpp"

#include <algorithm>
#include <span>
#include <string_view>
#include <vector>

#include "common/text/human.hpp"
#include "common/text/part_names.hpp"
#include "daemon/worker/archive/tar_header.hpp"
#include "daemon/worker/archive/zip_index.hpp"
#include "daemon/worker/decode/codec.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_look_bytes = std::size_t{64} << 10;

std::string_view start_text(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Every kind of tar has a sum of the header's bytes. One that is empty is 0, which says nothing.
bool is_tar(Bytes start) {
  if (start.size() < k_tar_block) return false;
  const TarHeaderBlock header(start);
  return header.has_right_checksum() && header.checksum() != 0;
}

// Parts of libarchive's texts, which differ from format to format and from release to release.
constexpr std::string_view k_of_passwords[] = {"password", "ncrypt", "assphrase"};
constexpr std::string_view k_of_methods[] = {"upport", "codec ID", "unavailable"};

bool has_any(std::string_view text, std::span<const std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(), [text](std::string_view part) {
    return text.find(part) != std::string_view::npos;
  });
}

}  // namespace

Container recognise_container(Bytes start) {
  const std::string_view text = start_text(start);
  const auto has = [text](const Magic& magic) {
    return !magic.bytes.empty() && text.size() > magic.at &&
           text.substr(magic.at).starts_with(magic.bytes);
  };
  for (const ContainerRow& row : k_containers)
    if (std::any_of(std::begin(row.magics), std::end(row.magics), has)) return row.container;
  return is_tar(start) ? Container::tar : Container::none;
}

bool starts_with_zero_block(Bytes start) { return zeros_before_data(start) >= k_tar_block; }

// Of a local header, which has the name's length at 26 and the name at 30.
bool has_pickle_first(Bytes start) {
  const std::string_view text = start_text(start);
  if (text.size() < k_local_bytes) return false;
  const auto length = little_endian<std::uint16_t>(text, 26);
  return text.substr(k_local_bytes, length).ends_with("/data.pkl");
}

std::string joined_note(std::uint64_t archives) {
  return human_count(archives) + " archives, one after another, were extracted";
}

std::string kind_of_start(Bytes bytes) {
  const Coding coding = recognise_coding(bytes);
  if (coding != Coding::plain) return std::string(row_of(coding).suffix);
  return std::string(row_of(recognise_container(bytes)).name);
}

Error other_archive(const std::string& path, const std::string& kind,
                    std::optional<std::uint64_t> offset) {
  const std::string where = offset ? " at byte " + human_count(*offset) : "";
  const std::string cut = offset ? ": tail -c +" + std::to_string(*offset + 1) + " " +
                                       shell_word(shown(path)) + " > SECOND"
                                 : "";
  return fault(
      0,
      shown(path) + ": another archive (" + kind + ") begins" + where +
          ", after the end of the first one",
      "Only tar archives of one compression can be joined. Stage both as files of their own" + cut);
}

Result<bool> has_junk(const Source& source, std::uint64_t offset) {
  std::vector<std::byte> memory(k_look_bytes);
  for (;;) {
    TRY_ASSIGN(const std::size_t count, source.read_at(offset, memory));
    if (count == 0) return false;
    const Bytes bytes = Bytes(memory).first(count);
    const std::size_t zeros = zeros_before_data(bytes);
    if (zeros == 0) {
      const std::string kind = kind_of_start(bytes);
      if (!kind.empty()) return other_archive(source.path(), kind, offset);
      return true;
    }
    offset += zeros;
  }
}

std::string how_to_stage_parts(const std::string& path) {
  const std::string option = how_to_join(path);
  return "Stage the parts as one file, with " +
         (option.empty() ? "a glob that matches them all and the key join" : option);
}

Error archive_fault(const std::string& path, Container container, const std::string& cause) {
  const std::string start = shown(path) + ": ";
  if (has_any(cause, k_of_passwords)) return password_fault(start);
  if (has_any(cause, k_of_methods)) {
    const std::string kind(row_of(container).name);
    return fault(0, start + "uses a method of " + kind + " that is not supported (" + cause + ")",
                 "Extract it once with the program that made it, and pack the result: nodestage "
                 "pack DIR -o DIR.tar.zst");
  }
  return fault(0, start + "damaged or cut off: " + (cause.empty() ? "invalid data" : cause),
               "Make or transfer it again. Test it with: " + std::string(row_of(container).test) +
                   " " + shell_word(shown(path)));
}

}  // namespace nodestage
