#include "daemon/worker/piece/recognise.hpp"

#include <fcntl.h>
#include <unistd.h>

#include "common/os/file.hpp"
#include "common/text/archive_names.hpp"
#include "common/text/human.hpp"
#include "common/text/part_names.hpp"
#include "common/text/path_names.hpp"
#include "common/text/squashfs_image.hpp"
#include "daemon/worker/archive/zip_index.hpp"

namespace nodestage {
namespace {

using Use = ArchiveName::Use;

// As pickles of protocol 2 and later begin, PyTorch's old form with them, which is several in a
// row.
bool starts_with_pickle(Bytes start) {
  constexpr std::string_view k_opcodes = "}])(NcKMJGXTUBC\x88\x89\x8a\x8b\x8c\x8d\x8e\x8f\x95";
  if (start.size() < 3 || start[0] != std::byte{0x80}) return false;
  const auto protocol = std::to_integer<unsigned>(start[1]);
  const char opcode = static_cast<char>(start[2]);
  return protocol >= 2 && protocol <= 5 && k_opcodes.find(opcode) != std::string_view::npos;
}

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
  void judge_compressed(Coding inner);
  Status check_zip_part() const;
  Result<std::string> checkpoint_inside();
  void note_copied();
  [[nodiscard]] Error compressed_twice() const;
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
  if (wanted_.mount) {
    TRY_ASSIGN(const std::string start, source_.text_at(0, k_image_start_bytes));
    TRY(check_image(shown(path_), start, source_.size()));
    return std::move(found_);
  }
  if (wanted_.extract == Extract::no) return std::move(found_);
  TRY(check_name());
  TRY(open());
  TRY_ASSIGN(found_.container, container());
  TRY(check_zip_part());
  TRY_ASSIGN(const std::string checkpoint, checkpoint_inside());
  if (!checkpoint.empty()) {
    found_.container = Container::none;
    found_.note =
        "copied as it is: its content is a checkpoint (" + checkpoint + "), whatever its name says";
  } else if (found_.container == Container::none) {
    TRY(judge_other());
  } else if (!must_be_archive() && !wanted_.is_by_content) {
    note_copied();
    found_.container = Container::none;
  }
  return std::move(found_);
}

Status Recognition::check_name() const {
  const std::string whole = whole_archive(path_);
  if (!whole.empty() && wanted_.extract != Extract::yes) return one_part(path_);
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
  const bool is_compressed = found_.decoder->coding() != Coding::plain;
  if (must_be_archive()) {
    const auto start = found_.decoder->peek();
    const Coding inner = is_compressed && start ? recognise_coding(*start) : Coding::plain;
    if (is_compressed && !claims_archive()) {
      judge_compressed(inner);
      return {};
    }
    TRY(found_.decoder->drain());  // if it is cut off or damaged, that is the cause
    return inner != Coding::plain ? compressed_twice() : not_an_archive();
  }
  const auto start = found_.decoder->peek();
  if (start && is_squashfs({reinterpret_cast<const char*>(start->data()), start->size()}) &&
      !wanted_.is_by_content)
    found_.note = "copied as it is: it is a squashfs image; the key mount mounts it";
  if (is_compressed) found_.note = "not an archive: copied as it is; extract=yes decompresses it";
  return {};
}

void Recognition::judge_compressed(Coding inner) {
  found_.is_compressed_file = true;
  if (inner != Coding::plain)
    found_.note = "it was decompressed once, and what that gave is compressed too (" +
                  std::string(row_of(inner).name) + ")";
}

// The first part has the signature, and the last one, beside it, the name of the whole.
Status Recognition::check_zip_part() const {
  const std::string whole = whole_zip(path_);
  if (whole.empty() || wanted_.extract == Extract::yes) return {};
  const std::string last = path_.substr(0, path_.rfind('/') + 1) + whole;
  if (found_.container != Container::zip && ::access(last.c_str(), F_OK) != 0) return {};
  return fault(0, shown(path_) + ": is one part of a zip archive in several files",
               how_to_stage_parts(path_) + " (extract=no copies the part as it is)");
}

// Of what is named as an archive: PyTorch's own example writes "checkpoint.pth.tar".
Result<std::string> Recognition::checkpoint_inside() {
  if (!claims_archive() || wanted_.extract == Extract::yes || wanted_.is_by_content)
    return std::string();
  const auto start = found_.decoder->peek();
  if (!start) return std::string();  // it was looked at before
  if (found_.container == Container::none)
    return std::string(starts_with_pickle(*start) ? "a pickle" : "");
  const bool may_be = found_.container == Container::zip &&
                      (name_->container != Container::zip || has_pickle_first(*start));
  if (!may_be) return std::string();
  const auto index = read_zip_index(source_);
  const bool is_checkpoint = index && index->has_checkpoint(name_->container != Container::zip);
  return std::string(is_checkpoint ? "a zip with data.pkl, as PyTorch writes it" : "");
}

void Recognition::note_copied() {
  if (name_ != nullptr && name_->container == found_.container) return;
  found_.note = "copied as it is: its content is an archive (" +
                std::string(row_of(found_.container).name) +
                "), but its name is not that of one; extract=yes extracts it";
}

Error Recognition::compressed_twice() const {
  const std::string path = shell_word(shown(path_));
  return fault(0, shown(path_) + ": is compressed twice",
               "Decompress it once, and stage what that gives: " +
                   std::string(row_of(found_.decoder->coding()).name) + " -dc " + path +
                   " > NEW-FILE (extract=no copies it as it is)");
}

Error Recognition::not_an_archive() const {
  const std::string look = "Look at it with: file " + shell_word(shown(path_));
  if (!claims_archive())
    return fault(
        0,
        shown(path_) + ": is not an archive and not compressed, and extract=yes is for such files",
        look + " (without extract=yes, it is copied as it is)");
  return fault(0, shown(path_) + ": is named like an archive, but is not one",
               look + " (extract=no copies it as it is)");
}

Error Recognition::unreadable_kind() const {
  const std::string name = shown(default_destination(path_));
  std::string directory = "DIR";
  std::string advice =
      "Extract it once with " + std::string(name_->program) + ", and pack it again";
  if (name_->program == "cpio") {
    const std::string_view test = row_of(found_.decoder->coding()).test;  // "gzip -t"
    const std::string file = shell_word(shown(path_));
    const std::string extract = " cpio -idm -D " + (directory = shell_word(name));
    advice = "Make a tar of it once: mkdir " + directory + " && " +
             (test.ends_with(" -t")
                  ? std::string(test.substr(0, test.size() - 1)) + "dc " + file + " |" + extract
                  : extract.substr(1) + " < " + file);
  }
  return fault(0,
               shown(path_) + ": archives of the kind " + std::string(name_->suffix) +
                   " cannot be extracted here",
               advice + (directory == "DIR" ? ": " : "; ") + "nodestage pack " + directory +
                   " -o " + shell_word(name + ".tar.zst") + " (extract=no copies it as it is)");
}

}  // namespace

Unpacking Unpacking::of_venv(const std::string& source) {
  Unpacking unpacking;
  unpacking.is_by_content = true;
  if (has_entry(AT_FDCWD, source + "/conda-meta") && !has_entry(AT_FDCWD, source + "/pyvenv.cfg"))
    unpacking.exclude = {"./envs", "./pkgs"};
  return unpacking;
}

Result<Recognised> recognise(Source& source, const Unpacking& wanted, const DecoderLimits& limits) {
  return Recognition(source, wanted, limits).run();
}

Error one_part(const std::string& path) {
  const std::string whole = path.substr(0, path.rfind('/') + 1) + whole_archive(path);
  const std::string beside = has_entry(AT_FDCWD, whole) ? ", or " + shell_word(shown(whole)) +
                                                              " beside it, if that is the whole"
                                                        : "";
  return fault(0, shown(path) + ": is one part of an archive in several files",
               how_to_stage_parts(path) + beside + " (extract=no copies the part as it is)");
}

}  // namespace nodestage
