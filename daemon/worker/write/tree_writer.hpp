// TreeWriter: writes an archive's entries below a directory, as GNU tar does for a user without -p.
//
// The caller's thread decides the order, and hands batches of new files, parts of large files, and
// links to writers (writer_crew.hpp). They wait for each other only if the order matters: at a
// repeated name, below a name that is not a directory, and at links to names that do not exist yet.
// Directories are created by the thread that needs them first.
//
// Modes lose setuid, setgid, sticky, and the umask's bits; the owner is the caller; times are kept
// to the nanosecond. Of two entries with the same name, the later one wins. Directories get their
// mode and time at the end; where write bits are taken, so do those without an entry of their own,
// and their owner can read them all. No link is ever followed, so an entry whose parent
// is a link is a fault, or left out and counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "daemon/worker/archive/entry_limits.hpp"
#include "daemon/worker/tree/file_data.hpp"
#include "daemon/worker/tree/out_links.hpp"
#include "daemon/worker/tree/remove_tree.hpp"
#include "daemon/worker/write/writer_crew.hpp"

namespace nodestage {

// SeenNames: the names that an archive had so far, and those that writers may be working on.
// Stores names by hash, a million in 32 MiB. Two names with the same hash only cost a wait. For one
// thread.
class SeenNames {
 public:
  explicit SeenNames(std::size_t most = std::size_t{1} << 20U) : most_(most) {}

  enum class Kind { nothing, directory, other };
  struct Found {
    Kind kind = Kind::nothing;
    bool in_flight = false;  // seen since the last settle()
  };

  [[nodiscard]] static std::uint64_t hash(std::string_view name);

  [[nodiscard]] Found find(std::uint64_t hash) const;
  void put(std::uint64_t hash, Kind kind);  // or marks it as in flight again

  // Notes that no writer is working on any of them.
  void settle();

  // If is_full(): call forget() after settle() and before the next put(). From then on, find() may
  // miss a name that was seen.
  [[nodiscard]] bool is_full() const;
  void forget();
  [[nodiscard]] bool has_forgotten() const { return has_forgotten_; }

 private:
  [[nodiscard]] std::size_t place_of(std::uint64_t hash) const;
  void grow();

  const std::size_t most_;
  struct Slot {
    std::uint64_t hash;
    std::uint32_t generation;  // 0: the slot is free
    bool is_directory;
  };
  std::vector<Slot> slots_;  // open addressing, half of them free
  std::size_t used_ = 0;
  std::uint32_t generation_ = 1;
  bool has_forgotten_ = false;
};

struct TreeWriterLimits {
  unsigned threads = 1;                                // maximum, in addition to the caller's
  std::size_t queued = std::size_t{64} * 1024 * 1024;  // bytes of data on their way to them
  Escaping escaping = Escaping::fail;                  // of an entry below a link
  Special special = Special::skip;
  std::size_t names = std::size_t{1} << 20U;  // the maximum that is remembered
  WriteBits writes = WriteBits::kept;
  // The bits of modes that the process's umask may take when a file is made, although this writer's
  // does not.
  mode_t masked = 0;
};

class TreeWriter {
 public:
  // Borrows everything; root_fd may be O_PATH. `umask` may take more than the process's umask, and
  // not less. After a fault, destroy the writer, which stops and joins its threads.
  TreeWriter(int root_fd, mode_t umask, Meter& meter, Space& space, TreeWriterLimits limits);

  // One thread calls these, in the archive's order. entry.name and a hard link's entry.link are
  // cleaned names below the root ("" is the root). They return before the work is complete: a fault
  // may be that of an earlier entry, which failed_entry() then names.
  Status add(const Entry& entry);
  // Writes data of the file (or late data of the hard link) that was added last.
  Status write(std::uint64_t offset, const Slice& data);
  // Adds a file whose data a writer fetches. `from` is borrowed until finish() succeeds, or until
  // this writer is destroyed.
  Status add(const Entry& entry, const EntryData& from, std::uint64_t id);

  // Call it once, after the last entry. It waits for all writers, then gives directories their
  // modes and times.
  Status finish();

  // Returns, after a fault, the name of the entry that caused it; "" if the fault names it; null if
  // it is the entry that was added last.
  [[nodiscard]] const std::string* failed_entry() const {
    return failed_entry_ ? &*failed_entry_ : nullptr;
  }

  // Counts what was not made as recorded in the archive.
  struct LeftOut {
    std::uint64_t specials = 0;  // FIFOs, devices, sockets, and hard links to them
    std::uint64_t set_ids = 0;   // files that lost their set-id bits
    std::uint64_t escaped = 0;   // below links, if that is not a fault
    std::uint64_t lost_xattrs = 0;
  };
  // What was made with a mode that keeps its owner from reading it.
  [[nodiscard]] const UnreadableEntries& unreadable() const { return unreadable_; }

  // After finish().
  [[nodiscard]] LeftOut left_out() const {
    LeftOut all = left_out_;
    all.escaped = rules_.escaped;
    all.lost_xattrs = rules_.lost_xattrs;
    return all;
  }

 private:
  void begin_new(const Entry& entry, std::string_view name);
  bool leave_out(const Entry& entry);
  Status enter(std::string_view parent);
  Status see(std::uint64_t hash, SeenNames::Kind kind);
  Status add_directory(const Entry& entry, SeenNames::Found found);
  Status claim_name(const std::string& name, std::uint64_t hash, SeenNames::Found found);
  bool keep(std::uint64_t offset, const Slice& data);
  Status write_late(std::uint64_t offset, const Slice& data);
  Status write_large(std::uint64_t offset, const Slice& data);
  Status forget_new();
  Status begin_large(Fd file);
  Status write_part(std::uint64_t offset, const Slice& data);
  Status complete();
  Status complete_large();
  Status put_entry(NewEntry entry, const Slice& memory);
  Status put_link(NewEntry entry);
  Status submit(WriterTask task);
  Status hand_on();
  Status settle();
  Status finish_directories();
  Status finish_directories(const std::vector<FilledDirectory>& directories);
  Status outcome();
  Status failed(Error error, std::string entry);
  void note_directory(std::string_view path);
  [[nodiscard]] DirectoryAttributes attributes_of(const Entry& entry) const;
  [[nodiscard]] bool is_read_only() const { return writes_ != WriteBits::kept; }
  [[nodiscard]] mode_t mode_of(const Entry& entry, mode_t type) const {
    const mode_t bits = entry.mode & (special_ == Special::keep ? 07777 : 0777) & ~umask_;
    return mode_with(writes_, bits | type) & 07777;
  }

  const mode_t umask_;
  const Special special_;
  const WriteBits writes_;
  Meter& meter_;
  Space& space_;
  // Directories with an entry of their own. Writers read them, so they outlive the crew.
  std::unordered_map<std::string, DirectoryAttributes> directories_;
  EntryRules rules_;
  WriterCrew crew_;
  EntryMaker maker_;  // of the caller's thread

  SeenNames seen_;
  std::string parent_;        // of the entry that was added last
  bool has_parent_ = false;   // parent_ was checked
  unsigned generation_ = 0;   // of directories
  std::uint64_t number_ = 0;  // of entries
  std::shared_ptr<EntryBatch> batch_;
  std::vector<WaitingLink> links_;  // to names in flight
  std::size_t link_bytes_ = 0;      // of their names
  std::unordered_set<std::uint64_t> link_names_;

  // What was added last, while more of its data may come.
  std::optional<NewEntry> new_;
  Slice memory_;  // contains its data
  std::shared_ptr<std::byte[]> gathered_;
  std::shared_ptr<LargeFile> large_;
  BlockCount large_blocks_;

  std::optional<std::string> failed_entry_;
  LeftOut left_out_;
  UnreadableEntries unreadable_;
  std::unordered_set<std::uint64_t> special_names_;  // hashes
};

}  // namespace nodestage
