// RelayChoice: whether the nodes of a job pass on a source, or each of them reads it for itself, by
// what the file system gives the node that reads first. Pure.
//
// Two questions. Would the nodes wait for the relay? Only a file system that gives one node more
// than a relay passes on is faster without it. And does the site grant the job what its nodes then
// take, all of them at that rate (relay.site_rate)? What is not known counts for the relay.
// Where several sources are read side by side, each must be fast by itself, since they may be on
// different file systems, and what they give together must be granted.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace nodestage {

enum class RelayChoice {
  open,     // the head has not read enough
  relayed,  // one node reads it for all
  alone,    // each node reads it
};

// What the head has read so far.
struct HeadLook {
  std::uint64_t wanted;           // bytes, as of bytes_to_measure()
  std::uint64_t read;             // of the source
  std::uint64_t read_in_all;      // of all sources of the job that it reads, in the same time
  std::chrono::nanoseconds time;  // of the reads alone
};

// What a relay passes on with one core, in bytes per second.
inline constexpr std::uint64_t k_relayed_rate = 512ULL << 20;
// No file system gives one thread more: what comes faster was in this node's memory.
inline constexpr std::uint64_t k_memory_rate = 6ULL << 30;

// Returns how much of a source the head reads for a choice: an eighth, and from 8 to 64 MiB. While
// it reads, nobody may take anything out of the ring.
std::uint64_t bytes_to_measure(std::uint64_t size, std::uint64_t ring);

// `nodes`: of the job. `site_rate`: bytes per second; 0: everything is relayed. `limit`: what this
// node may read, bytes per second, of which the first bytes may see nothing; 0: no limit.
RelayChoice choose(const HeadLook& look, std::uint64_t nodes, std::uint64_t site_rate,
                   double limit = 0);

// Says why each node reads the source, in a few words for the user.
std::string alone_text(const HeadLook& look, std::uint64_t nodes);

}  // namespace nodestage
