// Credentials that MUNGE opens.
#include <munge.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>

#include "common/text/human.hpp"
#include "daemon/peer/credential.hpp"

namespace nodestage {
namespace {

using Context = std::unique_ptr<munge_ctx, void (*)(munge_ctx_t)>;

std::string why_refused(munge_err_t fault) {
  switch (fault) {
    case EMUNGE_CRED_REPLAYED:
      return "its credential was used before";
    case EMUNGE_CRED_EXPIRED:
      return "its credential is too old: are the clocks of both nodes right?";
    case EMUNGE_CRED_REWOUND:
      return "its credential is from the future: are the clocks of both nodes right?";
    case EMUNGE_CRED_UNAUTHORIZED:
      return "its credential is not for the user of nodestage-peer on this node: has that user the "
             "same uid on all nodes?";
    case EMUNGE_CRED_INVALID:
      return "its credential was made with another MUNGE key, or altered: is munge.key the same on "
             "all nodes?";
    case EMUNGE_BAD_CRED:
      return "what it sent is not a MUNGE credential";
    case EMUNGE_SOCKET:
      return "munged does not answer on this node: does the service munge run?";
    default:
      return "munged could not decode its credential: do the nodes run the same version of MUNGE?";
  }
}

Error refusal(munge_err_t fault, const Context& context) {
  const char* detail = context ? ::munge_ctx_strerror(context.get()) : nullptr;
  if (detail == nullptr) detail = ::munge_strerror(fault);
  return {EACCES, why_refused(fault) + " (MUNGE: " + printable(shortened(detail, 200)) + ")"};
}

// munge_decode takes it from the credential. Without this check, a root service that signs other
// programs' texts could be made to sign a note.
bool is_for_this_user(const Context& context) {
  uid_t uid = 0;
  return ::munge_ctx_get(context.get(), MUNGE_OPT_UID_RESTRICTION, &uid) == EMUNGE_SUCCESS &&
         uid == ::geteuid();
}

Result<Context> context_for(const std::string& socket) {
  Context context(::munge_ctx_create(), ::munge_ctx_destroy);
  if (!context) return Error{ENOMEM, "libmunge cannot create a context"};
  if (socket.empty()) return context;
  const munge_err_t fault = ::munge_ctx_set(context.get(), MUNGE_OPT_SOCKET, socket.c_str());
  if (fault != EMUNGE_SUCCESS) return refusal(fault, context);
  return context;
}

Result<std::string> open_by_munge(const std::string& credential, const std::string& socket) {
  if (credential.find('\0') != std::string::npos) return refusal(EMUNGE_BAD_CRED, {nullptr, {}});
  TRY_ASSIGN(const Context context, context_for(socket));
  void* bytes = nullptr;  // set for some of the faults, too
  int count = 0;
  uid_t uid = 0;
  gid_t gid = 0;
  const munge_err_t fault =
      ::munge_decode(credential.c_str(), context.get(), &bytes, &count, &uid, &gid);
  const std::unique_ptr<void, void (*)(void*)> payload(bytes, std::free);
  if (fault != EMUNGE_SUCCESS) return refusal(fault, context);
  if (uid != 0) return Error{EACCES, "its credential is of uid " + std::to_string(uid) + ", not 0"};
  if (!is_for_this_user(context)) {
    return Error{EACCES, "its credential is not restricted to the user of nodestage-peer"};
  }
  if (count <= 0) return Error{EPROTO, "its credential is empty"};
  return std::string(static_cast<const char*>(bytes), static_cast<std::size_t>(count));
}

}  // namespace

OpenCredential munge_opener(const std::string& socket) {
  return [socket](const std::string& credential) { return open_by_munge(credential, socket); };
}

}  // namespace nodestage
