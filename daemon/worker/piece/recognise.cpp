#include "daemon/worker/piece/recognise.hpp"

#include "common/text/archive_names.hpp"
#include "common/text/human.hpp"
#include "common/text/path_names.hpp"
#include "daemon/worker/archive/zip_index.hpp"
#include "daemon/worker/decode/gzip_index.hpp"

namespace nodestage {
namespace {

using Use = ArchiveName::Use;

class Recognition {
 public:
  Recognition(Source& source, const Unpacking& wanted, const DecoderLimits& limits)
      : source_(source),
        path_(source.path()),
        wanted_(wanted),
        limits_(limits),
        name_(archive_name(last_part(path_))) {}

  Result<Recognised> run();

 private:
  [[nodiscard]] bool claims_archive() const {
    return name_ != nullptr && name_->use != Use::copied;
  }
  // Whether it is an error if it is not an archive.
  [[nodiscard]] bool must_be_archive() const {
    return claims_archive() || wanted_.extract == Extract::yes;
  }
  Status check_name() const;
  Status open();
  Result<Container> container();
  Status judge_other();
  void note_copied();
  void find_index();
  [[nodiscard]] Error not_an_archive() const;
  [[nodiscard]] Error unreadable_kind() const;

  Source& source_;
  const std::string& path_;
  const Unpacking& wanted_;
  const DecoderLimits limits_;
  const ArchiveName* const name_;
  Recognised found_;
};

Result<Recognised> Recognition::run() {
  if (wanted_.extract == Extract::no) return std::move(found_);
  TRY(check_name());
  TRY(open());
  TRY_ASSIGN(found_.container, container());
  if (found_.container == Container::none) {
    TRY(judge_other());
  } else if (!must_be_archive() && !wanted_.is_by_content) {
    note_copied();
    found_.container = Container::none;
  } else {
    find_index();
  }
  return std::move(found_);
}

Status Recognition::check_name() const {
  const std::string whole = whole_archive(path_);
  if (!whole.empty() && wanted_.extract != Extract::yes) return one_part(path_, whole);
  if (source_.size() > 0 || !must_be_archive()) return {};
  return fault(0, shown(path_) + ": empty (0 bytes)",
               "Was it written to a full disk or quota? Make it again");
}

Status Recognition::open() {
  TRY_ASSIGN(Decoder decoder, Decoder::open(source_, limits_));
  found_.decoder = std::make_unique<Decoder>(std::move(decoder));
  return {};
}

// A file whose name promises nothing may contain anything: faults in its first bytes do not count.
Result<Container> Recognition::container() {
  const auto start = found_.decoder->peek();
  if (!start) {
    if (must_be_archive() || is_stopped(start.error())) return start.error();
    return Container::none;
  }
  const Container container = recognise_container(*start);
  const bool claims_tar = claims_archive() && name_->container == Container::tar;
  if (container == Container::none && claims_tar && starts_with_zero_block(*start))
    return Container::tar;
  const bool may_be_zip =
      wanted_.extract == Extract::yes || (claims_archive() && name_->container == Container::zip);
  if (container == Container::none && may_be_zip) {
    // A zip after a program that extracts it, or the last of several files.
    TRY_ASSIGN(const bool is_zip, has_zip_end(source_));
    return is_zip ? Container::zip : Container::none;
  }
  const bool is_decoded = found_.decoder->coding() != Coding::plain;
  return is_decoded && !is_stream(container) ? Container::none : container;
}

Status Recognition::judge_other() {
  if (claims_archive() && name_->use == Use::refused) return unreadable_kind();
  if (must_be_archive()) {
    TRY(found_.decoder->drain());  // if it is cut off or damaged, that is the cause
    return not_an_archive();
  }
  if (found_.decoder->coding() != Coding::plain) found_.note = "not an archive: copied as it is";
  return {};
}

void Recognition::note_copied() {
  if (name_ != nullptr && name_->container == found_.container) return;
  found_.note = "copied as it is: its content is an archive (" +
                std::string(row_of(found_.container).name) +
                "), but its name is not that of one; extract=yes extracts it";
}

void Recognition::find_index() {
  if (found_.decoder->coding() != Coding::gzip || limits_.threads < 2) return;
  GzipIndex::Found beside = GzipIndex::beside(source_);
  found_.decoder->use(std::move(beside.index));
  found_.note = std::move(beside.note);
}

Error Recognition::not_an_archive() const {
  const std::string look = "Look at it with: file " + shell_word(shown(path_));
  if (!claims_archive())
    return fault(0, shown(path_) + ": is not an archive, and extract=yes is for archives",
                 look + " (without extract=yes, it is copied as it is)");
  return fault(0, shown(path_) + ": is named like an archive, but is not one",
               look + " (extract=no copies it as it is)");
}

Error Recognition::unreadable_kind() const {
  const std::string program(name_->program);
  return fault(0,
               shown(path_) + ": archives of the kind " + std::string(name_->suffix) +
                   " cannot be extracted here",
               "Extract it once with " + program + ", and pack it again: nodestage pack DIR -o " +
                   shell_word(shown(default_destination(path_)) + ".tar.zst") +
                   " (extract=no copies it as it is)");
}

}  // namespace

Result<Recognised> recognise(Source& source, const Unpacking& wanted, const DecoderLimits& limits) {
  return Recognition(source, wanted, limits).run();
}

Error one_part(const std::string& path, const std::string& whole) {
  const std::string start = path.substr(0, path.rfind('/') + 1) + whole;
  const std::string parts = shell_word(shown(start)) + path[start.size()] + "*";
  return fault(0, shown(path) + ": is one part of an archive in several files",
               "Join the parts in order, and stage the whole: cat " + parts + " > " +
                   shell_word(shown(start)) + " (extract=no copies the part as it is)");
}

}  // namespace nodestage
