// StagedVenv: a --stage-venv= option: its source, and the environment that is made of it.
#pragma once

#include <string>

#include "common/request/request.hpp"
#include "daemon/worker/stage/staged_item.hpp"
#include "daemon/worker/venv/builder.hpp"

namespace nodestage {

class StagedVenv final : public StagedItem {
 public:
  // Borrows everything. `builder` may be null if the site refuses environments, or if this one is
  // only linked.
  StagedVenv(const VenvItem& item, std::size_t index, const StageContext& context,
             Builder* builder);

  Status plan() override;
  Status weigh() override;
  [[nodiscard]] std::string name() const override { return "the environment"; }

 private:
  Status stage() override;
  [[nodiscard]] const char* noun() const override { return "venv"; }
  [[nodiscard]] std::uint32_t kind_flag() const override { return k_item_venv; }
  [[nodiscard]] std::string short_name() const override { return "VENV"; }
  [[nodiscard]] std::string variable_name() const override { return "NODESTAGE_VENV"; }
  Status build(Piece& piece, int item_fd);
  [[nodiscard]] Status take_writes(int item_fd) const;
  [[nodiscard]] SourceIdentity identify(const Piece& piece) const;

  void pad_built(int item_fd);

  const VenvItem& item_;
  Builder* const builder_;
  std::string built_ = "one";  // its name in the item's directory, until it is placed
};

}  // namespace nodestage
