// Markers: how the prolog informs a job's tasks on this node whether the job stages.
//
// One file per job, RUNTIME_DIR/jobs/JOBID, written by root (0644, in a 0755 directory) and
// replaced atomically:
//   absent   the job does not stage: no hook does anything
//   empty    the daemon knows the job, or has not answered yet: ask it
//   text     the daemon could not be informed; the text says why and what to do, for the user
// RUNTIME_DIR/jobs/JOBID.pending has what the job's tasks could not tell the daemon, which was
// away: a message in each line, as hexadecimal digits (common/wire/protocol.hpp). The epilog tells
// it. RUNTIME_DIR/every-job exists if every job gets a job directory, with or without a request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"

namespace nodestage {

inline constexpr std::size_t k_max_marker_bytes = 8 * 1024;

enum class MarkerState { absent, ask_daemon, failed };

struct Marker {
  MarkerState state = MarkerState::absent;
  std::string message;  // for `failed`; unchanged, so pass it through printable()
};

bool wants_every_job(const std::string& runtime_dir);

// Reads a marker. One that exists but cannot be read is `failed`, with the cause as message.
Marker read_marker(const std::string& runtime_dir, std::uint32_t job);

// Writes a marker, and the directories if necessary. Refuses (EPERM) a directory that anyone but
// the caller (root, except in tests) owns or can write to.
Status write_marker(const std::string& runtime_dir, std::uint32_t job, std::string_view message);

// And what is pending.
void remove_marker(const std::string& runtime_dir, std::uint32_t job);

// Keeps a message for the epilog; one that is kept already is not kept twice. Needs the directory
// of a marker, and root.
Status keep_pending(const std::string& runtime_dir, std::uint32_t job, std::string_view message);
// Returns the messages that were kept, in their order.
std::vector<std::string> pending(const std::string& runtime_dir, std::uint32_t job);

// Identifies a marker, to distinguish it from that of a later run of the job; 0 if there is none.
std::uint64_t marker_number(const std::string& runtime_dir, std::uint32_t job);

}  // namespace nodestage
