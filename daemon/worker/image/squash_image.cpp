#include "daemon/worker/image/squash_image.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <mutex>
#include <vector>

#include "common/os/file.hpp"
#include "daemon/worker/basis/fault.hpp"
#include "daemon/worker/image/superblock.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_metadata_bytes = 8192;  // of a block of metadata, unpacked
constexpr std::uint32_t k_no_fragment = 0xffffffff;
constexpr std::size_t k_fragments_per_block = k_metadata_bytes / 16;
// Of a directory's list, which is said to be longer by "." and "..".
constexpr std::uint64_t k_dots_bytes = 3;
constexpr std::uint32_t k_max_run = 256;  // entries with one header
constexpr std::size_t k_max_link_text = 4095;
// A block's size, as a file's inode or the table of fragments has it.
constexpr std::uint32_t k_stored_as_is = 1 << 24;
// What is kept of an image.
constexpr std::size_t k_kept_metadata_bytes = 32 << 20;
constexpr std::size_t k_kept_data_bytes = 32 << 20;
// A file of more blocks has a table of where each of this many begins.
constexpr std::uint64_t k_blocks_per_step = 2048;
constexpr std::size_t k_kept_tables = 256;

// By the number of an inode or an entry; the larger kinds of an inode have 7 more.
constexpr std::uint32_t k_types[] = {0,       S_IFDIR, S_IFREG, S_IFLNK,
                                     S_IFBLK, S_IFCHR, S_IFIFO, S_IFSOCK};
constexpr std::uint16_t k_larger = 7;

std::uint32_t type_of(std::uint16_t kind) {
  if (kind > k_larger) kind = static_cast<std::uint16_t>(kind - k_larger);
  return kind > k_larger ? 0 : k_types[kind];
}

}  // namespace

struct SquashImage::Shared {
  // Where the list of a file's blocks goes on, and the block that it goes on with.
  struct BlockStep {
    ImagePlace list;
    std::uint64_t data = 0;
  };

  Shared(int file, const Superblock& of)
      : fd(file),
        super(of),
        metadata(k_kept_metadata_bytes / k_metadata_bytes),
        data(std::max<std::size_t>(8, k_kept_data_bytes / of.block_size)) {}

  const int fd;
  const Superblock super;
  BlockCache metadata;
  BlockCache data;

  // Sets the last step of a file's table up to a block. Returns the number of blocks before it.
  std::uint64_t find_step(std::uint64_t id, std::uint64_t index, BlockStep& step) {
    const std::lock_guard lock(steps_mutex_);
    const auto found = steps_.find(id);
    if (found == steps_.end()) return 0;
    const auto count = static_cast<std::size_t>(
        std::min<std::uint64_t>(index / k_blocks_per_step, found->second.size()));
    step = found->second[count - 1];
    return count * k_blocks_per_step;
  }

  // `done`: the number of blocks before the step. Each thread adds the next one, if it is not
  // there.
  void keep_step(std::uint64_t id, std::uint64_t done, const BlockStep& step) {
    const std::lock_guard lock(steps_mutex_);
    if (steps_.size() >= k_kept_tables && !steps_.contains(id)) steps_.clear();
    if (auto& steps = steps_[id]; done == (steps.size() + 1) * k_blocks_per_step)
      steps.push_back(step);
    else if (steps.empty())
      steps_.erase(id);
  }

 private:
  std::mutex steps_mutex_;
  std::map<std::uint64_t, std::vector<BlockStep>> steps_;  // by ImageNode::id; none is empty
};

SquashImage::SquashImage(std::shared_ptr<Shared> shared)
    : shared_(std::move(shared)),
      codec_(shared_->super.format),
      stored_(std::make_unique_for_overwrite<std::byte[]>(
          std::max<std::size_t>(shared_->super.block_size, k_metadata_bytes))) {}

Result<SquashImage> SquashImage::open(int fd) {
  TRY_ASSIGN(const Superblock super, read_superblock(fd));
  SquashImage image(std::make_shared<Shared>(fd, super));
  TRY_ASSIGN(const ImageNode root, image.node(super.root));
  if (!S_ISDIR(root.mode)) return damaged("its root is no directory");
  return image;
}

std::uint64_t SquashImage::root() const { return shared_->super.root; }

ImageTotals SquashImage::totals() const {
  return {shared_->super.bytes, shared_->super.inodes, shared_->super.block_size};
}

// A file that was cut off since it was opened is damaged, too.
Status SquashImage::read_stored(std::uint64_t at, std::span<std::byte> into) const {
  if (at > shared_->super.bytes || into.size() > shared_->super.bytes - at)
    return damaged("a block is not in it");
  TRY_ASSIGN(const std::size_t got, pread_all(shared_->fd, into, at));
  return got == into.size() ? Status() : Status(damaged("it has become shorter"));
}

// Two bytes, the stored size and whether it is unpacked, precede the block.
Status SquashImage::load_metadata(std::uint64_t at, ImageBlock& block) {
  constexpr std::uint16_t k_as_is = 0x8000;
  std::array<std::byte, 2> raw{};
  TRY(read_stored(at, raw));
  const auto head = little_endian<std::uint16_t>(Bytes(raw));
  const std::size_t stored = head & (k_as_is - 1);
  if (stored == 0 || stored > k_metadata_bytes) return damaged("a block of metadata is too large");
  const std::span<std::byte> packed(stored_.get(), stored);
  TRY(read_stored(at + raw.size(), packed));
  std::array<std::byte, k_metadata_bytes> made;
  std::optional<std::size_t> size = stored;
  if ((head & k_as_is) != 0)
    std::ranges::copy(packed, made.begin());
  else
    size = codec_.unpack(packed, made);
  if (!size || *size == 0) return damaged("a block of metadata cannot be unpacked");
  block.data = std::make_unique_for_overwrite<std::byte[]>(*size);
  std::copy_n(made.begin(), *size, block.data.get());
  block.size = *size;
  block.next = at + raw.size() + stored;
  return {};
}

// Returns what there is from here on in one block, `most` bytes or fewer, and passes it. Not empty.
Result<Bytes> SquashImage::some_of(Stream& stream, std::uint64_t most) {
  while (!stream.block || stream.at.offset == stream.block->size) {
    if (stream.block) stream.at = {stream.block->next, 0};
    if (blocks_left_ == 0) return damaged("a list in its metadata does not end");
    --blocks_left_;
    TRY_ASSIGN(stream.block, shared_->metadata.get(stream.at.block, [&](ImageBlock& block) {
      return load_metadata(stream.at.block, block);
    }));
  }
  const Bytes whole = stream.block->bytes();
  if (stream.at.offset > whole.size()) return damaged("a place in its metadata does not exist");
  const Bytes rest = whole.subspan(stream.at.offset);
  const Bytes some =
      rest.first(static_cast<std::size_t>(std::min<std::uint64_t>(rest.size(), most)));
  stream.at.offset += some.size();
  return some;
}

Status SquashImage::read(Stream& stream, std::span<std::byte> into) {
  while (!into.empty()) {
    TRY_ASSIGN(const Bytes some, some_of(stream, into.size()));
    std::ranges::copy(some, into.begin());
    into = into.subspan(some.size());
  }
  return {};
}

Status SquashImage::skip(Stream& stream, std::uint64_t bytes) {
  while (bytes > 0) {
    TRY_ASSIGN(const Bytes some, some_of(stream, bytes));
    bytes -= some.size();
  }
  return {};
}

namespace {

constexpr std::size_t k_inode_head = 16;

// The bytes of an inode after its head; 0: there is no such kind.
std::size_t inode_bytes(std::uint16_t kind) {
  constexpr std::size_t k_bytes[] = {0, 16, 16, 8, 8, 8, 4, 4, 24, 40, 8, 12, 12, 8, 8};
  return kind < std::size(k_bytes) ? k_bytes[kind] : 0;
}

void parse_directory(ImageNode& node, Bytes raw, bool is_larger) {
  if (is_larger) {
    node.links = little_endian(raw);
    node.size = little_endian(raw, 4);
    node.start = little_endian(raw, 8);
    node.parent = little_endian(raw, 12);
    node.index_count = little_endian<std::uint16_t>(raw, 16);
    node.offset = little_endian<std::uint16_t>(raw, 18);
  } else {
    node.start = little_endian(raw);
    node.links = little_endian(raw, 4);
    node.size = little_endian<std::uint16_t>(raw, 8);
    node.offset = little_endian<std::uint16_t>(raw, 10);
    node.parent = little_endian(raw, 12);
  }
}

void parse_file(ImageNode& node, Bytes raw, bool is_larger) {
  if (is_larger) {
    node.start = little_endian<std::uint64_t>(raw);
    node.size = little_endian<std::uint64_t>(raw, 8);
    node.links = little_endian(raw, 24);
    node.fragment = little_endian(raw, 28);
    node.offset = little_endian(raw, 32);
  } else {
    node.start = little_endian(raw);
    node.fragment = little_endian(raw, 4);
    node.offset = little_endian(raw, 8);
    node.size = little_endian(raw, 12);
  }
}

void parse_rest(ImageNode& node, Bytes raw, bool is_larger) {
  if (S_ISDIR(node.mode)) return parse_directory(node, raw, is_larger);
  if (S_ISREG(node.mode)) return parse_file(node, raw, is_larger);
  node.links = little_endian(raw);
  if (S_ISLNK(node.mode)) node.size = little_endian(raw, 4);
  if (S_ISBLK(node.mode) || S_ISCHR(node.mode)) node.device = little_endian(raw, 4);
}

}  // namespace

Result<ImageNode> SquashImage::node(std::uint64_t id) {
  Stream stream{{shared_->super.inode_table + (id >> 16), id & 0xffff}, nullptr};
  if (id >> 48 != 0 || stream.at.block >= shared_->super.directory_table)
    return damaged("an inode is not in its table");
  std::array<std::byte, 64> raw{};
  TRY(read(stream, std::span(raw).first(k_inode_head)));
  const Bytes head(raw);
  const auto kind = little_endian<std::uint16_t>(head);
  const std::size_t size = inode_bytes(kind);
  if (size == 0) return damaged("an inode is of no known kind");
  ImageNode node;
  node.id = id;
  node.mode = type_of(kind) | (little_endian<std::uint16_t>(head, 2) & 07777U);
  node.mtime = little_endian(head, 8);
  node.number = little_endian(head, 12);
  const auto rest = std::span(raw).subspan(k_inode_head, size);
  TRY(read(stream, rest));
  parse_rest(node, rest, kind > k_larger);
  node.rest = stream.at;
  if (node.size > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    return damaged("a file is too large");
  return node;
}

Result<std::string> SquashImage::link_text(const ImageNode& link) {
  if (!S_ISLNK(link.mode)) return Error{EINVAL, "not a symbolic link"};
  if (link.size > k_max_link_text) return damaged("the text of a symbolic link is too long");
  std::string text(static_cast<std::size_t>(link.size), '\0');
  Stream stream{link.rest, nullptr};
  TRY(read(stream, std::as_writable_bytes(std::span(text))));
  return text;
}

Result<SquashImage::Entries> SquashImage::entries_of(const ImageNode& directory) const {
  if (!S_ISDIR(directory.mode)) return Error{ENOTDIR, "not a directory"};
  Entries entries;
  entries.stream.at = {shared_->super.directory_table + directory.start, directory.offset};
  entries.end = directory.size > k_dots_bytes ? directory.size - k_dots_bytes : 0;
  return entries;
}

// A large directory has an index: the first entry of each run that begins a block of metadata.
// Skips to the last of them for which before(position, name) holds, as it does for all earlier
// ones.
template <typename Before>
Status SquashImage::skip_by_index(const ImageNode& directory, Entries& entries, Before before) {
  Stream index{directory.rest, nullptr};
  for (std::uint32_t i = 0; i < directory.index_count; ++i) {
    std::array<std::byte, 12> raw{};
    TRY(read(index, raw));
    const std::uint64_t position = little_endian(Bytes(raw));
    const std::size_t size = std::size_t{little_endian(Bytes(raw), 8)} + 1;
    if (size > k_max_image_name) return damaged("a name in a directory's index is too long");
    std::array<char, k_max_image_name> name{};
    TRY(read(index, std::as_writable_bytes(std::span(name).first(size))));
    if (!before(position, std::string_view(name.data(), size))) return {};
    entries.position = position;
    entries.stream = {{shared_->super.directory_table + little_endian(Bytes(raw), 4),
                       static_cast<std::size_t>((directory.offset + position) % k_metadata_bytes)},
                      nullptr};
  }
  return {};
}

Result<SquashImage::Entries> SquashImage::entries_from(const ImageNode& directory,
                                                       std::uint64_t from) {
  TRY_ASSIGN(Entries entries, entries_of(directory));
  TRY(skip_by_index(directory, entries,
                    [from](std::uint64_t position, std::string_view) { return position <= from; }));
  return entries;
}

Status SquashImage::begin_run(Entries& entries) {
  std::array<std::byte, 12> raw{};
  TRY(read(entries.stream, raw));
  entries.position += raw.size();
  const std::uint32_t count = little_endian(Bytes(raw));
  if (count >= k_max_run) return damaged("a directory's list is not valid");
  entries.left = count + 1;
  entries.start = little_endian(Bytes(raw), 4);
  entries.number = little_endian(Bytes(raw), 8);
  return {};
}

// The kernel accepts no list with a name that has a slash, or that leads elsewhere.
Result<std::optional<ImageEntry>> SquashImage::next_of(Entries& entries) {
  if (entries.left == 0) {
    if (entries.position >= entries.end) return std::optional<ImageEntry>();
    TRY(begin_run(entries));
  }
  --entries.left;
  std::array<std::byte, 8> raw{};
  TRY(read(entries.stream, raw));
  const std::size_t size = std::size_t{little_endian<std::uint16_t>(Bytes(raw), 6)} + 1;
  if (size > k_max_image_name) return damaged("a name is too long");
  TRY(read(entries.stream, std::as_writable_bytes(std::span(entries.name).first(size))));
  entries.position += raw.size() + size;
  const std::string_view name(entries.name, size);
  if (name == "." || name == ".." || name.find('/') != name.npos || name.find('\0') != name.npos)
    return damaged("a name is not valid");
  // The number is counted from the run's, up or down.
  const auto step = static_cast<std::int16_t>(little_endian<std::uint16_t>(Bytes(raw), 2));
  ImageEntry entry;
  entry.name = name;
  entry.id = entries.start << 16 | little_endian<std::uint16_t>(Bytes(raw));
  entry.number = entries.number + static_cast<std::uint32_t>(step);
  entry.mode = type_of(little_endian<std::uint16_t>(Bytes(raw), 4));
  entry.next = entries.position;
  return std::optional(entry);
}

// Names are in the order of their bytes.
Result<std::optional<std::uint64_t>> SquashImage::find(const ImageNode& directory,
                                                       std::string_view name) {
  TRY_ASSIGN(Entries entries, entries_of(directory));
  TRY(skip_by_index(directory, entries,
                    [name](std::uint64_t, std::string_view first) { return first <= name; }));
  while (true) {
    TRY_ASSIGN(const auto entry, next_of(entries));
    if (!entry || entry->name > name) return std::optional<std::uint64_t>();
    if (entry->name == name) return std::optional(entry->id);
  }
}

// A block lies behind those before it, so that their sizes are added up.
Result<SquashImage::DataBlock> SquashImage::block_of(const ImageNode& file, std::uint64_t index) {
  std::uint64_t done = 0;
  Shared::BlockStep from{file.rest, file.start};
  if (index >= k_blocks_per_step) done = shared_->find_step(file.id, index, from);
  Stream list{from.list, nullptr};
  std::array<std::byte, 4 * k_blocks_per_step> raw;
  while (done < index) {
    const std::uint64_t count =
        std::min(index - done, k_blocks_per_step - done % k_blocks_per_step);
    const auto heads = std::span(raw).first(static_cast<std::size_t>(4 * count));
    TRY(read(list, heads));
    for (std::size_t i = 0; i < heads.size(); i += 4)
      from.data += little_endian(Bytes(heads), i) & ~k_stored_as_is;
    done += count;
    if (done % k_blocks_per_step == 0) shared_->keep_step(file.id, done, {list.at, from.data});
  }
  TRY(read(list, std::span(raw).first(4)));
  return DataBlock{from.data, little_endian(Bytes(raw)), 0};
}

// The ends of several files that do not fill a block share one, a fragment.
Result<SquashImage::DataBlock> SquashImage::fragment_of(const ImageNode& file) {
  if (file.fragment >= shared_->super.fragments) return damaged("a fragment is not in its table");
  std::array<std::byte, 16> raw{};
  const std::uint64_t block = file.fragment / k_fragments_per_block;
  TRY(read_stored(shared_->super.fragment_table + 8 * block, std::span(raw).first(8)));
  Stream table{
      {little_endian<std::uint64_t>(Bytes(raw)), file.fragment % k_fragments_per_block * 16},
      nullptr};
  TRY(read(table, raw));
  return DataBlock{little_endian<std::uint64_t>(Bytes(raw)), little_endian(Bytes(raw), 8), 0};
}

Status SquashImage::load_data(std::uint64_t at, std::size_t stored, ImageBlock& block) {
  const std::span<std::byte> packed(stored_.get(), stored);
  TRY(read_stored(at, packed));
  const std::size_t room = shared_->super.block_size;
  block.data = std::make_unique_for_overwrite<std::byte[]>(room);
  const auto size = codec_.unpack(packed, {block.data.get(), room});
  if (!size) return damaged("a block of data cannot be unpacked");
  block.size = *size;
  return {};
}

// What is wanted as a whole goes where it is wanted; else the rest will be wanted soon.
Status SquashImage::read_part(const DataBlock& block, std::uint64_t from,
                              std::span<std::byte> out) {
  const std::size_t stored = block.head & ~k_stored_as_is;
  if (stored > shared_->super.block_size) return damaged("a block of data is too large");
  if ((block.head & k_stored_as_is) != 0) {
    if (from > stored || out.size() > stored - from) return damaged("a block of data is too short");
    return read_stored(block.at + from, out);
  }
  if (from == 0 && out.size() == block.size) {
    const std::span<std::byte> packed(stored_.get(), stored);
    TRY(read_stored(block.at, packed));
    if (codec_.unpack(packed, out) == out.size()) return {};
    return damaged("a block of data cannot be unpacked");
  }
  TRY_ASSIGN(const auto unpacked, shared_->data.get(block.at, [&](ImageBlock& made) {
    return load_data(block.at, stored, made);
  }));
  const Bytes bytes = unpacked->bytes();
  if (from > bytes.size() || out.size() > bytes.size() - from)
    return damaged("a block of data is too short");
  std::ranges::copy(bytes.subspan(static_cast<std::size_t>(from), out.size()), out.begin());
  return {};
}

Result<std::size_t> SquashImage::read(const ImageNode& file, std::uint64_t offset,
                                      std::span<std::byte> out) {
  if (!S_ISREG(file.mode)) return Error{EINVAL, "not a file"};
  if (offset >= file.size) return std::size_t{0};
  out =
      out.first(static_cast<std::size_t>(std::min<std::uint64_t>(out.size(), file.size - offset)));
  const std::size_t done = out.size();
  const std::uint64_t block_size = shared_->super.block_size;
  const bool has_fragment = file.fragment != k_no_fragment;
  while (!out.empty()) {
    const std::uint64_t index = offset / block_size;
    const std::uint64_t from = offset % block_size;
    const std::uint64_t size = std::min(block_size, file.size - index * block_size);
    const auto part =
        out.first(static_cast<std::size_t>(std::min<std::uint64_t>(out.size(), size - from)));
    if (has_fragment && size < block_size) {
      TRY_ASSIGN(const DataBlock fragment, fragment_of(file));
      TRY(read_part(fragment, from + file.offset, part));
    } else {
      TRY_ASSIGN(DataBlock block, block_of(file, index));
      block.size = static_cast<std::size_t>(size);
      if ((block.head & ~k_stored_as_is) == 0)  // a hole
        std::ranges::fill(part, std::byte{0});
      else
        TRY(read_part(block, from, part));
    }
    out = out.subspan(part.size());
    offset += part.size();
  }
  return done;
}

}  // namespace nodestage
