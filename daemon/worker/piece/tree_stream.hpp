// TreeStream: a directory as the stream that a relay carries (relay_board.hpp): what a copy of it
// has, entry by entry.
//
//   record   u32 length, then so many bytes of fields as in common/wire/wire.hpp:
//     u8 1  file       text path, attributes, u64 size; its data follow, in order
//     u8 2  directory  text path ("": the top), attributes; after all that is in it
//     u8 3  symlink    text path, attributes, text target
//     u8 4  hard link  text path, text path of a file or link before it
//     u8 5  data       u64 offset, u32 count; then so many bytes of the last file
//     u8 6  end        u64 skipped, u64 taken, u64 lost xattrs, text x 3: TreeSummary
//   attributes         u32 mode, u64 seconds and u32 nanoseconds of mtime, list of text: xattrs,
//                      each a name and a value
// What no data cover is a hole; data go forward, and end within the size. Modes are those of the
// copy. k_tree_stream_version is part of the fingerprint, so releases that differ in this do not
// understand each other.
//
// Bounds, which both sides check: those of EntryLimits for paths, their depth, links, and the
// memory that directories take, and k_most_tree_record. A tree beyond them has no stream.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "common/wire/wire.hpp"
#include "common/wire/worker_order.hpp"
#include "daemon/worker/archive/entry_limits.hpp"
#include "daemon/worker/copy/copy_file.hpp"
#include "daemon/worker/spool/item_relay.hpp"

namespace nodestage {

inline constexpr std::uint64_t k_tree_stream_version = 1;
inline constexpr std::uint32_t k_most_tree_record = std::uint32_t{1} << 20;  // bytes of its fields

// What is said of a copy beside its entries. The texts are notes for the user, or "".
struct TreeSummary {
  std::uint64_t skipped = 0;      // FIFOs, sockets, devices
  std::uint64_t taken = 0;        // entries other than directories
  std::uint64_t lost_xattrs = 0;  // that the file system did not accept
  std::string entries;
  std::string links;
  std::string idle_globs;
};

// Writes the stream while a tree is copied. What goes wrong with it does not disturb the copy: the
// stream breaks off at once.
class TreeStreamWriter final : public CopyListener {
 public:
  // Borrows both.
  TreeStreamWriter(RelayedTree& tree, const ExtractRules& rules) : tree_(tree), rules_(rules) {}

  void file(const std::string& path, int fd, const struct stat& info) override;
  void directory(const std::string& path, int fd, const struct stat& info) override;
  void symlink(const std::string& path, const std::string& target,
               const struct stat& info) override;
  void hard_link(const std::string& path, const std::string& first) override;

  // Call it once the copy is complete.
  void end(const TreeSummary& summary);

 private:
  [[nodiscard]] SharedXattrs xattrs_of(int fd);
  void put_entry(const Entry& entry, const WireEncoder& record);
  void put(const WireEncoder& record);
  bool put_data(int fd, std::uint64_t begin, std::uint64_t end);
  void flush();
  void give_up();
  void refuse();

  RelayedTree& tree_;
  const ExtractRules& rules_;
  std::mutex mutex_;  // guards what follows
  std::vector<std::byte> buffer_;
  bool is_given_up_ = false;
  EntryLimits limits_{0};
};

struct TreeRecord {
  enum class Kind { entry, data, end };
  Kind kind;
  Entry entry = {};
  Block block = {};
  TreeSummary summary = {};
};

class TreeStreamReader {
 public:
  // `rules` as those of the writer. Borrows the tree.
  TreeStreamReader(RelayedTree& tree, const ExtractRules& rules)
      : tree_(tree), has_xattrs_(rules.xattrs) {}

  // After a fault, has_broken() says whether the stream is the cause.
  Result<TreeRecord> next();
  [[nodiscard]] bool has_broken() const { return is_bad_ || tree_.has_broken(); }

 private:
  Status take(std::span<std::byte> into);
  Result<TreeRecord> entry_of(WireDecoder& in, Entry::Kind kind);
  Result<TreeRecord> end_of(WireDecoder& in);
  Result<TreeRecord> data_of(WireDecoder& in);
  bool take_attributes(WireDecoder& in, Entry& entry) const;
  Error bad();

  RelayedTree& tree_;
  const bool has_xattrs_;
  std::vector<std::byte> buffer_;
  std::span<std::byte> rest_;  // of the buffer
  bool is_bad_ = false;
  EntryLimits limits_{0};
  std::uint64_t data_from_ = 0;  // of the last file, where its next data may begin
  std::uint64_t data_to_ = 0;    // its size; 0 after other entries
};

}  // namespace nodestage
