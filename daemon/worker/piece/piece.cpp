#include "daemon/worker/piece/piece.hpp"

#include <fcntl.h>

#include <atomic>
#include <utility>

#include "common/os/file.hpp"
#include "common/text/path_names.hpp"
#include "daemon/worker/copy/copy_file.hpp"
#include "daemon/worker/copy/copy_leaf.hpp"
#include "daemon/worker/piece/recognise.hpp"
#include "daemon/worker/read/read_ahead.hpp"
#include "daemon/worker/tree/out_links.hpp"
#include "daemon/worker/tree/remove_tree.hpp"

namespace nodestage {
namespace {

constexpr ReadAheadLimits k_part_reads{std::size_t{1} << 20, 16, 4};

// The file that a source becomes, with the attributes of the source.
class NewFile {
 public:
  // `name`: what the file is called in texts.
  NewFile(PieceForm& form, std::string name, const PieceContext& place)
      : form_(form),
        place_(place),
        name_(std::move(name)),
        info_(form.source->info()),
        from_{form.source->fd(), info_, form.path} {
    info_.st_mode = mode_with(place.writes, info_.st_mode);
    if (form.limits.rules.xattrs) from_.xattrs = &xattrs_;
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  Result<Fd> make() {
    TRY(place_.space.will_make());
    auto to = open_at(place_.dir_fd, place_.name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
    if (!to) return place_.space.explain(place_.name, to.error().code);
    ++form_.meter->files;
    return to;
  }

  [[nodiscard]] FileToCopy& from() { return from_; }

  // Fills it with the blocks that `next` returns, until one is empty. Returns its size. `bounds`
  // (borrowed) are those of a bomb: it is not much larger than what they allow.
  template <typename Next>
  Result<std::uint64_t> write(int to, const EntryLimits* bounds, Next next) {
    static const std::atomic<bool> k_never = false;
    FileSink sink(to, UINT64_MAX, {*form_.meter, place_.space, k_never});
    for (;;) {
      TRY_ASSIGN(const Slice block, next());
      if (block.empty()) return sink.end();
      const Status written = sink.write(sink.end(), block.bytes());
      if (sink.failed_to_write())
        return place_.space.explain(last_part(name_), written.error().code);
      TRY(written);
      if (bounds != nullptr) TRY(bounds->check_ratio(sink.end()));
    }
  }

  // `made`: "copied as" or "decompressed to".
  void add_notes(const char* made) {
    const Unpacking& wanted = form_.wanted;
    UnreadableEntries unreadable;
    unreadable.look_at(place_.name, info_.st_mode);
    form_.add_note(unreadable.note());
    if (wanted.links == Links::follow) form_.add_note(k_only_directories);
    if (wanted.nested > 0) form_.add_note("nested has a meaning for archives only");
    Unpacking in_vain = wanted;
    if (wanted.is_match) in_vain.exclude.clear();
    if (const std::string keys = entry_keys_of(in_vain, wanted.newest == 0); !keys.empty())
      form_.add_note("it was " + std::string(made) + " one file, for which " + keys +
                     " had no meaning");
    form_.add_skipped(xattrs_.lost, k_lost_xattrs);
  }

 private:
  PieceForm& form_;
  const PieceContext& place_;
  const std::string name_;
  struct stat info_;
  XattrCopy xattrs_;
  FileToCopy from_;
};

}  // namespace

Result<Need> FilePiece::need() { return need_of_file(source->info()); }

Result<PieceLook> FilePiece::look(std::chrono::milliseconds limit) {
  const LookTime time(limit);
  PieceLook look;
  TRY(look_plainly(time, look));
  look.spent = time.spent();
  return look;
}

Status FilePiece::build(const PieceContext& place) {
  meter->bytes_read -= source->position();  // the bytes read to recognize it are read again
  NewFile file(*this, default_name(), place);
  TRY_ASSIGN(Fd to, file.make());
  begin_relay(0);
  if (source->is_joined()) {
    // In long blocks ahead, since no part is all of it that the kernel could copy.
    ReadAhead ahead(*source, 0, k_part_reads);
    TRY(ahead.start());
    TRY_ASSIGN(const std::uint64_t written,
               file.write(to.get(), nullptr, [&ahead] { return ahead.next(); }));
    if (written != source->size()) return was_changed();
    TRY(end_copy(file.from(), std::move(to), place.space));
  } else {
    file.from().from_storage = &meter->from_storage;
    if (source->relayed() != nullptr) file.from().relayed = source.get();
    TRY(copy_file(file.from(), std::move(to), *meter, place.space));
  }
  file.add_notes("copied as");
  return {};
}

Result<Need> CompressedPiece::need() {
  TRY_ASSIGN(Need need, need_of_archive(*source, decoder->coding(), Container::none));
  need.expected.inodes = need.least.inodes;
  return need;
}

Result<PieceLook> CompressedPiece::look(std::chrono::milliseconds limit) {
  const LookTime time(limit);
  PieceLook look;
  look.files = 1;
  while (!look.is_whole && time.is_left()) {
    TRY_ASSIGN(const Slice block, decoder->next());
    look.is_whole = block.empty();
    look.bytes += block.size();
  }
  look.position = look.is_whole ? source->size() : decoder->position();
  look.threads = decoder->threads();
  look.spent = time.spent();
  return look;
}

Status CompressedPiece::build(const PieceContext& place) {
  NewFile file(*this, default_name(), place);
  TRY_ASSIGN(Fd to, file.make());
  begin_relay(source->position());
  const EntryLimits bounds(source->size(), limits.rules);
  auto written = file.write(to.get(), &bounds, [this] { return decoder->next(); });
  if (!written) return as_part(of_source(std::move(written.error())));
  if (const auto& junk = decoder->junk()) {
    TRY_ASSIGN(const bool is_junk, has_junk(*source, junk->at));
    if (is_junk) add_note("bytes after the end of the compressed data were ignored");
  }
  TRY(end_copy(file.from(), std::move(to), place.space));
  file.add_notes("decompressed to");
  return {};
}

Result<Piece> Piece::open(const std::string& path, const Unpacking& wanted, Meter& meter,
                          const PieceLimits& limits) {
  PieceForm form{path, wanted, &meter, limits};
  if (form.is_joined()) {
    TRY_ASSIGN(Source source, Source::join(path, wanted.parts, meter));
    return open(std::move(form), std::move(source));
  }
  TRY_ASSIGN(const struct stat info, examine_source(path));
  if (S_ISDIR(info.st_mode) && wanted.mount)
    return fault(EISDIR, shown(path) + ": is a directory, and only an image can be mounted",
                 "Make one with: nodestage pack --image NEW.sqsh " + shell_word(shown(path)) +
                     " (without mount, the directory is copied)");
  if (S_ISDIR(info.st_mode)) return Piece(DirectoryPiece(std::move(form)));
  if (wanted.only != nullptr) return newest_of_file(path);
  TRY_ASSIGN(Source source, Source::open(path, meter));
  return open(std::move(form), std::move(source));
}

Result<Piece> Piece::open(PieceForm form, Source source) {
  form.source = std::make_unique<Source>(std::move(source));
  auto found = recognise(*form.source, form.wanted, form.decoder_limits());
  if (!found) return form.as_joined(std::move(found.error()));
  form.add_note(found->note);
  if (found->is_compressed_file)
    return Piece(CompressedPiece(std::move(form), std::move(found->decoder)));
  if (found->container == Container::none) {
    form.add_note(form.range_of_parts());
    return Piece(FilePiece{std::move(form)});
  }
  return Piece(ArchivePiece(std::move(form), found->container, std::move(found->decoder)));
}

// In place of what is open, which goes first: a decoder has threads that read it.
Status Piece::open_again() {
  const PieceForm& form = this->form();
  TRY_ASSIGN(Piece again, open(form.path, form.wanted, *form.meter, form.limits));
  std::visit(
      [this](auto&& one) {
        form_.emplace<std::decay_t<decltype(one)>>(std::forward<decltype(one)>(one));
      },
      std::move(again.form_));
  return {};
}

// What could not be read of a file that is being written may be its fault.
const SourcePart* Piece::changed_while(const Status& made) const {
  const PieceForm& form = this->form();
  if (!form.source || (!made && is_stopped(made.error()))) return nullptr;
  return form.source->changed(form.limits.settle);
}

// It may have been open for long while others were staged.
Status Piece::freshen() {
  const PieceForm& form = this->form();
  if (!form.source || form.source->changed() == nullptr) return {};
  ItemRelay* const relay = form.relay;
  TRY(open_again());
  if (relay != nullptr) relay_by(*relay);
  return {};
}

Status Piece::build(const Place& place) {
  const SettleRules settle = form().limits.settle;
  Meter& meter = *form().meter;
  std::string path = form().path;
  const MeterMark mark(meter);
  Status opened = freshen();
  for (unsigned reads = 1;; ++reads) {
    if (opened) {
      Status made = build_once(place);
      const SourcePart* const changed = changed_while(made);
      if (changed == nullptr) return made;
      path = changed->path;
    } else if (opened.error().code != 0) {
      return opened;  // otherwise the cause is its content, which is not complete yet
    }
    if (reads >= settle.reads) return changed_source(path, settle);
    const Status removed = remove_entry(place.dir_fd, place.name);
    if (!removed && removed.error().code != ENOENT)
      return place.space.explain(place.name, removed.error().code);
    mark.restore();
    settle.wait(settle.between);
    TRY(meter.check());
    opened = open_again();
  }
}

Status Piece::build_once(const Place& place) {
  Status made = std::visit([&place](auto& form) { return form.build(place); }, form_);
  const PieceForm& form = this->form();
  if (form.source) form.source->end_relay();
  return made ? made : form.as_joined(std::move(made.error()));
}

}  // namespace nodestage
