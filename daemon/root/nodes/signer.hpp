// The signer: a child of the daemon that makes MUNGE credentials for notes to other nodes. It is a
// child because libmunge waits for munged and the daemon must not wait. It has uid 0, which a
// credential must show, but no capability.
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
  std::string fault;  // for the administrator; empty: there is a credential
};
Result<SignReply> decode_sign_reply(std::string_view packet);

// The child's whole life, a Helper's body; returns the exit code. Only `user` can decode the
// credentials (MUNGE's UID restriction). A credential that reaches a wrong listener is therefore
// useless to it; an unrestricted one would pass for root's own at Slurm.
int run_signer(const std::string& user);

}  // namespace nodestage
