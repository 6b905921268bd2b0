// By MUNGE.
#include <munge.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>

#include "daemon/root/nodes/signer.hpp"

namespace nodestage {
namespace {

using Context = std::unique_ptr<munge_ctx, void (*)(munge_ctx_t)>;

Error munge_error(const Context& context, munge_err_t error) {
  const char* cause = ::munge_ctx_strerror(context.get());
  return {EACCES, std::string("MUNGE: ") + (cause != nullptr ? cause : ::munge_strerror(error))};
}

Result<Context> context_for(uid_t uid) {
  Context context(::munge_ctx_create(), ::munge_ctx_destroy);
  if (!context || ::munge_ctx_set(context.get(), MUNGE_OPT_UID_RESTRICTION, uid) != EMUNGE_SUCCESS)
    return Error{ENOMEM, "libmunge cannot create a context"};
  return context;
}

}  // namespace

Result<std::string> make_credential(const std::string& payload, uid_t uid) {
  TRY_ASSIGN(const Context context, context_for(uid));
  char* made = nullptr;
  const munge_err_t error =
      ::munge_encode(&made, context.get(), payload.data(), static_cast<int>(payload.size()));
  const std::unique_ptr<char, void (*)(void*)> credential(made, std::free);
  if (error != EMUNGE_SUCCESS) return munge_error(context, error);
  return std::string(credential.get());
}

Status try_munge() {
  TRY_ASSIGN(const std::string credential, make_credential("try", ::geteuid()));
  TRY_ASSIGN(const Context context, context_for(::geteuid()));
  void* bytes = nullptr;
  int count = 0;
  uid_t uid = 0;
  gid_t gid = 0;
  const munge_err_t error =
      ::munge_decode(credential.c_str(), context.get(), &bytes, &count, &uid, &gid);
  std::free(bytes);
  return error == EMUNGE_SUCCESS ? Status() : munge_error(context, error);
}

}  // namespace nodestage
