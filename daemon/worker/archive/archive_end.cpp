#include "daemon/worker/archive/archive_end.hpp"

#include <algorithm>
#include <vector>

#include "common/text/human.hpp"
#include "daemon/worker/archive/container.hpp"
#include "daemon/worker/basis/fault.hpp"
#include "daemon/worker/decode/codec.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_look_bytes = std::size_t{64} << 10;

}  // namespace

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
    const auto other =
        std::find_if(bytes.begin(), bytes.end(), [](std::byte b) { return b != std::byte{0}; });
    if (other == bytes.begin()) {
      const std::string kind = kind_of_start(bytes);
      if (!kind.empty()) return other_archive(source.path(), kind, offset);
      return true;
    }
    offset += static_cast<std::uint64_t>(other - bytes.begin());
  }
}

}  // namespace nodestage
