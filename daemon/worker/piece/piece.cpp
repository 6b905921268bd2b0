#include "daemon/worker/piece/piece.hpp"

#include <fcntl.h>

#include "common/os/file.hpp"
#include "common/text/human.hpp"
#include "common/text/path_names.hpp"
#include "daemon/worker/copy/copy_file.hpp"
#include "daemon/worker/copy/copy_leaf.hpp"
#include "daemon/worker/piece/recognise.hpp"
#include "daemon/worker/tree/out_links.hpp"
#include "daemon/worker/tree/remove_tree.hpp"

namespace nodestage {
std::string FilePiece::default_name() const { return std::string(last_part(path)); }

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
  TRY(place.space.will_make());
  auto to = open_at(place.dir_fd, place.name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
  if (!to) return place.space.explain(place.name, to.error().code);
  ++meter->files;
  XattrCopy xattrs;
  struct stat info = source->info();
  info.st_mode = mode_with(place.writes, info.st_mode);
  FileToCopy file{source->fd(), info, path};
  if (limits.rules.xattrs) file.xattrs = &xattrs;
  begin_relay(0);
  file.from_storage = &meter->from_storage;
  if (source->relayed() != nullptr) file.relayed = source.get();
  TRY(copy_file(file, std::move(*to), *meter, place.space));
  UnreadableEntries unreadable;
  unreadable.look_at(place.name, info.st_mode);
  add_note(unreadable.note());
  if (wanted.links == Links::follow) add_note(k_only_directories);
  Unpacking in_vain = wanted;
  if (wanted.is_match) in_vain.exclude.clear();
  if (const std::string keys = entry_keys_of(in_vain, wanted.newest == 0); !keys.empty())
    add_note("it was copied as one file, for which " + keys + " had no meaning");
  add_skipped(xattrs.lost, k_lost_xattrs);
  return {};
}

Result<Piece> Piece::open(const std::string& path, const Unpacking& wanted, Meter& meter,
                          const PieceLimits& limits) {
  PieceForm form{path, wanted, &meter, limits};
  TRY_ASSIGN(const struct stat info, examine_source(path));
  if (S_ISDIR(info.st_mode)) return Piece(DirectoryPiece(std::move(form)));
  if (wanted.only != nullptr) return newest_of_file(path);
  TRY_ASSIGN(Source source, Source::open(path, meter));
  form.source = std::make_unique<Source>(std::move(source));
  TRY_ASSIGN(Recognised found,
             recognise(*form.source, wanted, {limits.threads, limits.memory - limits.memory / 3}));
  form.add_note(found.note);
  if (found.container == Container::none) return Piece(FilePiece{std::move(form)});
  return Piece(ArchivePiece(std::move(form), found.container, std::move(found.decoder)));
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
bool Piece::has_held_still(const Status& made) const {
  const PieceForm& form = this->form();
  if (!form.source || (!made && is_stopped(made.error()))) return true;
  return nodestage::has_held_still(form.source->fd(), form.source->info(), form.limits.settle);
}

// It may have been open for long while others were staged.
Status Piece::freshen() {
  const PieceForm& form = this->form();
  if (!form.source || is_unchanged(form.source->fd(), form.source->info())) return {};
  ItemRelay* const relay = form.relay;
  TRY(open_again());
  if (relay != nullptr) relay_by(*relay);
  return {};
}

Status Piece::build(const Place& place) {
  const SettleRules settle = form().limits.settle;
  Meter& meter = *form().meter;
  const std::string path = form().path;
  const MeterMark mark(meter);
  Status opened = freshen();
  for (unsigned reads = 1;; ++reads) {
    if (opened) {
      Status made = build_once(place);
      if (has_held_still(made)) return made;
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
  if (form.source && form.source->relayed() != nullptr)
    form.relay->add(form.source->relayed()->close());
  return made;
}

}  // namespace nodestage
