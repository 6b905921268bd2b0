// What libarchive says of an archive that it cannot read, for the job's user.
#pragma once

#include <string>

#include "daemon/worker/archive/container.hpp"
#include "daemon/worker/basis/fault.hpp"

namespace nodestage {

// `cause`: libarchive's text. It distinguishes a password, and a method that it lacks, from damage.
Error archive_fault(const std::string& path, Container container, const std::string& cause);

}  // namespace nodestage
