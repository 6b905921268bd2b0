// What a source file is, and what is made of it.
#pragma once

#include <memory>
#include <string>

#include "daemon/worker/archive/container.hpp"
#include "daemon/worker/decode/decoder.hpp"
#include "daemon/worker/piece/unpacking.hpp"
#include "daemon/worker/read/source.hpp"

namespace nodestage {

struct Recognised {
  Container container = Container::none;  // none: it is copied as it is
  std::unique_ptr<Decoder> decoder;       // null: nothing was read
  std::string note;                       // for the user, or ""
};

// Extracted is what is named as an archive and is one; with extract=yes, and of an environment,
// what is one. What is named as an archive (common/text/archive_names.hpp) and is none is a fault,
// as the job expects a directory; so is a part of one, and an archive of a kind that nothing here
// reads. What is a checkpoint by its content is copied with a note, whatever its name is.
// extract=no copies them all. `source` is borrowed by the decoder.
Result<Recognised> recognise(Source& source, const Unpacking& wanted, const DecoderLimits& limits);

// The fault for one part of an archive, by its name. It looks for the others beside it.
Error one_part(const std::string& path);

}  // namespace nodestage
