// By MUNGE.
#include <munge.h>

#include <cstdlib>
#include <memory>

#include "daemon/root/nodes/credential.hpp"

namespace nodestage {
namespace {

using Context = std::unique_ptr<munge_ctx, void (*)(munge_ctx_t)>;

}  // namespace

Result<std::string> make_credential(const std::string& payload, uid_t uid) {
  const Context context(::munge_ctx_create(), ::munge_ctx_destroy);
  if (!context || ::munge_ctx_set(context.get(), MUNGE_OPT_UID_RESTRICTION, uid) != EMUNGE_SUCCESS)
    return Error{ENOMEM, "libmunge cannot create a context"};
  char* made = nullptr;
  const munge_err_t error =
      ::munge_encode(&made, context.get(), payload.data(), static_cast<int>(payload.size()));
  const std::unique_ptr<char, void (*)(void*)> credential(made, std::free);
  if (error == EMUNGE_SUCCESS) return std::string(credential.get());
  const char* cause = ::munge_ctx_strerror(context.get());
  return Error{EACCES,
               std::string("MUNGE: ") + (cause != nullptr ? cause : ::munge_strerror(error))};
}

}  // namespace nodestage
