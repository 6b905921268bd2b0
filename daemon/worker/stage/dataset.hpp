// Dataset: one --stage-dataset= option on its way: which sources it means, and where they go.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "common/request/request.hpp"
#include "daemon/worker/piece/dataset_sources.hpp"
#include "daemon/worker/stage/staged_item.hpp"

namespace nodestage {

class Dataset final : public StagedItem {
 public:
  // Borrows everything.
  Dataset(const DatasetItem& item, std::size_t index, const StageContext& context);

  // An `async` dataset also determines its destination here, so that the job can know it before the
  // data arrives.
  Status plan() override;
  Status weigh() override;
  [[nodiscard]] std::string name() const override;
  // The names in their order; "none" if nothing could be chosen.
  [[nodiscard]] std::string chosen() const override;

 private:
  // Each piece gets its name at once, by rename; with a glob and a destination, all pieces together
  // do; what newest= has chosen, once all of it is complete.
  Status stage() override;
  [[nodiscard]] const char* noun() const override { return "dataset"; }
  [[nodiscard]] std::uint32_t kind_flag() const override { return 0; }
  [[nodiscard]] std::string short_name() const override;
  [[nodiscard]] std::string variable_name() const override;
  Result<DatasetSources> find();
  Result<Piece> open(const std::string& source);
  Status ask();
  Status learn_destination();
  Status stage_group(int items_fd);
  // Returns the destination, where `name` in item_fd is to be placed; "": it is there already.
  Result<std::string> build_one(int item_fd, const std::string& source, const std::string& name);
  Status stage_choice(int item_fd);
  void begin_watch();
  void look_again(const Piece& piece, const std::string& source);
  void mark_source(const Piece& piece, const std::string& source);
  Status build(Piece& piece, const std::string& source, int dir_fd, const std::string& name);
  Status claim(const std::string& destination, const std::string& source);

  const DatasetItem& item_;
  Unpacking wanted_;
  std::optional<NewestChoice> newest_;
  std::string note_;                          // on the sources
  bool is_group_ = false;                     // a glob
  std::map<std::string, std::string> names_;  // of a group: default name → source
  // Of one that leads: its key, by what its sources are before and after they are read.
  std::optional<ShareKey> before_;
  std::optional<ShareKey> after_;
};

}  // namespace nodestage
