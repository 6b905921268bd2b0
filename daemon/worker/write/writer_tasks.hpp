// The tasks that a TreeWriter gives to its writers.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "daemon/worker/write/writer_crew.hpp"

namespace nodestage {

// New entries of one directory.
class EntryBatch final : public WriterTask {
 public:
  EntryBatch(std::string parent, Meter& meter, Space& space)
      : parent_(std::move(parent)), meter_(meter), space_(space) {}

  // Adds an entry whose data are in `memory`, of which the batch takes a share.
  void put(NewEntry entry, const Slice& memory, const Amount& amount);
  // Returns whether it should be handed on before more is added.
  [[nodiscard]] bool is_full() const;
  [[nodiscard]] const std::string& parent() const { return parent_; }
  // The number of different blocks of a decoder that it may hold.
  static constexpr std::size_t k_memories = 14;

  std::optional<WriterFault> run(EntryMaker& maker) override;

 private:
  const std::string parent_;
  Meter& meter_;
  Space& space_;  // only for wrote()
  Amount amount_;
  std::uint64_t to_fetch_ = 0;  // bytes of the entries' data that it does not contain
  std::vector<NewEntry> entries_;
  std::vector<Slice> memories_;
};

// Hard links in any directories.
class LinkBatch final : public WriterTask {
 public:
  struct Link {
    std::string parent;
    NewEntry entry;
  };
  LinkBatch(std::vector<Link> links, Meter& meter, Space& space)
      : links_(std::move(links)), meter_(meter), space_(space) {}
  std::optional<WriterFault> run(EntryMaker& maker) override;

 private:
  const std::vector<Link> links_;
  Meter& meter_;
  Space& space_;  // only for wrote()
};

// A file that several writers fill, of which the last to release it completes it. For any thread.
class LargeFile {
 public:
  LargeFile(Fd file, std::string path, NewEntry entry)
      : file_(std::move(file)), path_(std::move(path)), entry_(std::move(entry)) {}

  // Adds a holder; its maker is the first.
  void hold() { ++holders_; }
  // Releases it, after everything that was held was written, up to `end`.
  std::optional<WriterFault> release(const EntryMaker& maker);

  [[nodiscard]] int fd() const { return file_.get(); }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const NewEntry& entry() const { return entry_; }
  [[nodiscard]] std::uint64_t end() const { return end_; }
  void reach(std::uint64_t end) { end_ = std::max(end_, end); }  // the maker only

 private:
  Fd file_;
  const std::string path_;
  const NewEntry entry_;
  std::uint64_t end_ = 0;  // final before the maker lets go
  std::atomic<unsigned> holders_ = 1;
};

class PartOfFile final : public WriterTask {
 public:
  struct Way {
    Meter& meter;
    Space& space;  // only for wrote()
    Amount amount;
  };
  PartOfFile(std::shared_ptr<LargeFile> file, std::uint64_t offset, Slice data, const Way& way)
      : file_(std::move(file)), offset_(offset), data_(std::move(data)), way_(way) {}
  std::optional<WriterFault> run(EntryMaker& maker) override;

 private:
  const std::shared_ptr<LargeFile> file_;
  const std::uint64_t offset_;
  const Slice data_;
  const Way way_;
};

// Directories of one depth, when nothing more is added to them.
class DirectoryBatch final : public WriterTask {
 public:
  struct Directory {
    const std::string* path;
    const DirectoryAttributes* attributes;
  };
  explicit DirectoryBatch(std::vector<Directory> directories)
      : directories_(std::move(directories)) {}
  std::optional<WriterFault> run(EntryMaker& maker) override;

 private:
  const std::vector<Directory> directories_;
};

}  // namespace nodestage
