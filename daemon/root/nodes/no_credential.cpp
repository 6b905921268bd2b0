// In a build without MUNGE.
#include "daemon/root/nodes/signer.hpp"

namespace nodestage {

Result<std::string> make_credential(const std::string&, uid_t) {
  return Error{ENOTSUP, "nodestaged was built without MUNGE"};
}

Status try_munge() { return Error{ENOTSUP, "nodestaged was built without MUNGE"}; }

}  // namespace nodestage
