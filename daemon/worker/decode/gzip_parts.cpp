#include "daemon/worker/decode/gzip_parts.hpp"

#include <algorithm>

namespace nodestage {

// Its blocks are only those that are handed out next.
class GzipPart final : public Part {
 public:
  explicit GzipPart(GzipParts& parts) : parts_(parts) {}

  void work() override {
    if (!is_chunk_wanted) return;
    const std::uint64_t limit = 8 * (end - begin);
    has_chunk = chunk.decode(data.bytes(), limit, std::move(memory), parts_.sizes().marks_of_chunk,
                             parts_.is_stopped());
    memory.clear();
  }
  void go_on() override { parts_.go_on(*this); }

  [[nodiscard]] Slice own() const { return data.part(0, end - begin); }
  // Where the chunk begins, and up to which byte that is known; in the file.
  [[nodiscard]] std::uint64_t chunk_bit() const { return 8 * begin + chunk.begin().bit; }
  [[nodiscard]] std::uint64_t chunk_byte() const { return (chunk_bit() + 7) / 8; }
  [[nodiscard]] bool begins_at(std::uint64_t bit) const {
    return bit <= chunk_bit() && chunk_bit() - bit <= chunk.begin().zeros_before;
  }

  std::uint64_t begin = 0;  // in the file
  std::uint64_t end = 0;
  Slice data;  // what lies there, and some of what follows
  std::vector<Block> memory;
  bool is_chunk_wanted = false;
  unsigned pauses = 0;  // before it was made
  bool is_last = false;
  Status source_fault;  // after the data
  DeflateChunk chunk;
  bool has_chunk = false;  // that was not used yet
  bool is_done = false;    // the reader has used what lies there

 private:
  GzipParts& parts_;
};

namespace {

constexpr std::size_t k_least_chunk = std::size_t{128} * 1024;
constexpr unsigned k_most_losses = 4;
constexpr unsigned k_parts_without = 16;  // then, and twice as many each further time
constexpr unsigned k_most_parts_without = 4096;

}  // namespace

GzipParts::GzipParts(std::unique_ptr<DecodeStore> store, GzipSizes sizes, std::size_t parts)
    : store_(std::move(store)),
      sizes_(sizes),
      pieces_(sizes.chunk + sizes.beyond(), parts),
      chunk_(sizes.chunk),
      input_(0, [this] { return pull(); }),
      codec_(new GzipCodec),
      reader_(input_, Coding::gzip, std::unique_ptr<Codec>(codec_), store_->faults) {}

// --- the maker ----------------------------------------------------------------------------------

std::unique_ptr<Part> GzipParts::make() {
  if (is_made_ || is_stopped_) return nullptr;
  auto part = std::make_unique<GzipPart>(*this);
  CompressedInput& input = store_->input;
  part->begin = input.offset();
  const std::size_t wanted = chunk_;
  // The first bytes are a header, from which the consumer begins.
  part->is_chunk_wanted = part->begin > 0;
  if (read_fault_) {
    const auto held = input.ensure(wanted + sizes_.beyond());
    if (!held) read_fault_ = held.error();
  }
  part->source_fault = read_fault_;
  const std::size_t there = *input.ensure(0);
  const std::size_t own = std::min(wanted, there);
  part->end = part->begin + own;
  part->is_last = is_made_ = own == there;
  const BufferPool::Buffer copy = pieces_.take();
  if (copy.owner == nullptr) return stopped_part(std::move(part));
  const auto data = copy.memory.first(std::min(there, wanted + sizes_.beyond()));
  input.copy(0, data);
  part->data = copy.filled(data.size());
  input.skip(own);
  part->position = part->end;
  part->pauses = pauses_;
  if (parts_without_ > 0) {
    --parts_without_;
    part->is_chunk_wanted = false;
  }
  for (std::size_t i = 0; part->is_chunk_wanted && i < sizes_.blocks_of_chunk; ++i) {
    part->memory.push_back({store_->pool.take(), 0});
    if (part->memory.back().buffer.owner != nullptr) continue;
    return stopped_part(std::move(part));
  }
  return part;
}

std::unique_ptr<Part> GzipParts::stopped_part(std::unique_ptr<GzipPart> part) {
  part->memory.clear();
  part->fault = stopped();
  return part;
}

// The threads, too, end soon.
void GzipParts::stop() {
  is_stopped_ = true;
  store_->stop();
  pieces_.stop();
}

// --- the consumer -------------------------------------------------------------------------------

void GzipParts::settle(Part& made, OrderedParts&) {
  if (is_over_ || !made.fault) return;
  auto& part = static_cast<GzipPart&>(made);
  if (part.is_chunk_wanted) ++tried_;
  if (part.end > part.begin) queue_.push_back(part.own());
  has_all_ = part.is_last;
  source_fault_ = part.source_fault;
}

// The rest of what was queued, up to pull_end_.
Result<Slice> GzipParts::pull() {
  if (queue_.empty() && has_all_) {
    TRY(source_fault_);
    return Slice();
  }
  if (queue_.empty() || queued_at_ >= pull_end_) {
    is_paused_ = true;
    return stopped();
  }
  const Slice front = queue_.front();
  const std::size_t bytes = std::min<std::uint64_t>(front.size(), pull_end_ - queued_at_);
  drop_before(queued_at_ + bytes);
  return front.part(0, bytes);
}

void GzipParts::drop_before(std::uint64_t offset) {
  while (!queue_.empty() && queued_at_ < offset) {
    Slice& front = queue_.front();
    const std::size_t bytes = std::min<std::uint64_t>(front.size(), offset - queued_at_);
    queued_at_ += bytes;
    if (bytes < front.size()) {
      front = front.part(bytes);
    } else {
      queue_.pop_front();
    }
  }
}

void GzipParts::go_on(GzipPart& part) {
  while (part.fault && part.blocks.empty() && !part.is_done && !is_over_) {
    if (!point_) {
      decode(part);
    } else if (!join(part)) {
      leave_chunks(part);
    }
  }
}

bool GzipParts::join(GzipPart& part) {
  if (!part.has_chunk || !part.begins_at(point_->bit)) return false;
  part.has_chunk = false;
  const std::size_t known = std::min<std::uint64_t>(window_.size(), point_->size);
  const std::uint64_t end_bit = 8 * part.begin + part.chunk.end();
  const bool is_too_large = part.chunk.is_too_large();
  const std::size_t filled = part.chunk.filled();
  auto blocks = part.chunk.resolve(Bytes(window_).last(known));
  if (!blocks) return false;
  for (const Part::Block& block : *blocks) {
    const Bytes bytes = block.room().first(block.size);
    point_->crc = crc32_of(bytes, point_->crc);
    point_->size += bytes.size();
    remember(bytes);
  }
  point_->bit = end_bit;
  part.position = std::max(part.position, (end_bit + 7) / 8);
  part.blocks = std::move(*blocks);
  is_reader_there_ = false;
  ++joined_;
  learn(is_too_large, filled);
  const auto packed = static_cast<double>(end_bit - part.chunk_bit()) / 8;
  if (static_cast<double>(filled) > sizes_.growth * packed) {
    count_loss(part);
  } else {
    losses_ = pause_ = 0;
  }
  part.is_chunk_wanted = false;  // It has been counted, whatever the rest of the part is.
  return true;
}

// Of a chunk that is too large, only a part was decoded.
void GzipParts::learn(bool is_too_large, std::size_t filled) {
  const std::size_t memory = sizes_.blocks_of_chunk * store_->block_bytes;
  if (is_too_large) chunk_ = std::max(chunk_ / 2, std::min(sizes_.chunk, k_least_chunk));
  if (filled < memory / 3) chunk_ = std::min(2 * chunk_, sizes_.chunk);
}

// The reader had to decode all of the part, or the rest of it.
void GzipParts::miss(GzipPart& part) {
  part.is_done = true;
  if (!part.is_chunk_wanted) return;
  if (part.chunk.is_too_large()) learn(true, SIZE_MAX);
  count_loss(part);
}

// After a few, chunks pause. Those that were made before the last pause say nothing new.
void GzipParts::count_loss(const GzipPart& part) {
  if (part.pauses != pauses_ || ++losses_ < k_most_losses) return;
  pause_ = std::clamp(2 * pause_, k_parts_without, k_most_parts_without);
  parts_without_ = pause_;
  ++pauses_;
  losses_ = 0;
}

// The reader goes on where the last chunk ended, if this part has anything for it.
void GzipParts::leave_chunks(GzipPart& part) {
  if (is_reader_there_) {
    part.has_chunk = false;
    point_.reset();
    return;
  }
  const std::uint64_t offset = point_->bit / 8;
  const auto bits_used = static_cast<unsigned>(point_->bit % 8);
  drop_before(offset);
  if (queue_.empty() && !part.is_last) {
    part.is_done = true;
    return;
  }
  queued_at_ = offset;
  // Where a chunk of this part is to be joined, the reader must not have the bytes beyond it.
  pull_end_ = bits_used > 0 ? offset + 1 : offset;
  input_ = CompressedInput(offset, [this] { return pull(); });
  std::byte first{};
  if (bits_used > 0 && input_.ensure(1)) {
    first = input_.bytes_at<1>(0)[0];
    input_.skip(1);
  }
  const std::size_t known = std::min<std::uint64_t>(window_.size(), point_->size);
  const Status begun = codec_->begin_between({(8 - bits_used) % 8, point_->crc},
                                             static_cast<std::uint32_t>(point_->size), first,
                                             Bytes(window_).last(known));
  if (!begun) return end(part, store_->faults.of_codec(offset, begun.error()));
  reader_.enter_frame(point_->size);
  point_.reset();
}

// By the reader: up to where the part's chunk begins, or to its end.
void GzipParts::decode(GzipPart& part) {
  const bool is_before_chunk = part.has_chunk && queued_at_ <= part.chunk_byte();
  pull_end_ = is_before_chunk ? part.chunk_byte() : part.end;
  if (part.is_last && !is_before_chunk) pull_end_ = UINT64_MAX;
  if (!store_->add_block(part)) return;
  Part::Block& block = part.blocks.back();
  is_paused_ = false;
  reader_.resume();
  block.size = reader_.fill(block.room());
  if (is_paused_) {
    reader_.resume();
    block.size += reader_.flush(block.room().subspan(block.size));
    const bool has_room = block.size < block.room().size();
    if (has_room && reader_.fault()) pause(part);
  }
  if (!reader_.fault() || reader_.is_at_end()) end(part, reader_.fault());
  remember(block.room().first(block.size));
}

// Nothing follows this part's blocks but the fault, if it is one.
void GzipParts::end(GzipPart& part, const Status& fault) {
  part.fault = fault;
  is_over_ = is_stopped_ = true;
}

// The reader has used and returned all that there is up to pull_end_.
void GzipParts::pause(GzipPart& part) {
  if (!part.has_chunk || pull_end_ != part.chunk_byte()) return miss(part);
  part.has_chunk = false;
  const auto between = reader_.is_in_frame() ? codec_->between() : std::nullopt;
  if (!between || !input_.front().empty()) return;
  const std::uint64_t bit = 8 * input_.offset() - between->bits_left;
  if (!part.begins_at(bit)) return;
  part.has_chunk = true;
  point_ = Point{bit, between->crc, reader_.frame_bytes()};
  is_reader_there_ = true;
}

void GzipParts::remember(Bytes bytes) {
  bytes = bytes.last(std::min(bytes.size(), Deflate::k_window));
  const std::size_t kept = std::min(window_.size(), Deflate::k_window - bytes.size());
  window_.erase(window_.begin(), window_.end() - static_cast<std::ptrdiff_t>(kept));
  window_.insert(window_.end(), bytes.begin(), bytes.end());
}

}  // namespace nodestage
