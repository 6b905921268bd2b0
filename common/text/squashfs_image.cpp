#include "common/text/squashfs_image.hpp"

#include <algorithm>
#include <iterator>

#include "common/text/human.hpp"

namespace nodestage {
namespace {

constexpr std::string_view k_magic = "hsqs";
constexpr std::string_view k_foreign_magic =
    "sqsh";  // of another byte order, or a version before 4

// The superblock of version 4.0; all numbers have the lowest byte first.
//   bytes   what
//   0-3     magic
//   12-15   block size, a power of two
//   20-21   compression
//   22-23   the block size's exponent
//   28-31   version: major, minor
//   40-47   bytes that are used; the file can be padded after them
constexpr std::size_t k_superblock_bytes = 96;
constexpr std::uint64_t k_least_block_log = 12;
constexpr std::uint64_t k_most_block_log = 20;
// Of compressions that are not read: lzma is what came before xz, and nobody makes images with lzo.
constexpr std::uint64_t k_lzma = 2;
constexpr std::uint64_t k_lzo = 3;
constexpr std::uint64_t k_most_compression = 6;

constexpr const char* k_make_again =
    "Make the image again with: nodestage pack --image NEW.sqsh DIR";

// What else is called an image.
struct OtherImage {
  std::string_view what;
  std::size_t at;
  std::string_view magic;
};
constexpr OtherImage k_other_images[] = {
    {"an ext4 file system", 1080, "\x53\xef"}, {"an erofs image", 1024, "\xe2\xe1\xf5\xe0"},
    {"an XFS file system", 0, "XFSB"},         {"an image of a CD (iso)", 32769, "CD001"},
    {"a SIF container", 32, "SIF_MAGIC"},
};

std::uint64_t number_at(std::string_view text, std::size_t at, std::size_t bytes) {
  std::uint64_t number = 0;
  for (std::size_t i = bytes; i-- > 0;)
    number = number << 8 | static_cast<unsigned char>(text[at + i]);
  return number;
}

Error no_image(const std::string& file, std::string_view start) {
  const auto other = std::find_if(
      std::begin(k_other_images), std::end(k_other_images), [start](const OtherImage& one) {
        return start.size() > one.at && start.substr(one.at).starts_with(one.magic);
      });
  if (other != std::end(k_other_images))
    return {0,
            file + ": is " + std::string(other->what) + ", and only squashfs images can be mounted",
            "Make an image of its files with: nodestage pack --image NEW.sqsh DIR"};
  return {0, file + ": is not a squashfs image, and only such images can be mounted",
          "Without mount, it is staged as usual. Or make an image of a directory or a tar with: "
          "nodestage pack --image NEW.sqsh DIR"};
}

Error test_it(const std::string& file, const std::string& cause) {
  return {0, file + ": " + cause,
          "Was its creation or transfer stopped, by a quota or a time limit? Test it with: "
          "unsquashfs -lc " +
              shell_word(file) + " >/dev/null"};
}

bool has_sound_blocks(std::string_view start) {
  const std::uint64_t log = number_at(start, 22, 2);
  return log >= k_least_block_log && log <= k_most_block_log &&
         number_at(start, 12, 4) == std::uint64_t{1} << log;
}

}  // namespace

bool is_squashfs(std::string_view start) {
  return start.starts_with(k_magic) || start.starts_with(k_foreign_magic);
}

Status check_image(const std::string& file, std::string_view start, std::uint64_t size) {
  if (!is_squashfs(start)) return no_image(file, start);
  if (start.size() < k_superblock_bytes)
    return test_it(file, "cut off: it has no whole superblock");
  const std::uint64_t major = number_at(start, 28, 2);
  if (start.starts_with(k_foreign_magic) || major != 4 || number_at(start, 30, 2) != 0)
    return Error{0,
                 file +
                     ": is a squashfs image of an old version or of another byte order, and "
                     "only version 4.0 can be mounted",
                 k_make_again};
  const std::uint64_t compression = number_at(start, 20, 2);
  if (compression == k_lzma || compression == k_lzo)
    return Error{0,
                 file + ": is a squashfs image that is compressed with " +
                     (compression == k_lzma ? "lzma" : "lzo") + ", which cannot be read here",
                 k_make_again};
  const std::uint64_t used = number_at(start, 40, 8);
  if (!has_sound_blocks(start) || compression == 0 || compression > k_most_compression ||
      used < k_superblock_bytes)
    return test_it(file, "its superblock, the image's first bytes, is damaged");
  if (used <= size) return {};
  const auto [whole, there] = human_bytes_apart(used, size);
  return test_it(file, "cut off: the image has " + whole + ", and the file " + there);
}

}  // namespace nodestage
