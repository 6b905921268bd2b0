// PieceForm: what directories, files, and archives have in common as sources of a Piece.
#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "common/os/file.hpp"
#include "common/request/destinations.hpp"
#include "common/wire/worker_order.hpp"
#include "daemon/worker/archive/container.hpp"
#include "daemon/worker/archive/entry_limits.hpp"
#include "daemon/worker/archive/nested_entries.hpp"
#include "daemon/worker/budget/meter.hpp"
#include "daemon/worker/budget/space.hpp"
#include "daemon/worker/decode/decoder.hpp"
#include "daemon/worker/piece/newest.hpp"
#include "daemon/worker/piece/recognise.hpp"
#include "daemon/worker/read/source.hpp"
#include "daemon/worker/spool/item_relay.hpp"
#include "daemon/worker/tree/file_data.hpp"
#include "daemon/worker/tree/remove_tree.hpp"

namespace nodestage {

struct PieceLimits {
  unsigned threads = 1;                                 // writing threads, and decoding threads
  std::size_t memory = std::size_t{192} * 1024 * 1024;  // for data that are being processed
  ExtractRules rules = {};
  SettleRules settle = {};
};

// What the start of a source is like, for an estimate.
struct PieceLook {
  struct Index {          // of an archive that has one, a zip
    std::uint64_t files;  // members other than directories
    std::uint64_t bytes;  // of all, unpacked
    bool is_plain;        // many threads can read it
  };
  std::uint64_t position = 0;  // bytes read of the source,
  std::uint64_t bytes = 0;   // which contain this much of files' data (if the archive is a stream),
  std::uint64_t files = 0;   // in this many files (likewise),
  std::uint64_t unread = 0;  // of which the last one has this much more
  std::chrono::milliseconds spent{0};
  bool is_whole = false;  // everything was read
  unsigned threads = 1;   // that decoded it
  std::optional<Index> index;
};

// Where a piece is made: `name` in dir_fd.
struct PieceContext {
  using Writes = WriteBits;  // `taken`: nothing in it has some in the end, but perhaps its top
  int dir_fd;
  std::string name;
  mode_t umask;
  Space& space;
  Writes writes = Writes::kept;
};

// The time of a look at a source.
class LookTime {
 public:
  using Clock = std::chrono::steady_clock;
  explicit LookTime(std::chrono::milliseconds limit) : end_(begun_ + limit) {}
  [[nodiscard]] bool is_left() const { return Clock::now() < end_; }
  [[nodiscard]] std::chrono::milliseconds spent() const {
    const auto spent = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begun_);
    return std::max(spent, std::chrono::milliseconds(1));
  }

 private:
  Clock::time_point begun_ = Clock::now();
  Clock::time_point end_;
};

// What is left out, with a number before it.
struct Skipped {
  const char* one;
  const char* many;
};
// Returns "2 FIFOs, sockets or devices left out"; "" for none.
std::string left_out_note(std::uint64_t count, const Skipped& what);

// The base of each form. What a form's own functions do is said in piece.hpp.
inline constexpr std::size_t k_least_of_two_decoders = std::size_t{144} << 20;

struct PieceForm {
  std::string path;
  Unpacking wanted;
  Meter* meter;  // borrowed
  PieceLimits limits;
  ItemRelay* relay = nullptr;                // borrowed; null: nothing is relayed
  std::unique_ptr<Source> source = nullptr;  // null for a directory
  std::string note = {};
  std::string link_note = {};
  std::string idle_globs = {};
  Fd directory = Fd();  // the source directory, once it was opened

  [[nodiscard]] std::string default_name() const { return nodestage::default_name(path, wanted); }
  [[nodiscard]] bool is_joined() const { return !wanted.parts.empty(); }
  // With nested, two decoders share the memory, if it is enough for both.
  [[nodiscard]] DecoderLimits decoder_limits() const {
    const std::size_t memory = limits.memory - limits.memory / 3;
    return {limits.threads, has_two_decoders() ? memory / 2 : memory};
  }
  [[nodiscard]] bool has_two_decoders() const {
    return wanted.nested > 0 && limits.memory >= k_least_of_two_decoders;
  }
  void add_note(const std::string& text) { nodestage::add_note(note, text); }
  // Adds the note that so many were left out, if there are any.
  void add_skipped(std::uint64_t count, const Skipped& what) {
    add_note(left_out_note(count, what));
  }
  void begin_relay(std::uint64_t offset) {
    if (relay != nullptr) source->begin_relay(*relay, offset);
  }
  // A fault with the path before it.
  [[nodiscard]] Error of_source(Error error) const;
  // A fault of its content, which a part of an archive need not have alone.
  [[nodiscard]] Error as_part(Error error) const;
  // A fault of its content, which can be that of a part if it was joined.
  [[nodiscard]] Error as_joined(Error error) const;
  // Of a file that was joined: the first and the last part, with what makes it doubtful that they
  // are. No content tells.
  [[nodiscard]] std::string range_of_parts() const;
  // Reads the file as it is, while there is time.
  Status look_plainly(const LookTime& time, PieceLook& look);
};

inline constexpr Skipped k_lost_xattrs = {"extended attribute or ACL",
                                          "extended attributes or ACLs"};
inline constexpr Skipped k_specials = {"FIFO, socket or device", "FIFOs, sockets or devices"};
inline constexpr const char* k_only_directories = "links= has a meaning for directories only";

// Makes the directory of a place.
Result<Fd> make_directory(const PieceContext& place);

// The keys that the user gave of those that choose and name entries, as "strip= and include=";
// "" for none of them.
std::string entry_keys_of(const Unpacking& wanted, bool with_globs = true);

// The fault if something of a source was seen, and nothing of it taken.
Status check_taken(const std::string& path, const Unpacking& wanted, std::uint64_t seen,
                   std::uint64_t taken, const std::string& advice);

// ArchivePiece: an archive that becomes a tree. Piece has what its functions do.

class TreeWriter;
class EntryLimits;

// The note, without `nested`, that most files of an archive are named like ones, or "". `files` is
// how many there are: "its", or "its first".
std::string nested_note(std::uint64_t archives, std::uint64_t files, const char* whose = "its");

class ArchivePiece : public PieceForm {
 public:
  ArchivePiece(PieceForm form, Container container, std::unique_ptr<Decoder> decoder)
      : PieceForm(std::move(form)), container_(container), decoder_(std::move(decoder)) {}

  [[nodiscard]] std::string kind() const;
  Result<Need> need();
  Result<PieceLook> look(std::chrono::milliseconds limit);
  Status build(const PieceContext& place);

  [[nodiscard]] Container container() const { return container_; }
  [[nodiscard]] Coding coding() const { return decoder_->coding(); }

 private:
  Status look_behind();
  Status open_entries();
  void open_nested(std::optional<NestedRoom> room, std::shared_ptr<const EntryFilter> filter);
  Result<std::unique_ptr<Entries>> entries_of_container();
  [[nodiscard]] Status check_members(const ZipIndex& index) const;
  Status write_entries(TreeWriter& writer, EntryLimits& bounds, const EntryFilter& filter,
                       OutLinks& out_links);
  Status refuse(const Error& error, const std::string& name);
  Status write_entry(const Entry& entry, TreeWriter& writer, const EntryLimits& bounds);
  [[nodiscard]] Status check_ratio(const EntryLimits& bounds) const;
  [[nodiscard]] Error at_entry(Error error, const std::string& name) const;

  Container container_;
  std::unique_ptr<Decoder> decoder_;
  std::unique_ptr<Entries> entries_;  // once they are open
  std::uint64_t written_before_ = 0;  // by other archives of the same item
  std::uint64_t escaped_ = 0;         // entries whose names lead out of it
};

}  // namespace nodestage
