#include "daemon/worker/archive/cpio_header.hpp"

namespace nodestage {
namespace {

using namespace std::string_view_literals;

constexpr std::size_t k_magic_digits = 6;

unsigned value_of(char digit) {
  if (digit >= '0' && digit <= '9') return static_cast<unsigned>(digit - '0');
  if (digit >= 'a' && digit <= 'f') return static_cast<unsigned>(digit - 'a') + 10;
  if (digit >= 'A' && digit <= 'F') return static_cast<unsigned>(digit - 'A') + 10;
  return 16;
}

// Reads fields of digits, one after another.
class Digits {
 public:
  Digits(std::string_view text, unsigned base) : text_(text), base_(base) {}

  std::uint64_t take(std::size_t digits) {
    std::uint64_t value = 0;
    for (const char c : text_.substr(0, digits)) {
      const unsigned digit = value_of(c);
      if (digit >= base_) is_right_ = false;
      value = value * base_ + digit;
    }
    text_.remove_prefix(digits);
    return value;
  }
  [[nodiscard]] bool is_right() const { return is_right_; }

 private:
  std::string_view text_;
  unsigned base_;
  bool is_right_ = true;
};

std::optional<CpioHeader> newc_header(std::string_view header) {
  Digits digits(header.substr(k_magic_digits), 16);
  CpioHeader read;
  read.inode = digits.take(8);
  read.mode = digits.take(8);
  digits.take(16);  // uid, gid
  read.links = digits.take(8);
  read.mtime = digits.take(8);
  read.size = digits.take(8);
  read.device = digits.take(16);
  digits.take(16);  // rdev
  read.name_size = digits.take(8);
  const std::uint64_t checksum = digits.take(8);
  if (header.starts_with("070702"sv)) read.checksum = checksum;
  return digits.is_right() ? std::optional(read) : std::nullopt;
}

std::optional<CpioHeader> odc_header(std::string_view header) {
  Digits digits(header.substr(k_magic_digits), 8);
  CpioHeader read;
  read.device = digits.take(6);
  read.inode = digits.take(6);
  read.mode = digits.take(6);
  digits.take(12);  // uid, gid
  read.links = digits.take(6);
  digits.take(6);  // rdev
  read.mtime = digits.take(11);
  read.name_size = digits.take(6);
  read.size = digits.take(11);
  return digits.is_right() ? std::optional(read) : std::nullopt;
}

CpioHeader bin_header(CpioForm form, std::string_view header) {
  const auto word = [&](std::size_t number) {
    const auto first = static_cast<unsigned char>(header[2 * number]);
    const auto second = static_cast<unsigned char>(header[2 * number + 1]);
    return form == CpioForm::bin_little ? std::uint64_t{second} << 8U | first
                                        : std::uint64_t{first} << 8U | second;
  };
  CpioHeader read;
  read.device = word(1);
  read.inode = word(2);
  read.mode = word(3);
  read.links = word(6);
  read.mtime = word(8) << 16U | word(9);
  read.name_size = word(10);
  read.size = word(11) << 16U | word(12);
  return read;
}

}  // namespace

CpioForm cpio_form(std::string_view start) {
  if (start.starts_with("070701"sv) || start.starts_with("070702"sv)) return CpioForm::newc;
  if (start.starts_with("070707"sv)) return CpioForm::odc;
  if (start.starts_with("\xc7\x71"sv)) return CpioForm::bin_little;
  return start.starts_with("\x71\xc7"sv) ? CpioForm::bin_big : CpioForm::none;
}

std::optional<CpioHeader> cpio_header(CpioForm form, std::string_view header) {
  if (form == CpioForm::none || cpio_form(header) != form) return std::nullopt;
  if (form == CpioForm::newc) return newc_header(header);
  return form == CpioForm::odc ? odc_header(header) : bin_header(form, header);
}

}  // namespace nodestage
