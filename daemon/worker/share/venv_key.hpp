// Makes the keys of shared virtual environments.
#pragma once

#include "common/request/request.hpp"
#include "daemon/worker/share/share_key.hpp"

namespace nodestage {

enum class VenvSource { archive, requirements, directory };

// Looks at an archive or a directory, which `fd` has open, or at everything that a build from
// requirements reads: the file and what the file includes, the interpreter, directories of wheels,
// the installer's settings. After a `module load` the interpreter is known by the module's name
// alone.
SourceIdentity identify_venv(const VenvItem& item, VenvSource source, int fd,
                             const ShareRules& rules);

}  // namespace nodestage
