// Bzip2Parts: a bzip2 file as parts of one block each, decoded by all threads: libbz2 gets each
// block as a stream of its own. The checksum of each stream and what follows the stream are
// verified in order.
#pragma once

#include "daemon/worker/decode/bzip2_pieces.hpp"
#include "daemon/worker/decode/frame_parts.hpp"

namespace nodestage {

// Memory: 3.7 MiB a thread, and a compressed block (1 MiB; in a hostile file 2.5 MiB) a part.
class Bzip2Parts final : public PartMaker {
 public:
  // The store must have 4 blocks more than its consumer and all waiting parts hold.
  explicit Bzip2Parts(std::unique_ptr<DecodeStore> store)
      : store_(std::move(store)), pieces_(store_->input) {}

  std::unique_ptr<Part> make() override;
  void settle(Part& part, OrderedParts& behind) override;
  void stop() override { store_->stop(); }
  [[nodiscard]] std::optional<std::uint64_t> junk_at() const override { return junk_at_; }

 private:
  void end_stream(Part& part, const Bzip2Piece& piece);

  const std::unique_ptr<DecodeStore> store_;
  Bzip2Pieces pieces_;

  // The consumer's:
  std::uint32_t checksum_ = 0;  // of the stream's blocks so far
  bool is_over_ = false;        // what follows is not bzip2
  std::optional<std::uint64_t> junk_at_;
};

}  // namespace nodestage
