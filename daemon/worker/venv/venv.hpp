// Venv: the environment of --stage-venv: a virtual environment or one of conda that is copied, an
// archive of one that is extracted, or a requirements.txt that is built. It is then rewritten for
// the path where the job finds it.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/request/request.hpp"
#include "common/wire/worker_order.hpp"
#include "daemon/worker/budget/meter.hpp"
#include "daemon/worker/piece/piece.hpp"
#include "daemon/worker/venv/builder.hpp"
#include "daemon/worker/venv/venv_build.hpp"
#include "daemon/worker/venv/venv_interpreter.hpp"
#include "daemon/worker/venv/venv_python.hpp"
#include "daemon/worker/venv/venv_relocation.hpp"

namespace nodestage {

class ItemRelay;

class Venv {
 public:
  // Borrows everything. Programs run in `builder`. `report` is called now and then during a build,
  // with the installer's output. `decide` is called once, when nothing more is read of the source,
  // and returns the absolute path where the job finds the environment.
  using Report = std::function<void(const std::string&)>;
  using Decide = std::function<std::string()>;
  Venv(const VenvItem& item, const StageOrder& order, Meter& meter, Builder& builder,
       const std::atomic<bool>& stop, Report report, Decide decide)
      : item_(item),
        order_(order),
        meter_(meter),
        builder_(builder),
        stop_(stop),
        report_(std::move(report)),
        decide_(std::move(decide)) {}

  // Returns "venv", "tar.gz of a venv", or "requirements".
  [[nodiscard]] static std::string kind(const Piece& piece);

  // make() reads the interpreter from other nodes of the job, where it can. Borrowed.
  void relay_by(ItemRelay& relay) { relay_ = &relay; }

  // Makes place.name in place.dir_fd from the source that `piece` has opened: complete, with paths
  // that are right once it is at the decided path, and with compiled files that are valid there. If
  // anything was run, creates a directory "build" beside it, with the log.
  Status make(Piece& piece, const Piece::Place& place);

  // Returns, after make(), a note for the user, or "".
  [[nodiscard]] const std::string& note() const { return note_; }

  // Returns, after make(), even if it failed, whether the user may want to read the log.
  [[nodiscard]] bool has_log() const { return has_log_; }
  static constexpr const char* k_log_directory = "build";
  static constexpr const char* k_log_name = "log";

 private:
  Status copy(Piece& piece, const Piece::Place& place);
  Status check_source(const Piece::Place& place);
  Status read_records(int dir_fd, const Piece::Place& place);
  Status extract(Piece& piece, const Piece::Place& place);
  Status build(const Piece::Place& place);
  Status unpack_conda(const std::string& path);
  Status relocate(int dir_fd, const Piece::Place& place);
  Status take_interpreter(int dir_fd, const Piece::Place& place, VenvPython& python);
  Status copy_interpreter(const PrivateInterpreter& found, int dir_fd, const Piece::Place& place);
  Status compile(const std::vector<std::string>& names, const std::string& path,
                 const std::string& to, const std::string& program);
  Result<EnvironmentBuild*> commands(const Piece::Place& place);
  void add_note(const std::string& text);

  const VenvItem& item_;
  const StageOrder& order_;
  Meter& meter_;
  Builder& builder_;
  const std::atomic<bool>& stop_;
  Report report_;
  Decide decide_;
  ItemRelay* relay_ = nullptr;
  std::unique_ptr<EnvironmentBuild> commands_;
  std::vector<std::string> from_;  // where it was before, as far as the source shows
  VenvRelocation::Options options_;
  std::string note_;
  bool has_log_ = false;
  bool is_directory_ = false;  // the source
};

}  // namespace nodestage
