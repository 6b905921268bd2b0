// Makes the keys of shared datasets.
#pragma once

#include <cstdint>
#include <string>

#include "common/request/request.hpp"
#include "daemon/worker/share/share_key.hpp"

namespace nodestage {

// The last part of the destination of a dataset that is staged from `source`; what a piece of it
// would find by its content (Piece::default_name()).
std::string dataset_name(const DatasetItem& item, const std::string& source);

// Returns the key of a dataset, without its sources. With is_group they are the matches of a glob,
// which needs a destination, or the parts of one file. `first` is the first of them, or that file.
ShareKey dataset_key(const DatasetItem& item, bool is_group, const std::string& first,
                     const ShareRules& rules);

// Looks at a source that is a directory. `fd` is borrowed.
TreeLook dataset_tree(const DatasetItem& item, const std::string& path, int fd,
                      const ShareRules& rules);

// Returns ItemRecord::source_mark of a file that was staged, without `shared`; 0: it would not have
// been kept. `fd` is borrowed.
std::uint64_t file_mark(const DatasetItem& item, const std::string& path, int fd,
                        const ShareRules& rules);
// The same of a directory, which may have been changed below its top; 0: it cannot be looked at, or
// a key selects or changes what is staged of it, so that an archive of the directory is not that.
std::uint64_t directory_mark(const DatasetItem& item, int fd);

// Adds a source, in the order in which they are staged.
void add_source(ShareKey& key, const std::string& path, int fd);
// The same for a directory.
void add_source(ShareKey& key, const std::string& path, const TreeLook& tree);

// Makes the keys of shared virtual environments.
enum class VenvSource { archive, requirements, directory };

// Looks at an archive or a directory, which `fd` has open, or at everything that a build from
// requirements reads: the file and what the file includes, the interpreter, directories of wheels,
// the installer's settings. After a `module load` the interpreter is known by the module's name
// alone.
SourceIdentity identify_venv(const VenvItem& item, VenvSource source, int fd,
                             const ShareRules& rules);

}  // namespace nodestage
