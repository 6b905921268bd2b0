#include "daemon/worker/decode/frame_reader.hpp"

#include <algorithm>

namespace nodestage {

Result<bool> skip_zeros(CompressedInput& input) {
  for (;;) {
    TRY_ASSIGN(const std::size_t held, input.ensure(1));
    if (held == 0) return false;
    const Bytes front = input.front();
    const auto other = std::find_if(front.begin(), front.end(),
                                    [](std::byte byte) { return byte != std::byte{0}; });
    input.skip(static_cast<std::size_t>(other - front.begin()));
    if (other != front.end()) return true;
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
    junk_at_ = input_.offset();
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

}  // namespace nodestage
