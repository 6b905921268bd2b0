// Pack: writes a stage-out source into one archive with libarchive.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/os/file.hpp"
#include "common/result.hpp"
#include "daemon/worker/deliver/delivered_list.hpp"
#include "daemon/worker/deliver/output_links.hpp"
#include "daemon/worker/deliver/output_report.hpp"
#include "daemon/worker/tree/file_data.hpp"
#include "daemon/worker/tree/out_links.hpp"
#include "daemon/worker/tree/tree_walk.hpp"

struct archive;
struct archive_entry;

namespace nodestage {

// The first fault ends the archive, since an incomplete one must not look complete. tar is pax
// restricted. Entries are sorted; names are relative; the owner is `user`. tar keeps holes and hard
// links. Sockets, FIFOs, and devices are left out and counted.
class Pack {
 public:
  // Writes to `fd`, borrowed, in the format of the (checked) suffix, with `threads` if the codec
  // can use them.
  static Result<std::unique_ptr<Pack>> begin(int fd, const std::string& suffix, unsigned threads,
                                             const std::string& user, OutputReport& report);
  Pack(const Pack&) = delete;
  Pack& operator=(const Pack&) = delete;
  ~Pack();

  // From here on, entries have no owner, no inode, and no time but the modification's, which is
  // `mtime` if that is given. Equal trees become equal archives.
  void make_reproducible(std::optional<std::int64_t> mtime) { stamp_ = Stamp{mtime}; }

  // From here on, links into a job directory become what output_links.hpp says. Borrowed.
  void follow(OutputLinks& links) { output_links_ = &links; }

  // From here on, links that lead out of a directory whose contents are added are counted in
  // `found`, which is borrowed, or what they lead to is added in their place.
  void look_at_links(LinksOut links, OutLinks& found) {
    links_out_ = links;
    out_links_ = &found;
  }

  // From here on, files are looked at by these rules, borrowed, after they were read.
  void settle_by(const SettleRules& rules) { settle_ = &rules; }

  // From here on, a file that only becomes longer while it is read, as a log does, is noted, and
  // the archive has what was in it when it was opened. Otherwise it is a fault, as any other file
  // that is changed meanwhile: was_changed().
  void keep_growing() { growing_ = Growing::kept; }
  // The same, if what was read of it is still in it.
  void keep_growing_if_same() { growing_ = Growing::kept_if_same; }

  // From here on, no mode is changed in order to read what its owner may not: that is a fault.
  void keep_modes() { purpose_ = WalkFor::looking; }

  // From here on, this open file is left out: the archive itself, if it is written below the
  // source.
  Status leave_out_file(int fd);

  // From here on, entries that are no results are left out, and so are directories. `origin` is
  // before the paths of contents() in those of leaves_out: "" or "a/b/".
  void leave_out(LeavesOut leaves_out, const std::string& origin = "") {
    leaves_out_ = std::move(leaves_out);
    left_out_ = {&leaves_out_, origin};
  }

  // Adds the contents of a directory, each named `prefix` + its path in the directory.
  Status contents(Fd directory, const std::string& prefix);

  // Adds one entry of any kind as `name`. `origin` is before the name in the paths of leave_out():
  // "" or "a/b/".
  Status entry(const SourceEntry& source, const std::string& name, const std::string& origin = "");

  // Writes the archive's end. Without it, the file is not an archive.
  Status finish();

 private:
  struct EntryDeleter {
    void operator()(archive_entry* entry) const;
  };
  using Entry = std::unique_ptr<archive_entry, EntryDeleter>;
  [[nodiscard]] Entry entry_of(const std::string& name, const struct stat& info) const;

  Pack(OutputReport& report, std::string user);
  Status open(int fd, const std::string& suffix, unsigned threads);
  Status step(const TreeWalk& walk, const WalkStep& step, const std::string& name);
  Result<bool> follow_out(const TreeWalk& walk, const WalkStep& step, const std::string& name);
  Status add_behind(Fd target, const WalkStep& link, const std::string& name,
                    const struct stat& info);
  [[nodiscard]] bool is_in_a_walk(const struct stat& directory) const;
  Status link(const SourceEntry& source, const std::string& name, const struct stat& info);
  Status what_is_led_to(const LinkFate& fate, const std::string& name);
  Status add(const SourceEntry& source, const std::string& name, const struct stat& info,
             const std::string& link_text = "");
  Status add_file(archive_entry* entry, const SourceEntry& source, const std::string& name,
                  const struct stat& info);
  Status add_data(archive_entry* entry, int fd, const std::string& name);
  void set_attributes(archive_entry* entry, const struct stat& info) const;
  Status write_header(archive_entry* entry);
  enum class Then { write, forget };
  Status read_data(int fd, std::uint64_t size, Then then);
  Status write_data(std::string_view data);
  Status fault(int code) const;
  void count_written();

  struct Stamp {
    std::optional<std::int64_t> mtime;
  };
  void stamp(archive_entry* entry) const;

  OutputReport& report_;
  std::string user_;
  std::optional<Stamp> stamp_;
  archive* archive_;
  bool is_tar_ = false;  // keeps hard links and holes
  HardLinks links_;      // with names in the archive
  enum class Growing { refused, kept, kept_if_same } growing_ = Growing::refused;
  std::uint64_t sum_ = 0;  // of the last file, where it may have grown
  const SettleRules* settle_ = &usual_settle_rules();
  WalkFor purpose_ = WalkFor::reading;
  std::optional<HardLinks::Id> own_file_;
  OutputLinks* output_links_ = nullptr;
  LeavesOut leaves_out_;
  LeftOut left_out_;    // of the tree that is added
  unsigned depth_ = 0;  // of directories in the places of links, in each other
  LinksOut links_out_ = LinksOut::kept;
  OutLinks* out_links_ = nullptr;       // null: nobody asks
  std::vector<const TreeWalk*> walks_;  // that are under way: one for each link that was followed
  std::string block_;
};

}  // namespace nodestage
