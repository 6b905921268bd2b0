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

// The old binary form has a magic of only two bytes, so the name must look like one, too.
bool is_binary_cpio(std::string_view start) {
  if (start.size() < 28) return false;
  const bool little = start.starts_with("\xc7\x71");
  if (!little && !start.starts_with("\x71\xc7")) return false;
  const auto word = [&](std::size_t at) {
    const auto low = static_cast<unsigned char>(start[little ? at : at + 1]);
    const auto high = static_cast<unsigned char>(start[little ? at + 1 : at]);
    return static_cast<unsigned>(high << 8 | low);
  };
  const std::size_t name_size = word(20);
  if (name_size < 2 || name_size > 4096) return false;
  const std::string_view name = start.substr(26, name_size);
  return name.find('\0') == (name.size() == name_size ? name_size - 1 : std::string_view::npos);
}

bool is_ascii_cpio(std::string_view start) {
  const auto digits = [&](std::string_view allowed) {
    const std::string_view fields = start.substr(6, 64);
    return fields.size() == 64 && fields.find_first_not_of(allowed) == std::string_view::npos;
  };
  if (start.starts_with("070707")) return digits("01234567");
  return (start.starts_with("070701") || start.starts_with("070702")) &&
         digits("0123456789abcdefABCDEF");
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
  if (is_ascii_cpio(text) || is_binary_cpio(text)) return Container::cpio;
  return is_tar(text) ? Container::tar : Container::none;
}

bool starts_with_zero_block(Bytes start) {
  const std::string_view text = start_text(start).substr(0, k_tar_block);
  return text.size() == k_tar_block && text.find_first_not_of('\0') == std::string_view::npos;
}

}  // namespace nodestage
