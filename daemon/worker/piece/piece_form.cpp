#include "daemon/worker/piece/piece_form.hpp"

#include <sys/stat.h>

#include <vector>

#include "common/os/file.hpp"
#include "common/text/human.hpp"
#include "daemon/worker/tree/directory_listing.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_look_block = std::size_t{1} << 20;

}  // namespace

std::string left_out_note(std::uint64_t count, const Skipped& what) {
  if (count == 0) return "";
  return human_count(count) + " " + (count == 1 ? what.one : what.many) + " left out";
}

void PieceForm::add_note(const std::string& text) {
  if (text.empty()) return;
  if (!note.empty()) note += "; ";
  note += text;
}

void PieceForm::add_skipped(std::uint64_t count, const Skipped& what) {
  add_note(left_out_note(count, what));
}

void PieceForm::begin_relay(std::uint64_t offset) {
  if (relay == nullptr) return;
  source->relay(relay->begin(path, source->fd(), source->info(), offset));
}

Status PieceForm::look_plainly(const LookTime& time, PieceLook& look) {
  std::vector<std::byte> block(k_look_block);
  while (!look.is_whole && time.is_left()) {
    TRY_ASSIGN(const std::size_t count, source->read(block));
    look.is_whole = count < block.size();
  }
  look.position = source->position();
  return {};
}

Result<Fd> make_directory(const PieceContext& place) {
  TRY(place.space.will_make());
  if (::mkdirat(place.dir_fd, place.name.c_str(), 0777) != 0)
    return place.space.explain(place.name, errno);
  auto fd = open_directory_at(place.dir_fd, place.name);
  if (!fd) return place.space.explain(place.name, fd.error().code);
  return fd;
}

std::string entry_keys_of(const Unpacking& wanted, bool with_globs) {
  std::vector<std::string> keys;
  if (wanted.strip > 0) keys.emplace_back("strip=");
  if (with_globs && !wanted.include.empty()) keys.emplace_back("include=");
  if (with_globs && !wanted.exclude.empty()) keys.emplace_back("exclude=");
  std::string text;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (i > 0) text += i + 1 == keys.size() ? " and " : ", ";
    text += keys[i];
  }
  return text;
}

Status check_taken(const std::string& path, const Unpacking& wanted, std::uint64_t seen,
                   std::uint64_t taken, const std::string& advice) {
  if (seen == 0 || taken > 0) return {};
  const std::string keys = entry_keys_of(wanted);
  const bool is_one = keys.find(' ') == std::string::npos;
  return fault(ENOENT,
               shown(path) + ": " + keys + (is_one ? " leaves" : " leave") + " nothing of it",
               advice);
}

}  // namespace nodestage
