// PlanItem: what is known of one item before it is staged, and what follows from that.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/request/request.hpp"
#include "common/wire/space_claim.hpp"

namespace nodestage {

// How sure a number is.
enum class Surety { unknown, guessed, at_least, told };

struct Known {
  std::uint64_t value = 0;
  Surety surety = Surety::unknown;
};

// Texts are not yet made printable.
struct PlanItem {
  std::string option;       // "stage-dataset"
  std::string source;       // as it was given, absolute
  std::string destination;  // below $SLURM_TMPDIR; "": not known
  std::string what;         // "tar.gz", "directory", "3 × tar"
  std::uint64_t sources = 1;
  Known source_bytes;
  Known bytes;          // on local disk
  Known files;          // every kind of entry but directories
  Amount need;          // of local disk, expected; nothing where it is not known
  std::string reading;  // how, and why so
  std::string time;     // about how long, and the basis; "" where nothing can be said
  double seconds = -1;  // the same; negative: not known
  bool is_parallel = false;
  std::vector<std::string> advice;
  std::string fault;  // why it cannot be staged as it is now: a line what, a line what to do
};

// So long at most is spent on looking at a source.
inline constexpr std::chrono::milliseconds k_look{1000};

PlanItem plan_dataset(const DatasetItem& item, unsigned threads);
PlanItem plan_venv(const VenvItem& item, unsigned threads);
PlanItem plan_output(const OutputItem& item);

// What a directory is like: `what`, bytes, files, time, advice for a source of so many files.
void look_at_directory(const std::string& path, unsigned threads, PlanItem& plan);

}  // namespace nodestage
