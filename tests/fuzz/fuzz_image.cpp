// A squashfs image: its superblock, its directories, and the data of its files, as the server of
// mounted images reads them for the kernel.
#include <algorithm>
#include <array>
#include <deque>
#include <string>

#include "daemon/worker/image/squash_image.hpp"
#include "input.hpp"

using namespace nodestage;

namespace {

constexpr std::size_t k_most_nodes = 200;  // a directory may lead to itself
constexpr std::size_t k_most_names = 300;  // of a directory

void read_file(SquashImage& image, const ImageNode& file) {
  std::array<std::byte, 200'000> data;
  for (const std::uint64_t at : {std::uint64_t{0}, std::uint64_t{70'000}, file.size - file.size / 3,
                                 file.size - std::min<std::uint64_t>(file.size, 9)}) {
    const auto got = image.read(file, at, data);
    require(!got ||
            *got == std::min<std::uint64_t>(data.size(), file.size - std::min(file.size, at)));
  }
}

// In pieces, as the kernel asks for it.
void read_directory(SquashImage& image, const ImageNode& directory,
                    std::deque<std::uint64_t>& next) {
  std::uint64_t from = 0;
  std::size_t count = 0;
  for (bool has_more = true; has_more && count < k_most_names;) {
    has_more = false;
    std::size_t piece = 0;
    std::string last;
    const Status listed = image.list(directory, from, [&](const ImageEntry& entry) {
      require(!entry.name.empty() && entry.name.size() <= k_max_image_name && entry.next > from);
      from = entry.next;
      last = entry.name;
      next.push_back(entry.id);
      has_more = ++piece == 7;
      return !has_more;
    });
    count += piece;
    if (!listed) return;
    static_cast<void>(image.find(directory, last));
  }
  static_cast<void>(image.find(directory, "no such name"));
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const MemoryFile file(text_of(data, size));
  auto image = SquashImage::open(file.fd());
  if (!image) {
    require(!image.error().text().empty());
    return 0;
  }
  SquashImage other = image->another();
  std::deque<std::uint64_t> next{image->root()};
  for (std::size_t count = 0; count < k_most_nodes && !next.empty(); ++count) {
    const auto node = image->node(next.front());
    next.pop_front();
    if (!node) continue;
    read_file(other, *node);
    read_directory(*image, *node, next);
    const auto text = image->link_text(*node);
    require(!text || text->size() == node->size);
  }
  return 0;
}
