// What the codecs of xz(1), ".xz" and ".lzma", share.
#pragma once

#include <lzma.h>

#include "daemon/worker/decode/codec.hpp"

namespace nodestage {

// One call of a decoder of liblzma.
struct LzmaStep {
  std::size_t consumed;
  std::size_t produced;
  lzma_ret status;

  [[nodiscard]] bool is_right() const {
    return status == LZMA_OK || status == LZMA_STREAM_END || status == LZMA_BUF_ERROR;
  }
};
LzmaStep run_lzma(lzma_stream& stream, Bytes in, std::span<std::byte> out);

// The cause of a wrong status. `coding`: the format's name.
Error lzma_fault(std::string_view coding, lzma_ret status);

}  // namespace nodestage
