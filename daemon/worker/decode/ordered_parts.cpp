#include "daemon/worker/decode/ordered_parts.hpp"

#include <algorithm>

#include "common/text/human.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_junk_start = 512;

}  // namespace

// Uncompressed data have no checksum of their own.
std::string DecodeFaults::how_to_test() const {
  const std::string command = std::string(row_of(coding_).test) + " " + shell_word(shown(path_));
  return (coding_ == Coding::plain ? "Compare it with the original: " : "Test it with: ") + command;
}

Error DecodeFaults::cut_off(std::uint64_t offset) const {
  return fault(
      0, shown(path_) + ": cut off after " + human_bytes(offset) + ": the archive is truncated",
      "Was its creation or transfer stopped, by a quota or a time limit? " + how_to_test());
}

Error DecodeFaults::damaged(const std::string& where, std::string_view cause) const {
  std::string what = shown(path_) + ": damaged " + where + " (";
  what.append(cause).append(")");
  return fault(0, std::move(what), "Make or transfer it again. " + how_to_test());
}

std::string DecodeFaults::byte(std::uint64_t offset) const {
  return "byte " + human_count(offset) + " of " + human_count(std::max(size_, offset));
}

Error DecodeFaults::damaged_at(std::uint64_t offset, std::string_view cause) const {
  return damaged("at " + byte(offset), cause);
}

Error DecodeFaults::damaged_before(std::uint64_t offset, std::string_view cause) const {
  return damaged(offset == 0 ? "near its beginning" : "before " + byte(offset), cause);
}

Error DecodeFaults::of_codec(std::uint64_t offset, const Error& error) const {
  if (is_stopped(error)) return error;
  if (error.code == k_needs_dictionary)
    return fault(error.code,
                 shown(path_) + ": is compressed with a dictionary, which is not in the file",
                 "Compress it without one (zstd and lz4 without -D)");
  if (error.code != ENOMEM) return damaged_at(offset, error.text());
  return fault(ENOMEM, shown(path_) + ": needs too much memory to decode: " + error.text(),
               "Compress it with a window or dictionary of at most " + human_bytes(k_max_window) +
                   ", as zstd and xz do by default");
}

Result<bool> skip_zeros(CompressedInput& input) {
  for (;;) {
    TRY_ASSIGN(const std::size_t held, input.ensure(1));
    if (held == 0) return false;
    const std::size_t zeros = zeros_before_data(input.front());
    const bool has_more = zeros < input.front().size();
    input.skip(zeros);
    if (has_more) return true;
  }
}

Result<bool> FrameReader::find_frame() {
  TRY_ASSIGN(const bool has_more, skip_zeros(input_));
  if (has_more) {
    TRY_ASSIGN(const std::size_t held, input_.ensure(magic_bytes_of(coding_)));
    std::array<std::byte, k_magic_bytes> start{};
    const auto magic = std::span(start).first(std::min(held, start.size()));
    input_.copy(0, magic);
    if (begins_frame(coding_, magic)) return true;
    // No more is read for it: the input may be one that pauses (GzipParts).
    TRY_ASSIGN(const std::size_t there, input_.ensure(0));
    junk_ = Junk{input_.offset(), std::vector<std::byte>(std::min(there, k_junk_start))};
    input_.copy(0, junk_->start);
  }
  place_ = Place::at_end;
  return false;
}

Status FrameReader::begin_frame() {
  if (const Status begun = codec_->begin_frame(); !begun)
    return faults_.of_codec(input_.offset(), begun.error());
  place_ = Place::in_frame;
  frame_bytes_ = 0;
  return {};
}

std::size_t FrameReader::fill(std::span<std::byte> out, const std::function<bool()>& leave) {
  std::size_t done = 0;
  while (done < out.size() && fault_ && place_ != Place::at_end) {
    if (place_ == Place::between_frames) {
      const auto found = find_frame();
      if (!found) fault_ = found.error();
      if (!found || !*found || (done > 0 && leave && leave())) break;
      fault_ = begin_frame();
      if (!fault_) break;
    }
    done += step(out.subspan(done));
  }
  return done;
}

// Decodes some bytes, possibly none.
std::size_t FrameReader::step(std::span<std::byte> out) {
  if (const auto held = input_.ensure(1); !held) return failed(held.error());
  const Bytes in = input_.front();
  const auto step = decode(in, out);
  if (!step) return failed(step.error(), codec_->before_fault().produced);
  if (step->consumed == 0 && step->produced == 0 && !step->frame_ended) {
    if (const auto held = input_.ensure(1); !held) return failed(held.error());
    if (input_.front().empty()) return failed(faults_.cut_off(input_.offset()));
    return failed(faults_.damaged_at(input_.offset(), "its end cannot be found"));
  }
  input_.skip(step->consumed);
  return step->produced;
}

std::size_t FrameReader::flush(std::span<std::byte> out) {
  std::size_t done = 0;
  while (done < out.size() && fault_ && place_ == Place::in_frame) {
    const auto step = decode({}, out.subspan(done));
    if (!step) return done + failed(step.error(), codec_->before_fault().produced);
    if (step->produced == 0) break;
    done += step->produced;
  }
  return done;
}

Result<Codec::Step> FrameReader::decode(Bytes in, std::span<std::byte> out) {
  auto step = codec_->decode(in, out);
  if (!step)
    return faults_.of_codec(input_.offset() + codec_->before_fault().consumed, step.error());
  frame_bytes_ += step->produced;
  if (step->frame_ended) place_ = Place::between_frames;
  return step;
}

OrderedParts::~OrderedParts() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    room_.notify_all();
  }
  maker_.stop();
  threads_.join();
}

std::unique_ptr<Part> OrderedParts::next() {
  std::unique_lock lock(mutex_);
  worked_.wait(lock, [&] { return slots_.empty() ? is_over_ : slots_.front()->is_worked; });
  if (slots_.empty()) return failed_ && !failed_->fault ? std::move(failed_) : nullptr;
  const auto slot = std::move(slots_.front());
  slots_.pop_front();
  room_.notify_one();
  return std::move(slot->part);
}

void OrderedParts::work() {
  while (const auto slot = make()) {
    Part& part = *slot->part;
    Status done = guarded([&] {
      if (part.fault) part.work();
    });
    if (!done) part.fault = std::move(done);
    set_worked(*slot);
  }
}

// Null: there are no more.
std::shared_ptr<OrderedParts::Slot> OrderedParts::make() {
  const std::lock_guard making(making_);
  {
    std::unique_lock lock(mutex_);
    room_.wait(lock, [&] { return is_over_ || slots_.size() < depth_; });
    if (is_over_) return nullptr;
  }
  std::shared_ptr<Slot> slot;
  Status made = guarded([&] { slot = made_slot(); });
  if (slot != nullptr) return slot;
  const std::lock_guard lock(mutex_);
  is_over_ = true;
  if (!made) failed_->fault = std::move(made);
  worked_.notify_one();
  return nullptr;
}

// Null: there are no more.
std::shared_ptr<OrderedParts::Slot> OrderedParts::made_slot() {
  auto slot = std::make_shared<Slot>();
  slot->part = maker_.make();
  if (slot->part == nullptr) return nullptr;
  const std::lock_guard lock(mutex_);
  slots_.push_back(slot);
  if (!slot->part->fault) is_over_ = true;
  return slot;
}

void OrderedParts::set_worked(Slot& slot) {
  const std::lock_guard lock(mutex_);
  slot.is_worked = true;
  worked_.notify_one();
}

FrameParts::FrameParts(std::unique_ptr<DecodeStore> store, Coding coding,
                       std::unique_ptr<Codec> codec, std::unique_ptr<WholeFrames> whole)
    : store_(std::move(store)),
      whole_(std::move(whole)),
      reader_(store_->input, coding, std::move(codec), store_->faults) {}

bool FrameParts::begins_with_whole_frames() {
  if (whole_ != nullptr) first_ = whole_->take(*store_);
  return first_ != nullptr;
}

std::unique_ptr<Part> FrameParts::make() {
  if (first_ != nullptr) return std::move(first_);
  if (whole_ != nullptr && !reader_.is_in_frame()) {
    const auto found = reader_.find_frame();
    if (found && !*found) return nullptr;
    if (found) {
      if (auto part = whole_->take(*store_)) return part;
    }
  }
  auto part = std::make_unique<Part>();
  if (!store_->add_block(*part)) return part;
  Part::Block& block = part->blocks.back();
  const auto leave = [this] { return whole_ != nullptr && whole_->may_begin(store_->input); };
  block.size = reader_.fill(block.room(), leave);
  part->fault = reader_.fault();
  part->position = store_->input.offset();
  const bool has_ended = block.size == 0 && part->fault;
  return has_ended ? nullptr : std::move(part);
}

}  // namespace nodestage
