// Venv: the environment of --stage-venv: a virtual environment or one of conda that is copied, an
// archive of one that is extracted, or a requirements.txt that is built. It is then rewritten for
// the path where the job finds it.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "common/request/request.hpp"
#include "common/wire/worker_order.hpp"
#include "daemon/worker/budget/meter.hpp"
#include "daemon/worker/piece/piece.hpp"
#include "daemon/worker/venv/builder.hpp"

namespace nodestage {

class ItemRelay;

// Everything is borrowed.
struct VenvContext {
  const VenvItem& item;
  const StageOrder& order;
  Meter& meter;
  Builder& builder;  // programs run in it
  const std::atomic<bool>& stop;
  // Called now and then during a build, with the installer's output.
  std::function<void(const std::string&)> report;
  // Called once, when nothing more is read of the source. Returns the absolute path where the job
  // finds the environment.
  std::function<std::string()> decide;
  ItemRelay* relay = nullptr;  // reads the interpreter from other nodes of the job, where it can
};

// Returns "venv", "tar.gz of a venv", or "requirements".
std::string kind_of_venv(const Piece& piece);

inline constexpr const char* k_venv_log_directory = "build";
inline constexpr const char* k_venv_log_name = "log";

struct MadeVenv {
  Status status;
  std::string note;      // for the user, or ""
  bool has_log = false;  // the user may want to read the log, also of a failure
};

// Makes place.name in place.dir_fd from the source that `piece` has opened: complete, with paths
// that are right once it is at the decided path, and with compiled files that are valid there. If
// anything was run, creates a directory k_venv_log_directory beside it, with the log.
MadeVenv make_venv(Piece& piece, const Piece::Place& place, const VenvContext& context);

}  // namespace nodestage
