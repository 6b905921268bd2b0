#include "plugin/cpus_per_node.hpp"

#include <charconv>

namespace nodestage {
namespace {

std::optional<std::uint32_t> take_number(std::string_view& text) {
  std::uint32_t number = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(stop - text.data()));
  return number;
}

bool take(std::string_view& text, std::string_view expected) {
  if (!text.starts_with(expected)) return false;
  text.remove_prefix(expected.size());
  return true;
}

}  // namespace

std::optional<std::uint32_t> cpus_of_node(std::string_view text, std::size_t node_index) {
  for (;;) {
    const auto cpus = take_number(text);
    if (!cpus || *cpus == 0) return std::nullopt;
    std::optional<std::uint32_t> nodes = 1;
    if (take(text, "(x")) {
      nodes = take_number(text);
      if (!nodes || !take(text, ")")) return std::nullopt;
    }
    if (node_index < *nodes) return cpus;
    node_index -= *nodes;
    if (!take(text, ",")) return std::nullopt;
  }
}

}  // namespace nodestage
