#include "daemon/worker/archive/archive_fault.hpp"

#include <algorithm>
#include <span>
#include <string_view>

#include "common/text/human.hpp"

namespace nodestage {
namespace {

// Parts of libarchive's texts, which differ from format to format and from release to release.
constexpr std::string_view k_of_passwords[] = {"password", "ncrypt", "assphrase"};
constexpr std::string_view k_of_methods[] = {"upport", "codec ID", "unavailable"};

bool has_any(std::string_view text, std::span<const std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(), [text](std::string_view part) {
    return text.find(part) != std::string_view::npos;
  });
}

}  // namespace

Error archive_fault(const std::string& path, Container container, const std::string& cause) {
  const std::string start = shown(path) + ": ";
  if (has_any(cause, k_of_passwords)) return password_fault(start);
  if (has_any(cause, k_of_methods)) {
    const std::string kind(row_of(container).name);
    return fault(0, start + "uses a method of " + kind + " that is not supported (" + cause + ")",
                 "Extract it once with the program that made it, and pack the result: nodestage "
                 "pack DIR -o DIR.tar.zst");
  }
  return fault(0, start + "damaged or cut off: " + (cause.empty() ? "invalid data" : cause),
               "Make or transfer it again. Test it with: " + std::string(row_of(container).test) +
                   " " + shell_word(shown(path)));
}

}  // namespace nodestage
