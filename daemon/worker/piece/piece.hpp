// Piece: one source path that becomes one tree or file: source → decoder → entries → writer.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "common/wire/worker_rules.hpp"
#include "daemon/worker/archive/archive_contents.hpp"
#include "daemon/worker/archive/container.hpp"
#include "daemon/worker/archive/entries.hpp"
#include "daemon/worker/budget/meter.hpp"
#include "daemon/worker/budget/space.hpp"
#include "daemon/worker/decode/decoder.hpp"
#include "daemon/worker/piece/need.hpp"
#include "daemon/worker/piece/unpacking.hpp"
#include "daemon/worker/spool/item_relay.hpp"

namespace nodestage {

class TreeWriter;
class EntryFilter;
class EntryLimits;

struct PieceLimits {
  unsigned threads = 1;                                 // writing threads, and decoding threads
  std::size_t memory = std::size_t{192} * 1024 * 1024;  // for data that are being processed
  ExtractRules rules = {};
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

class Piece {
 public:
  // Opens the source and finds out what it is (recognise.hpp). `meter` is borrowed.
  static Result<Piece> open(const std::string& path, const Unpacking& wanted, Meter& meter,
                            const PieceLimits& limits);

  // The name under which it is staged by default: the base name, without an archive's suffix for an
  // archive or a directory.
  [[nodiscard]] std::string default_name() const;

  [[nodiscard]] std::string kind() const;  // "tar.gz", "zip", "directory", "file"

  // The descriptor of the source file, borrowed; -1 for a directory.
  [[nodiscard]] int source_fd() const { return source_ ? source_->fd() : -1; }

  // The source file's size; 0 for a directory.
  [[nodiscard]] std::uint64_t size() const { return source_ ? source_->size() : 0; }

  // nullopt for a directory, and for a file that is copied as it is.
  [[nodiscard]] std::optional<Container> container() const {
    return form_ == Form::archive ? std::optional(container_) : std::nullopt;
  }
  // The coding of an archive.
  [[nodiscard]] Coding coding() const { return decoder_ ? decoder_->coding() : Coding::plain; }
  [[nodiscard]] bool is_directory() const { return form_ == Form::directory; }
  // The blocks of an xz file; 0 if unknown.
  [[nodiscard]] std::uint64_t xz_blocks() const { return source_ ? xz_blocks_of(*source_) : 0; }

  // What build() will take of the local disk, as far as is known (need.hpp).
  Result<Need> need();

  // Reads on for about `limit` as build() would, with all its threads, and writes nothing. Does not
  // read directories. Call it once, instead of build().
  Result<PieceLook> look(std::chrono::milliseconds limit);

  // build() reads the source from other nodes of the job, where it can. Borrowed.
  void relay_by(ItemRelay& relay) { relay_ = &relay; }

  // Makes `name` in dir_fd. Call it once. The process's umask must be `umask`.
  enum class Writes {
    kept,
    taken,  // nothing in it has write bits in the end, except its top directory perhaps
  };
  struct Place {
    int dir_fd;
    std::string name;
    mode_t umask;
    Space& space;
    Writes writes = Writes::kept;
  };
  Status build(const Place& place);

  // A note for the user, or "". Complete after build().
  [[nodiscard]] const std::string& note() const { return note_; }

  // After build(): what is told of links that lead out of it, or "".
  [[nodiscard]] const std::string& link_note() const { return link_note_; }

  // After build(): the globs that made no difference here (EntryFilter::idle_globs()), or "". They
  // may make one in other sources of the same item.
  [[nodiscard]] const std::string& idle_globs() const { return idle_globs_; }

 private:
  Piece(std::string path, Unpacking wanted, Meter& meter, const PieceLimits& limits)
      : path_(std::move(path)), wanted_(std::move(wanted)), meter_(&meter), limits_(limits) {}
  Status recognise();
  Status make(const Place& place);
  void begin_relay(std::uint64_t offset);
  void end_relay();
  Status copy_directory(const Place& place);
  Status copy_as_file(const Place& place);
  Status extract(const Place& place);
  Status look_behind();
  [[nodiscard]] Error as_part(Error error) const;
  Status open_entries();
  Result<std::unique_ptr<Entries>> entries_of_container();
  [[nodiscard]] Status check_members(const ArchiveContents& contents) const;
  Status write_entries(Entries& entries, TreeWriter& writer, EntryLimits& limits,
                       OutLinks& out_links);
  Status refuse(const Error& error, const std::string& name);
  Status write_entry(Entries& entries, const Entry& entry, TreeWriter& writer,
                     const EntryLimits& limits);
  [[nodiscard]] Status check_ratio(const EntryLimits& limits) const;
  [[nodiscard]] Status check_taken(std::uint64_t seen, std::uint64_t taken) const;
  [[nodiscard]] Error at_entry(Error error, const std::string& name) const;
  void add_note(const std::string& text);

  enum class Form { directory, file, archive };
  std::string path_;
  Unpacking wanted_;
  Meter* meter_;
  PieceLimits limits_;
  ItemRelay* relay_ = nullptr;  // null: nothing is relayed
  Form form_ = Form::file;
  Container container_ = Container::none;
  std::unique_ptr<Source> source_;    // null for a directory
  std::unique_ptr<Decoder> decoder_;  // null if nothing is decoded
  std::unique_ptr<Entries> entries_;  // of an open archive
  std::uint64_t written_before_ = 0;  // by other archives of the same item
  std::uint64_t escaped_ = 0;         // entries whose names lead out of it
  std::string note_;
  std::string link_note_;
  std::string idle_globs_;
};

}  // namespace nodestage
