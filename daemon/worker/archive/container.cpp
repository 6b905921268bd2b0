#include "daemon/worker/archive/container.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>

#include "daemon/worker/archive/tar_header.hpp"

namespace nodestage {
namespace {

std::string_view start_text(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Leading blanks, octal digits, then a blank or NUL.
std::optional<std::uint64_t> octal(std::string_view field) {
  while (field.starts_with(' ')) field.remove_prefix(1);
  std::uint64_t value = 0;
  std::size_t digits = 0;
  for (; digits < field.size() && field[digits] >= '0' && field[digits] <= '7'; ++digits) {
    value = value * 8 + static_cast<std::uint64_t>(field[digits] - '0');
  }
  if (digits == 0 || (digits < field.size() && field[digits] != ' ' && field[digits] != '\0')) {
    return std::nullopt;
  }
  return value;
}

// Every kind of tar has the sum of the header's bytes, with the sum's field counted as blanks. Old
// writers summed signed bytes.
bool is_tar(std::string_view start) {
  if (start.size() < k_tar_block) return false;
  const auto claimed = octal(start.substr(148, 8));
  if (!claimed) return false;
  std::int64_t sum = 0;
  std::int64_t signed_sum = 0;
  for (std::size_t i = 0; i < k_tar_block; ++i) {
    const char c = i >= 148 && i < 156 ? ' ' : start[i];
    sum += static_cast<unsigned char>(c);
    signed_sum += static_cast<signed char>(c);
  }
  const auto wanted = static_cast<std::int64_t>(*claimed);
  return sum == wanted || signed_sum == wanted;
}

}  // namespace

Container recognise_container(Bytes start) {
  const std::string_view text = start_text(start);
  const auto has = [text](const Magic& magic) {
    return !magic.bytes.empty() && text.size() > magic.at &&
           text.substr(magic.at).starts_with(magic.bytes);
  };
  for (const ContainerRow& row : k_containers)
    if (std::any_of(std::begin(row.magics), std::end(row.magics), has)) return row.container;
  return is_tar(text) ? Container::tar : Container::none;
}

bool starts_with_zero_block(Bytes start) {
  const std::string_view text = start_text(start).substr(0, k_tar_block);
  return text.size() == k_tar_block && text.find_first_not_of('\0') == std::string_view::npos;
}

}  // namespace nodestage
