// The signer: a child of the daemon that makes credentials for notes to other nodes, by MUNGE or by
// a key of the cluster, and opens those that were made by key. It is a child because libmunge waits
// for munged and the daemon must not wait; and because a process with the key can make notes in the
// name of every node: neither the daemon, which parses notes, nor nodestage-peer, which listens to
// the network, has it. It has uid 0, which a MUNGE credential must show, but no capability.
//
// On k_peer_channel_fd, with the daemon:
//   request   u64 id | u8 try | text payload
//   reply     u64 id | text credential | text fault | text method
// On k_signer_fd, with nodestage-peer: common/wire/peer_note.hpp.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "common/result.hpp"
#include "daemon/root/nodes/key_credentials.hpp"

namespace nodestage {

// Makes MUNGE's credential for a note to another node. A build without MUNGE (NODESTAGE_MUNGE)
// makes none; k_with_munge (common/build_info.hpp) says which one this is.

// Makes a credential that only `uid` can decode and that shows the caller's uid. Waits for munged.
// Faults are for an administrator.
Result<std::string> make_credential(const std::string& payload, uid_t uid);

// Makes one for the caller's own uid, and decodes it.
Status try_munge();

struct SignRequest {
  std::uint64_t id = 0;
  bool is_try = false;  // makes a credential and opens it, and returns none
  std::string payload;
};
std::string encode_sign_request(const SignRequest& request);

struct SignReply {
  std::uint64_t id = 0;
  std::string credential;
  std::string fault;   // for the administrator; empty: there is a credential
  std::string method;  // by what credentials are made, for the administrator; empty: not known yet
};
Result<SignReply> decode_sign_reply(std::string_view packet);

// Runs the child, as a Helper's body; returns the exit code. Only `user` can decode the credentials
// of MUNGE (its UID restriction). A credential that reaches a wrong listener is therefore useless
// to it; an unrestricted one would pass for root's own at Slurm.
//
// The method: places.key_file, where it is set; else MUNGE, if munged answers; else Slurm's own
// key, where it uses that. What has made a credential once stays the method.
int run_signer(const std::string& user, const KeyLocations& places);

}  // namespace nodestage
