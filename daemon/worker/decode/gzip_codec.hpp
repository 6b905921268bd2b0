// The codec of gzip members (RFC 1952): an Inflater decodes; headers are parsed here.
#pragma once

#include "daemon/worker/decode/codec.hpp"
#include "daemon/worker/decode/inflater.hpp"

namespace nodestage {

// The Codec's fault for a State that is one.
Error inflate_fault(Inflater::State state);

}  // namespace nodestage
