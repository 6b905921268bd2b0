// In a build without MUNGE, in which only tests open credentials.
#include "daemon/peer/credential.hpp"

namespace nodestage {

OpenCredential munge_opener(const std::string&) {
  return [](const std::string&) {
    return Result<std::string>(Error{ENOTSUP, "this nodestage-peer was built without MUNGE"});
  };
}

}  // namespace nodestage
