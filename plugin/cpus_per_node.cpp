#include "plugin/cpus_per_node.hpp"

#include "common/text/parsing.hpp"

namespace nodestage {
namespace {

bool take(std::string_view& text, std::string_view expected) {
  if (!text.starts_with(expected)) return false;
  text.remove_prefix(expected.size());
  return true;
}

}  // namespace

std::optional<std::uint32_t> cpus_of_node(std::string_view text, std::size_t node_index) {
  for (;;) {
    const auto cpus = take_number<std::uint32_t>(text);
    if (!cpus || *cpus == 0) return std::nullopt;
    std::optional<std::uint32_t> nodes = 1;
    if (take(text, "(x")) {
      nodes = take_number<std::uint32_t>(text);
      if (!nodes || !take(text, ")")) return std::nullopt;
    }
    if (node_index < *nodes) return cpus;
    node_index -= *nodes;
    if (!take(text, ",")) return std::nullopt;
  }
}

}  // namespace nodestage
