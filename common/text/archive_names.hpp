// Knows what archives a file's name promises, by the suffixes in the tables of formats.hpp.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/result.hpp"
#include "common/text/formats.hpp"

namespace nodestage {

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
// Refuses, with the cause, a suffix of archives that cannot be made; "" is a directory's form.
Status check_written_archive(std::string_view suffix);

// Returns "data.tar.gz" for "data.tar.gz.part01", "data.tar.gz.aa", and "data.tar.gz.003": the
// archive that a file is one part of, by its name. "" for any other name.
std::string whole_archive(std::string_view path);

// Returns the archive of which "data.z01" is a part, "data.zip"; "" for any other name.
std::string whole_zip(std::string_view path);

// What the names of all parts of one archive have before and after the archive's: "t.tar.part01"
// has ".part", then two digits. Among the names of parts, those that sort before others come first.
struct PartName {
  std::string whole;  // without a directory
  std::string joint;  // ".part"
  std::string number;

  // Whether both are parts of one archive, in one kind of names.
  [[nodiscard]] bool is_like(const PartName& other) const;
};
// Empty for what is no part, by whole_archive().
std::optional<PartName> part_name(std::string_view path);

// Returns whether a name ends as those of parts do: "x.part01", "x.003".
bool is_part_name(std::string_view path);

}  // namespace nodestage
