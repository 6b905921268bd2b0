#include "daemon/worker/stage/stage_report.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "common/text/encodings.hpp"
#include "common/text/human.hpp"
#include "daemon/worker/basis/fault.hpp"
#include "daemon/worker/share/dataset_key.hpp"
#include "daemon/worker/tree/remove_tree.hpp"
#include "daemon/worker/tree/tree_walk.hpp"
#include "daemon/worker/venv/builder.hpp"
#include "daemon/worker/venv/venv.hpp"
#include "daemon/worker/venv/venv_interpreter.hpp"

namespace nodestage {
namespace {

void check(const Status& status) {
  if (!status) log_line(status.error().text());
}

std::string hash_of(std::string_view text) {
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016" PRIx64, fnv1a(text));
  return digits;
}

// At most `width` bytes. A hash distinguishes what differs only in the part that is left out.
std::string limited(const std::string& text, std::size_t width) {
  if (text.size() <= width) return text;
  const std::string end = " (" + hash_of(text) + ")";
  return shortened(text, width - end.size()) + end;
}

constexpr std::size_t k_short_line = 120;

}  // namespace

// Each line gets its share of the field; many lines are limited as a whole.
void StageReport::set_chosen(const StagedItems& items) {
  std::vector<std::string> lines;
  for (const auto& item : items) {
    if (std::string line = item->chosen(); !line.empty()) lines.push_back(std::move(line));
  }
  constexpr std::size_t k_room = sizeof header_.chosen - 1;
  const std::size_t share = k_room / std::max<std::size_t>(lines.size(), 1) - 1;
  std::string text;
  for (const auto& line : lines)
    text += (text.empty() ? "" : "\n") + limited(line, std::max(share, k_short_line));
  set_field(header_.chosen, limited(text, k_room));
}

void StageReport::set_outputs(const std::vector<OutputItem>& outputs) {
  header_.outputs = static_cast<std::uint32_t>(outputs.size());
  for (std::size_t i = 0; i < std::min(outputs.size(), k_max_request_items); ++i)
    header_.every_s[i] = outputs[i].every_s;
}

void StageReport::set_environment(const std::vector<std::string>& environment) {
  check(write_status_environment(k_worker_status_fd, environment));
  std::size_t bytes = 0;
  for (const auto& variable : environment) bytes += variable.size() + 1;
  header_.environment_bytes = static_cast<std::uint32_t>(bytes);
}

void StageReport::write(WorkerPhase phase, const StagedItems& items) {
  written_.resize(items.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    const ItemRecord record = items[i]->record();
    if (std::memcmp(&record, &written_[i], sizeof record) == 0) continue;
    written_[i] = record;
    check(write_status_item(k_worker_status_fd, i, record));
  }
  header_.items = static_cast<std::uint32_t>(items.size());
  header_.phase = static_cast<std::uint32_t>(phase);
  check(write_status_header(k_worker_status_fd, header_));
}

int StageReport::fail(const std::string& cause, const StagedItems& items) {
  set_field(header_.cause, cause);
  write(WorkerPhase::failed, items);
  log_line("failed: " + cause);
  return 1;
}

namespace {

constexpr std::size_t k_max_padding = 200;

// StagedVenv: a --stage-venv= option: its source, and the environment that is made of it.
class StagedVenv final : public StagedItem {
 public:
  StagedVenv(const VenvItem& item, std::size_t index, const StageContext& context, Builder* builder)
      : StagedItem(item.source, item.optional ? Patience::optional : Patience::needed,
                   item.shared ? ItemSharing::Asked::yes : ItemSharing::Asked::no, index, context),
        item_(item),
        builder_(builder) {}

  Status plan() override {
    if (!context_.order.refuse_venv.empty()) return Error{EPERM, context_.order.refuse_venv};
    if (!sharing_.is_link()) {
      sources_ = {item_.source};
      TRY(measure());
      expect_interpreter();
    }
    TRY(context_.workspace.claim(item_.destination, item_.source));
    progress_.set_destination(item_.destination);
    return {};
  }

  Status weigh() override {
    if (sharing_.is_link()) return {};
    if (!sharing_.is_asked() && context_.workspace.is_placed(item_.destination)) return {};
    TRY_ASSIGN(Piece piece, Piece::open(item_.source, Unpacking::of_venv(item_.source), meter_,
                                        context_.limits));
    TRY_ASSIGN(need_, piece.need());
    keep_open(std::move(piece));
    return {};
  }

  [[nodiscard]] std::string name() const override { return "the environment"; }

 private:
  // What an earlier worker placed may have been made for a path in the cache, where it is not.
  Status stage() override {
    if (!sharing_.is_asked()) {
      TRY_ASSIGN(const bool is_placed, keep_placed(item_.destination));
      if (is_placed) return {};
    }
    TRY_ASSIGN(const Fd item_fd, context_.workspace.make_item(index_));
    if (sharing_.is_lead()) pad_built(item_fd.get());
    TRY_ASSIGN(Piece piece, open_piece(item_.source, Unpacking::of_venv(item_.source)));
    TRY(build(piece, item_fd.get()));
    return place(item_fd.get(), built_.c_str(), item_.destination);
  }

  // It is read after the environment.
  void expect_interpreter() {
    if (context_.relays == nullptr || !may_relay(true)) return;
    const auto found = interpreter_of_directory(item_);
    if (!found) return;
    if (const auto info = examine_source(found->prefix))
      static_cast<void>(context_.relays->expect(found->prefix, *info));
  }

  [[nodiscard]] const char* noun() const override { return "venv"; }
  [[nodiscard]] std::uint32_t kind_flag() const override { return k_item_venv; }
  [[nodiscard]] std::string short_name() const override { return "VENV"; }
  [[nodiscard]] std::string variable_name() const override { return "NODESTAGE_VENV"; }
  // The log of a build lies beside the environment, also when that failed.
  Status build(Piece& piece, int item_fd) {
    progress_.set_kind(kind_of_venv(piece));
    // Of a directory, it is enough to look at it again, as in Dataset::look_again().
    const std::optional<SourceIdentity> before =
        sharing_.is_lead() && !piece.is_directory() ? std::optional(identify(piece)) : std::nullopt;
    const bool is_relayed = piece.is_directory() && may_relay(true);
    const VenvContext context{item_,
                              context_.order,
                              meter_,
                              *builder_,
                              context_.stop,
                              [this](const std::string& text) { progress_.set_note(text); },
                              [&] {
                                if (!sharing_.is_lead())
                                  return context_.order.directory + "/" + item_.destination;
                                const SourceIdentity after = identify(piece);
                                return sharing_.judge(before ? *before : after, after,
                                                      destination_path());
                              },
                              is_relayed ? &relay_ : nullptr};
    MadeVenv made = make_venv(piece, {item_fd, built_, context_.umask, space_}, context);
    progress_.set_note("");
    const auto logs = open_directory_at(item_fd, k_venv_log_directory);
    if (logs && made.has_log) {
      static_cast<void>(
          !context_.workspace.place(logs->get(), k_venv_log_name, item_.destination + ".log"));
    }
    progress_.add_note(made.note);
    TRY(std::move(made.status));
    return sharing_.is_asked() ? take_writes(item_fd) : Status();
  }

  [[nodiscard]] Status take_writes(int item_fd) const {
    const auto top = open_directory_at(item_fd, built_);
    const Status taken = top ? take_write_bits(top->get()) : top.error();
    return taken ? Status() : Status(with_prefix(taken.error(), source() + ": "));
  }

  [[nodiscard]] SourceIdentity identify(const Piece& piece) const {
    const auto kind = piece.is_directory()         ? VenvSource::directory
                      : piece.archive() != nullptr ? VenvSource::archive
                                                   : VenvSource::requirements;
    return identify_venv(item_, kind, piece.source_fd(), share_rules());
  }

  // The path in a binary file cannot be replaced by a longer one.
  void pad_built(int item_fd) {
    const std::size_t length = path_of(item_fd).size() + 1 + built_.size();
    const std::size_t wanted = std::min(sharing_.path().size(), length + k_max_padding);
    if (wanted > length) built_.append(wanted - length, '_');
  }

  const VenvItem& item_;
  Builder* const builder_;
  std::string built_ = "one";  // its name in the item's directory, until it is placed
};

}  // namespace

std::unique_ptr<StagedItem> make_staged_venv(const VenvItem& item, std::size_t index,
                                             const StageContext& context, Builder* builder) {
  return std::make_unique<StagedVenv>(item, index, context, builder);
}

}  // namespace nodestage
