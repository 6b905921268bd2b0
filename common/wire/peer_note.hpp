// PeerNote: the messages between the daemons of one job's nodes.
//
// The nodes of a job push NodeNotes to the job's first node, which pushes JobNotes to the others. A
// note is the payload of a MUNGE credential that root of the sending node made and that only the
// user of nodestage-peer can decode (MUNGE's UID restriction); nodestage-peer sends it over TCP.
// Root on every host that has the MUNGE key is trusted, as Slurm itself does.
//
// Every note holds the complete state, so a lost note costs only time: the sender repeats it while
// it matters, and the receiver drops one with an older sequence number.
//
//   u8 version (1) | u8 kind | texts to | text from | u32 job | u32 restart | u64 sequence | body
//   kind 1  NodeNote   u8 state, u8 waits, u8 ended, u64 bytes_read, u64 bytes_total, text cause,
//                      [text chosen]: left out where it is empty, as earlier releases do
//   kind 2  JobNote    u8 verdict, text text, u8 facts_known, u32 array_job, u32 array_task,
//                      text job_name, u8 batch, u8 outcome_known, u8 has_status, u32 status,
//                      [text cause]: only to nodes that say k_reads_causes, and not if it is empty
//   kind 3  RelayNote  u8 word, u32 port, text node, text address, u32 node_port, text key
//   fields as in common/wire/wire.hpp
// Earlier releases refuse kind 3: it is sent only to a daemon that has shown that it knows it, by
// k_relays in a NodeNote or by a RelayNote of its own.
//
// Golden test: tests/unit/test_peer_note.cpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/reflection.hpp"
#include "common/result.hpp"
#include "common/wire/protocol.hpp"

namespace nodestage {

// RelayPlan: the daemon's answer to a relay worker: from which node it gets what it does not read
// itself.
//
// A file of one fixed-size record that the daemon overwrites in place and the relay worker has open
// for reading (k_worker_answer_fd). `state` is written last. It is a file so that a restarted
// daemon can still answer.

inline constexpr std::size_t k_relay_key_bytes = 32;

enum class RelayPart : std::uint32_t {
  unknown = 0,  // not decided yet
  head = 1,     // reads the original itself
  link = 2,     // gets it from `node`
  off = 3,      // nothing is relayed; `why` says why
};
constexpr EnumRange<RelayPart> range_of(RelayPart) { return {RelayPart::unknown, RelayPart::off}; }

struct RelayPlan {
  RelayPart part = RelayPart::unknown;
  std::array<std::uint8_t, k_relay_key_bytes> key{};  // of the chain; for `head` and `link`
  std::string node;                                   // of `link`
  std::string address;                                // of that node, numeric
  std::uint16_t port = 0;
  std::string why;

  bool operator==(const RelayPlan&) const = default;
};

// `fd` is borrowed. Texts are shortened to what the record holds.
Status write_relay_plan(int fd, const RelayPlan& plan);
// A file that is too short, or says nothing that makes sense, reads as `unknown`.
Result<RelayPlan> read_relay_plan(int fd);

inline constexpr std::uint8_t k_peer_note_version = 1;
// How many nodes can share one credential. Making one costs about as much as sending it.
inline constexpr std::size_t k_max_note_destinations = 64;
inline constexpr std::size_t k_max_note_text_bytes = 4096;
inline constexpr std::size_t k_max_note_bytes = 32 * 1024;

enum class NodeState : std::uint8_t { begun = 1, staging = 2, ready = 3, failed = 4 };
constexpr EnumRange<NodeState> range_of(NodeState) { return {NodeState::begun, NodeState::failed}; }

inline constexpr std::uint8_t k_listens = 1;  // ready, and a step waits there: send it JobNotes
inline constexpr std::uint8_t k_is_in_use =
    2;  // a step runs or ran there before all nodes were ready, or an environment is made

inline constexpr std::uint8_t k_relays = 4;        // it knows RelayNotes, and relays are on there
inline constexpr std::uint8_t k_reads_causes = 8;  // it knows JobNote::cause

struct NodeNote {
  NodeState state = NodeState::begun;
  std::uint8_t waits = 0;  // bits: k_listens, k_is_in_use, k_relays, k_reads_causes
  std::uint8_t ended = 0;  // 1: the job has ended there, and the node needs the outcome
  std::uint64_t bytes_read = 0;
  std::uint64_t bytes_total = 0;  // 0: not known
  std::string cause;              // when failed
  std::string chosen;             // when ready: StatusHeader::chosen
};

enum class Verdict : std::uint8_t {
  open = 1,    // not all nodes are ready; `text` says which, in words
  ready = 2,   // all are; `text` may hold a warning (the job goes on without a node)
  failed = 3,  // `text` is the cause, with the node's name
};
constexpr EnumRange<Verdict> range_of(Verdict) { return {Verdict::open, Verdict::failed}; }

// What a prolog does not know; a step on the job's first node reports it.
struct JobFacts {
  bool known = false;
  std::uint32_t array_job = k_no_number;  // k_no_number: not an array job
  std::uint32_t array_task = k_no_number;
  std::string job_name;
  bool batch = false;  // the job has a batch script

  bool operator==(const JobFacts&) const = default;
};

struct JobNote {
  Verdict verdict = Verdict::open;
  std::string text;
  JobFacts facts;
  // The outcome of the batch script or, without one, of the last step on the first node. Known once
  // the script, or the job, has ended.
  bool outcome_known = false;
  std::optional<std::uint32_t> status;  // as from wait(2); nullopt: no step ran there
  std::string cause;  // of a failure: what the nodes that `text` names have given as theirs
};

// From whom a node's relay worker gets its data. The job's first node
// welcomes each node whose NodeNote has k_relays; the node joins when its staging has begun, and is
// answered.
enum class RelayWord : std::uint8_t {
  welcome = 1,  // first node → node: it may join
  join = 2,     // node → first node: `port` is where its relay worker listens; 0: nowhere
  answer = 3,   // first node → node, for the join with `port`
  off = 4,      // first node → node, instead of `welcome`: relays are off there
};
constexpr EnumRange<RelayWord> range_of(RelayWord) { return {RelayWord::welcome, RelayWord::off}; }

struct RelayNote {
  RelayWord word = RelayWord::welcome;
  std::uint32_t port = 0;
  // Of an answer:
  std::string node;             // to get the data from; empty: from the original
  std::string address;          // of that node, numeric; empty: that from which this note came
  std::uint32_t node_port = 0;  // of its relay worker
  std::string key;              // of the chain, k_relay_key_bytes
};

struct PeerNote {
  std::vector<std::string> to;  // node names
  std::string from;
  std::uint32_t job = 0;
  std::uint32_t restart = 0;
  std::uint64_t sequence = 0;  // grows with every note of a daemon, also across its restarts
  std::variant<NodeNote, JobNote, RelayNote> body;
};

std::string encode_peer_note(const PeerNote& note);

// A fault (EPROTO) for another version, an unknown kind or value, a text that is too long, missing
// fields, or trailing bytes. Texts are unchanged: pass them through printable() before use.
Result<PeerNote> decode_peer_note(std::string_view data);

// The channel between nodestaged and its child nodestage-peer: its messages and their format.
//
// nodestage-peer inherits one end of a SOCK_SEQPACKET socket pair as descriptor k_peer_channel_fd.
// Each packet is one message of at most k_max_channel_bytes. The daemon's first message is
// PeerSettings. When the daemon closes its end, nodestage-peer exits.
//
//   u8 kind (PeerMessage's alternatives, from 1) | the members of its struct, in their order, as in
//   common/wire/wire.hpp
//
// Between two peers, over TCP, one note per connection:
//   sender → receiver   "NSP1" | u32 length, little-endian, at most
//                       k_max_credential_bytes | credential
//   receiver → sender   one byte: 'A' accepted, 'R' refused; then both close
//
// A credential that begins with k_key_credential_magic is opened by the daemon's signer, which has
// the key. nodestage-peer inherits one end of another SOCK_SEQPACKET socket pair, k_signer_fd. The
// next nodestage-peer inherits the same one, and may find answers there that were not for it:
//   question   u64 id | text credential
//   answer     u64 id | u8 opened | text payload or, with `opened` 0, fault
//
// Golden test: tests/unit/test_peer_note.cpp.

inline constexpr int k_peer_channel_fd = 3;
inline constexpr int k_signer_fd = 4;
inline constexpr std::size_t k_max_channel_bytes = 128 * 1024;
inline constexpr std::size_t k_max_credential_bytes = 64 * 1024;
inline constexpr std::string_view k_peer_frame_magic = "NSP1";
inline constexpr std::string_view k_key_credential_magic = "NSK1";
inline constexpr char k_peer_taken = 'A';
inline constexpr char k_peer_refused = 'R';

struct PeerSettings {
  std::uint32_t port = 0;
  std::uint32_t io_wait_s = 5;           // limit for each connection as a whole
  std::uint32_t max_connections = 1024;  // incoming; beyond it, a silent one is dropped
  std::vector<std::string> addresses;    // "NODE=ADDRESS", one for each address of a node; the
                                         // system resolves other nodes
};

// Asks for the credential to be sent to the node's nodestage-peer. With an empty credential, the
// peer only connects, to see whether one listens there.
struct PeerDeliver {
  std::uint64_t id = 0;
  std::string node;
  std::string credential;
};

// The port is open (`fault` is empty), or cannot be opened and will be tried again. If the settings
// are wrong, `fault` says why, and nodestage-peer exits.
struct PeerListening {
  std::string fault;
};

struct PeerDelivered {
  std::uint64_t id = 0;
  std::string fault;  // empty: accepted (or, without a credential, connected)
};

// The payload of a credential that uid 0 made, from a connection whose address belongs to the host
// that the note names in `from`. The daemon checks everything else.
struct PeerReceived {
  std::string payload;
  std::string address;  // from which it came
};

// A connection without a usable note; for the log.
struct PeerDropped {
  std::string address;
  std::string why;
};

using PeerMessage = std::variant<PeerSettings, PeerDeliver, PeerListening, PeerDelivered,
                                 PeerReceived, PeerDropped>;

std::string encode_peer_message(const PeerMessage& message);
Result<PeerMessage> decode_peer_message(std::string_view packet);

}  // namespace nodestage
