// What a source file is, and what is made of it.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/request/request.hpp"
#include "daemon/worker/archive/container.hpp"
#include "daemon/worker/decode/decoder.hpp"
#include "daemon/worker/piece/newest.hpp"
#include "daemon/worker/read/source.hpp"
#include "daemon/worker/tree/out_links.hpp"

namespace nodestage {

// Unpacking: what of an archive or a directory is wanted, and whether an archive is unpacked: as
// the keys of a dataset say, by default all of it.
struct Unpacking : DatasetItem {
  Unpacking() = default;
  Unpacking(DatasetItem item) : DatasetItem(std::move(item)) {}  // NOLINT: it is one
  // An archive of an environment needs no name that says so: any other file lists requirements. Of
  // a directory that is an installation of conda, its package cache and other environments stay.
  static Unpacking of_venv(const std::string& source);

  bool is_by_content = false;  // an archive is unpacked whatever its name is; a file is copied
  bool is_match = false;  // of a glob: exclude is also for the directories that it would search
  // Of a directory, these entries alone; null: all. What is not a directory is a fault then.
  // Borrowed.
  const NewestChoice* only = nullptr;
  // With `join`: the parts of the file that is staged, whose path need not exist.
  std::vector<std::string> parts = {};
};

inline LinksOut links_out(const DatasetItem& item) {
  return item.links == Links::follow ? LinksOut::followed : LinksOut::kept;
}

struct Recognised {
  Container container = Container::none;  // none: it is copied as it is, or
  bool is_compressed_file = false;        // with extract=yes, decompressed
  std::unique_ptr<Decoder> decoder;       // null: nothing was read
  std::string note;                       // for the user, or ""
};

// Extracted is what is named as an archive and is one; with extract=yes, and of an environment,
// what is one. With extract=yes, any other compressed file is decompressed. What is named as an
// archive (common/text/archive_names.hpp) and is none is a fault, as the job expects a directory;
// so is a part of one, and an archive of a kind that nothing here reads. What is a checkpoint by
// its content is copied with a note, whatever its name is. extract=no copies them all. With
// `mount`, it is a fault if the source is no image that can be mounted. `source` is borrowed by the
// decoder.
Result<Recognised> recognise(Source& source, const Unpacking& wanted, const DecoderLimits& limits);

// The fault for one part of an archive, by its name. It looks for the whole beside it.
Error one_part(const std::string& path);

}  // namespace nodestage
