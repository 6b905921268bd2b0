#include "daemon/worker/tree/out_links.hpp"

#include <array>
#include <cerrno>
#include <cstdio>

#include "common/text/human.hpp"
#include "common/text/parsing.hpp"
#include "daemon/worker/basis/fault.hpp"

namespace nodestage {

bool leads_out(std::string_view text, std::size_t depth) {
  if (text.starts_with('/')) return true;
  while (!text.empty()) {
    const std::string_view name = take_part(text, '/');
    if (name.empty() || name == ".") continue;
    if (name != "..") {
      ++depth;
    } else if (depth-- == 0) {
      return true;
    }
  }
  return false;
}

bool leads_nowhere(int code) {
  return code == ENOENT || code == ENOTDIR || code == ELOOP || code == ENAMETOOLONG;
}

void OutLinks::add_kept(const std::string& path, const std::string& text) {
  kept_.add(shown(path) + " -> " + shown(text));
}

std::string OutLinks::note(LinksOut links, std::string_view key, std::uint64_t bytes) const {
  std::string text;
  const std::uint64_t kept = kept_.count();
  if (followed_ > 0)
    text = counted(followed_, "link that leads out of it is", "links that lead out of it are") +
           " followed";
  if (kept == 0) return text;
  if (!text.empty()) text += "; ";
  if (links == LinksOut::followed)
    return text +
           counted(kept, "link leads nowhere or back, and stays one",
                   "links lead nowhere or back, and stay links") +
           ", such as " + kept_.first();
  if (bytes == 0) text += "no byte of data is in it: ";
  return text + counted(kept, "link leads", "links lead") + " out of it, such as " + kept_.first() +
         " (" + std::string(key) + " takes what they point to)";
}

namespace {

std::string octal(mode_t mode) {
  std::array<char, 8> digits{};
  std::snprintf(digits.data(), digits.size(), "%03o", mode & 0777U);
  return digits.data();
}

}  // namespace

void UnreadableEntries::look_at(const std::string& path, mode_t mode) {
  const mode_t needed = S_ISDIR(mode) ? S_IRUSR | S_IXUSR : S_IRUSR;
  if ((mode & needed) != needed) found_.add(shown(path) + " (mode " + octal(mode) + ")");
}

std::string UnreadableEntries::note() const {
  const auto count = found_.count();
  if (count == 0) return {};
  return counted(count, "entry has", "entries have") +
         " a mode that keeps you from reading, such as " + found_.first();
}

}  // namespace nodestage
