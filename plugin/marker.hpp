// Markers: how the prolog tells a job's tasks on this node what to do.
//
// One file per job, RUNTIME_DIR/jobs/JOBID, written by root (0644, its directory 0755), replaced
// atomically:
//   absent   the job has not asked for staging: no hook does anything
//   empty    the daemon knows the job: ask it
//   text     the daemon could not be told; the text says why and what to do, for the user
// RUNTIME_DIR/every-job exists when every job gets a job directory, whether it asks or not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/result.hpp"

namespace nodestage {

inline constexpr std::size_t k_max_marker_bytes = 8 * 1024;

enum class MarkerState { absent, ask_daemon, failed };

struct Marker {
  MarkerState state = MarkerState::absent;
  std::string message;  // when failed; as written, so pass it through printable()
};

bool wants_every_job(const std::string& runtime_dir);

// A marker that is there but cannot be read is `failed`, with the cause as its message.
Marker read_marker(const std::string& runtime_dir, std::uint32_t job);

// Makes the directories at need; refuses one that another than the caller (root, but in tests) owns
// or may write to.
Status write_marker(const std::string& runtime_dir, std::uint32_t job, std::string_view message);

void remove_marker(const std::string& runtime_dir, std::uint32_t job);

// Tells a marker from one that a later run of the job has written; 0 while there is none.
std::uint64_t marker_number(const std::string& runtime_dir, std::uint32_t job);

}  // namespace nodestage
