// Dataset: one --stage-dataset= option, or the --stage-venv= one: its sources, its destination, and
// its progress.
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "common/request/request.hpp"
#include "common/wire/status_file.hpp"
#include "common/wire/worker_order.hpp"
#include "daemon/worker/budget/meter.hpp"
#include "daemon/worker/piece/piece.hpp"
#include "daemon/worker/venv/venv.hpp"
#include "daemon/worker/venv/workspace.hpp"

namespace nodestage {

// What all datasets of a worker share; borrowed.
struct StageContext {
  const WorkerOrder& order;
  Workspace& workspace;
  mode_t umask;
  RateLimit& rate;
  const std::atomic<bool>& stop;
  Allowance& allowance;
  std::size_t at_once;         // number of datasets that run side by side
  PieceLimits limits;          // for each of them
  Builder* builder = nullptr;  // for an environment; null if there is none
};

// Not movable. One thread at a time calls plan(), then weigh(), then run(). The rest is for any
// thread.
class Dataset {
 public:
  // Borrows everything. With `venv`, `item` has the part of it that it shares with any dataset, and
  // context.builder must not be null.
  Dataset(const DatasetItem& item, std::size_t index, const StageContext& context,
          const VenvItem* venv = nullptr);

  // Finds the sources and claims the destination, as far as that is known without reading. A source
  // is a glob only if no file has exactly that name; its matches are sorted. An `async` dataset
  // also determines its destination here, so that the job can know it before the data arrive.
  Status plan();

  // Opens the first source and derives from it what all of them will take of the local disk:
  // need(). An `async` dataset does that in run(), and asks the Allowance for it.
  Status weigh();
  [[nodiscard]] const Need& need() const { return need_; }

  // Stages everything. Each piece gets its name at once, by rename; with a glob and a destination,
  // all pieces together do.
  Status run();

  // Records the result of plan(), weigh(), and run(), for the status record and the log.
  void end(const Status& status);
  // The same for a weighed dataset for which there is no room.
  void leave_out(const Error& refusal);

  // NODESTAGE_DATASET_<…> or NODESTAGE_VENV, and its path: that of the dataset or, for a glob
  // without a destination, the job directory. Empty before that is known and after a failure.
  struct Variable {
    std::string name;
    std::string value;
  };
  [[nodiscard]] std::optional<Variable> variable() const;

  [[nodiscard]] ItemRecord record() const;
  [[nodiscard]] std::string name() const;  // for messages: "dataset 'x'"
  [[nodiscard]] bool is_venv() const { return venv_ != nullptr; }
  [[nodiscard]] std::string source() const { return shown(item_.source); }
  [[nodiscard]] bool is_async() const { return item_.async; }
  [[nodiscard]] bool is_needed() const;  // its failure fails the job
  void set_note(const std::string& text);

 private:
  using Clock = std::chrono::steady_clock;
  Status find_sources();
  Status measure();
  Status ask();
  Result<Piece> open_piece(const std::string& source);
  Status learn_destination();
  Status stage_group(int items_fd);
  Status stage_one(int item_fd, const std::string& path);
  Status build(Piece& piece, int dir_fd, const std::string& name);
  Status build_venv(Piece& piece, int dir_fd, const std::string& name);
  Status claim(const std::string& destination, const std::string& source);
  bool keep_placed(const std::string& destination);
  void set_kind(const std::string& kind);
  void set_destination(const std::string& destination);
  void add_note(const std::string& text);
  [[nodiscard]] std::string short_name() const;  // under mutex_

  const DatasetItem& item_;
  const std::size_t index_;
  const StageContext& context_;
  const VenvItem* const venv_;
  Meter meter_;
  Space space_;
  std::vector<std::string> sources_;
  std::uint64_t source_bytes_ = 0;
  std::optional<Piece> first_;  // the first source, if it is open already
  Need need_;
  bool is_group_ = false;                     // a glob
  std::map<std::string, std::string> names_;  // of a group: default name → source

  mutable std::mutex mutex_;  // guards what follows
  ItemState state_ = ItemState::waiting;
  std::string kind_;
  std::string note_;
  std::string destination_;  // "." for a glob without one
  std::optional<Clock::time_point> begun_;
  std::optional<Clock::time_point> ended_;
};

}  // namespace nodestage
