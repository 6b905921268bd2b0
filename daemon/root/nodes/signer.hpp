// The signer: a child of the daemon that makes MUNGE credentials for notes to other nodes. A child,
// since libmunge waits for munged and root's daemon waits for nobody; uid 0, since that is what a
// credential shows, but without any capability.
//
//   request   u64 id | text payload
//   reply     u64 id | text credential | text fault
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/result.hpp"

namespace nodestage {

struct SignRequest {
  std::uint64_t id = 0;
  std::string payload;
};
std::string encode_sign_request(const SignRequest& request);

struct SignReply {
  std::uint64_t id = 0;
  std::string credential;
  std::string fault;  // for the administrator; empty: credential is there
};
Result<SignReply> decode_sign_reply(std::string_view packet);

// The child's whole life, a Helper's body. Only the user named can decode the credentials (MUNGE's
// UID restriction), so that one which reaches a wrong listener is of no use to it: Slurm would
// take root's credential for root.
int run_signer(const std::string& user);

}  // namespace nodestage
