#include "daemon/root/jobs/early_notes.hpp"

namespace nodestage {
namespace {

// The first node's prolog can be the last.
constexpr std::chrono::seconds k_age{300};
constexpr std::size_t k_max_bytes = 16 << 20;

}  // namespace

void EarlyNotes::drop_old() {
  const auto now = loop_.now();
  std::erase_if(notes_, [&](const auto& item) {
    const bool old = now - item.second.came > k_age;
    if (old) bytes_ -= item.second.bytes;
    return old;
  });
}

void EarlyNotes::keep(const PeerNote& note) {
  drop_old();
  const std::pair<JobKey, std::string> from{{note.job, note.restart}, note.from};
  const std::size_t bytes = encode_peer_note(note).size();
  Early& kept = notes_[from];
  if (kept.note.sequence >= note.sequence) return;
  bytes_ -= kept.bytes;
  if (bytes_ + bytes > k_max_bytes) {
    notes_.erase(from);
    return;
  }
  bytes_ += bytes;
  kept = {note, bytes, loop_.now()};
}

std::vector<PeerNote> EarlyNotes::take(const JobKey& key) {
  std::vector<PeerNote> notes;
  for (auto item = notes_.lower_bound({key, ""});
       item != notes_.end() && item->first.first == key;) {
    notes.push_back(std::move(item->second.note));
    bytes_ -= item->second.bytes;
    item = notes_.erase(item);
  }
  return notes;
}

}  // namespace nodestage
