#include "daemon/worker/relay/relay_choice.hpp"

#include <algorithm>

#include "common/text/human.hpp"

namespace nodestage {
namespace {

constexpr std::uint64_t k_mebibyte = 1ULL << 20;

double rate_of(std::uint64_t bytes, const HeadLook& look) {
  const double seconds = std::chrono::duration<double>(look.time).count();
  return static_cast<double>(bytes) / std::max(seconds, 1e-9);
}

}  // namespace

std::uint64_t bytes_to_measure(std::uint64_t size, std::uint64_t ring) {
  const std::uint64_t part = std::clamp(size / 8, 8 * k_mebibyte, 64 * k_mebibyte);
  return std::min({part, size, ring / 4});
}

RelayChoice choose(const HeadLook& look, std::uint64_t nodes, std::uint64_t site_rate,
                   double limit) {
  const bool is_limited = limit > 0 && limit < static_cast<double>(k_relayed_rate);
  if (nodes < 2 || site_rate == 0 || is_limited) return RelayChoice::relayed;
  const bool is_slow = rate_of(look.read, look) < static_cast<double>(k_relayed_rate);
  if (look.read < look.wanted) {
    const double longest = static_cast<double>(look.wanted) / static_cast<double>(k_relayed_rate);
    const bool is_late = std::chrono::duration<double>(look.time).count() > longest;
    return is_slow && is_late ? RelayChoice::relayed : RelayChoice::open;
  }
  const double rate = rate_of(look.read_in_all, look);
  const bool is_granted = rate * static_cast<double>(nodes) <= static_cast<double>(site_rate);
  const bool is_memory = rate > static_cast<double>(k_memory_rate);
  return is_slow || is_memory || !is_granted ? RelayChoice::relayed : RelayChoice::alone;
}

std::string alone_text(const HeadLook& look, std::uint64_t nodes) {
  return "it is fast enough for all " + human_count(nodes) + " nodes (" +
         human_bytes(static_cast<std::uint64_t>(rate_of(look.read_in_all, look))) +
         "/s to the first)";
}

}  // namespace nodestage
