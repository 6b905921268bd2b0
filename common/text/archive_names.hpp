// Knows what archives a file's name promises, by the suffixes in the tables below.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "common/result.hpp"

namespace nodestage {

// The formats of compression and of archives: one row for each.
//
// A row gives recognition, the names of archives, the notes of `plan`, what can be packed, and what
// the documents list (tests/unit/test_formats.cpp compares them). What decodes a coding is its row
// in daemon/worker/decode/codecs.hpp, without which nothing compiles.
enum class Coding { plain, gzip, bzip2, xz, zstd, lz4, compress, lzma, lzip };

// Whether all threads decode one file of a coding: `some` have parts that can be found.
enum class Splits { always, some, never };

struct CodingRow {
  Coding coding;
  std::string_view name;    // as documents and libarchive call it
  std::string_view suffix;  // of a file: "gz"
  // Suffixes of archives, in lower case. Those of `written` can be made as well.
  std::string_view written;
  std::string_view read;
  std::string_view magic;  // the file's first bytes; a codec may look at more
  std::string_view test;   // the command that tests such a file
  // As `nodestage --version --verbose` calls it; "": our own code, or libarchive.
  std::string_view library;
  Splits splits;
  std::string_view in_parts;    // why all threads decode a file
  std::string_view one_thread;  // why only one does
};

// In the order of Coding, which is the order in which a file's start is compared with the magic.
inline constexpr CodingRow k_codings[] = {
    {Coding::plain, "", "", ".tar", "", "", "cksum", "", Splits::always,
     "it is not compressed; several parts are read, and files written, at a time", ""},
    {Coding::gzip, "gzip", "gz", ".tar.gz .tgz .taz", ".tar.gzip", "\x1f\x8b\x08", "gzip -t",
     "ISA-L", Splits::some, "its data hardly compress, or its gzip members state their size",
     "it is one gzip stream"},
    {Coding::bzip2, "bzip2", "bz2", ".tar.bz2 .tbz .tbz2", ".tar.bz .tb2 .tz2", "BZh", "bzip2 -t",
     "bzip2", Splits::always, "its bzip2 blocks can be found and decoded independently", ""},
    {Coding::xz,
     "xz",
     "xz",
     ".tar.xz .txz",
     "",
     {"\3757zXZ\0", 6},
     "xz -t",
     "liblzma",
     Splits::some,
     "it has xz blocks of known size",
     "it is one xz block"},
    {Coding::zstd, "zstd", "zst", ".tar.zst .tzst", ".tar.zstd", "\x28\xb5\x2f\xfd", "zstd -t",
     "zstd", Splits::some, "it has independent zstd frames",
     "it is one zstd frame, or its frames are too large"},
    {Coding::lz4, "lz4", "lz4", ".tar.lz4 .tlz4", "", "\x04\x22\x4d\x18", "lz4 -t", "lz4",
     Splits::never, "", "it is one lz4 stream"},
    {Coding::compress, "compress", "Z", "", ".tar.z", "\x1f\x9d", "gzip -t", "", Splits::never, "",
     "it is one compress stream (.Z)"},
    {Coding::lzma, "lzma", "lzma", "", ".tar.lzma .tlz", "", "xz -t", "liblzma", Splits::never, "",
     "it is one lzma stream"},
    {Coding::lzip, "lzip", "lz", "", ".tar.lz", "LZIP\1", "lzip -t", "", Splits::never, "",
     "its lzip members are read one after another"},
};

constexpr const CodingRow& row_of(Coding coding) {
  return k_codings[static_cast<std::size_t>(coding)];
}

enum class Container { none, tar, zip, seven_zip, iso };

struct Magic {
  std::size_t at = 0;
  std::string_view bytes = {};  // "": no magic
};

struct ContainerRow {
  Container container;
  std::string_view name;
  // Suffixes, as in CodingRow. Those of a stream are there.
  std::string_view written;
  std::string_view read;
  std::string_view test;       // the command that tests such a file
  std::string_view packed_as;  // libarchive's name of the form that is written; "": none is
  // Read from its start to its end, and so may be compressed as a whole. Any other kind is read
  // from a file that can seek.
  bool is_stream = false;
  Magic magics[4] = {};  // any of them
};

// In the order of Container. tar is recognized by its first header.
inline constexpr ContainerRow k_containers[] = {
    {Container::none, "", "", "", "7z t", ""},
    {Container::tar, "tar", "", "", "7z t", "paxr", true},
    {Container::zip,
     "zip",
     ".zip",
     "",
     "unzip -t",
     "zip",
     false,
     {{0, "PK\3\4"}, {0, "PK\5\6"}, {0, "PK\7\10PK\3\4"}, {0, "PK00PK\3\4"}}},
    {Container::seven_zip, "7z", "", ".7z", "7z t", "", false, {{0, "7z\xbc\xaf\x27\x1c"}}},
    {Container::iso, "iso", "", "", "7z t", "", false, {{32769, "CD001"}}},
};

constexpr const ContainerRow& row_of(Container container) {
  return k_containers[static_cast<std::size_t>(container)];
}

constexpr bool is_stream(Container container) { return row_of(container).is_stream; }

// Kinds of archives that nothing here reads.
struct RefusedNames {
  std::string_view suffixes;
  std::string_view program;  // that extracts them
};

inline constexpr RefusedNames k_refused[] = {
    {".tar.br .tbr", "brotli"},
    {".tar.lzo .tzo", "lzop"},
    {".tar.lrz", "lrzip"},
    {".tar.sz", "snzip"},
    {".tar.zpaq .zpaq", "zpaq"},
    {".cpio .cpio.gz .cpio.bz2 .cpio.xz .cpio.zst .cpio.lz4 .cpio.z .cpio.lzma .cpio.lz", "cpio"},
    {".rar", "unrar"},
    {".arj", "arj"},
    {".sitx", "unar"},
};

// Files to their users, although a zip is inside.
inline constexpr std::string_view k_copied =
    ".npz .pt .pth .ckpt .keras .docx .xlsx .pptx .odt .ods .odp .jar .war .apk .whl .egg .epub "
    ".kmz";

// Names of images of file systems, which `mount` can mount (squashfs_image.hpp).
inline constexpr std::string_view k_image_suffixes = ".sqsh .squashfs .sqfs";

// Whether each row stands where its value says.
template <typename Row, std::size_t count, typename Value>
constexpr bool is_in_order(const Row (&rows)[count], Value Row::*value) {
  for (std::size_t i = 0; i < count; ++i)
    if (rows[i].*value != static_cast<Value>(i)) return false;
  return true;
}
static_assert(is_in_order(k_codings, &CodingRow::coding) &&
              is_in_order(k_containers, &ContainerRow::container));

struct ArchiveName {
  enum class Use {
    extracted,  // an archive; it is an error if the file is none
    refused,    // an archive of a kind that nothing here can read
    copied,     // a file to its users, although an archive is inside (".npz")
  };
  std::string_view suffix = {};           // in lower case
  Container container = Container::none;  // what is usually inside; refused: none
  Coding coding = Coding::plain;
  Use use = Use::extracted;
  bool is_written = true;         // such archives can be made as well
  std::string_view program = {};  // refused: what extracts them
};

std::span<const ArchiveName> archive_names();

// The row with the longest suffix that `path` ends in, ignoring case, or null.
const ArchiveName* archive_name(std::string_view path);

// Returns the suffix, in lower case, of an archive, extracted or refused, or "".
std::string_view archive_suffix(std::string_view path);
// Returns the suffix of a file that is compressed and is no archive by its name (".gz"), or "".
std::string_view compressed_suffix(std::string_view path);
// Returns the suffix of an image (".sqsh"), in lower case, or "".
std::string_view image_suffix(std::string_view path);
// Refuses, with the cause, a suffix of archives that cannot be made; "" is a directory's form.
Status check_written_archive(std::string_view suffix);

// Returns "data.tar.gz" for "data.tar.gz.part01", "data.tar.gz.aa", and "data.tar.gz.003": the
// archive that a file is one part of, by its name. "" for any other name.
std::string whole_archive(std::string_view path);

// Returns the archive of which "data.z01" is a part, "data.zip"; "" for any other name.
std::string whole_zip(std::string_view path);

// Returns whether a name ends as those of parts do: "x.part01", "x.003".
bool is_part_name(std::string_view path);

}  // namespace nodestage
