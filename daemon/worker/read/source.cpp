#include "daemon/worker/read/source.hpp"

#include <fcntl.h>

#include <algorithm>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <utility>

#include "common/text/human.hpp"
#include "daemon/worker/basis/task_crew.hpp"
#include "daemon/worker/read/opened_sources.hpp"

namespace nodestage {
namespace {

Error kind_fault(const std::string& path) {
  return fault(EINVAL, shown(path) + ": is a FIFO, a device or a socket",
               "Only regular files and directories can be staged");
}

Result<Fd> open_file(const std::string& path) {
  if (opened_items() == nullptr) return open_at(AT_FDCWD, path, k_open_source);
  Fd fd(::fcntl(opened_source(path), F_DUPFD_CLOEXEC, 0));
  if (!fd) return system_error(path, EACCES);
  return fd;
}

int stat_source(const std::string& path, struct stat& info) {
  return opened_items() != nullptr ? ::fstat(opened_source(path), &info)
                                   : ::stat(path.c_str(), &info);
}

Result<SourcePart> part_of(Fd fd, const std::string& path) {
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return open_fault(path, errno);
  if (!S_ISREG(info.st_mode)) return kind_fault(path);
  static_cast<void>(::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_SEQUENTIAL));
  return SourcePart{std::move(fd), path, info};
}

Result<SourcePart> open_part(const std::string& path) {
  auto fd = open_file(path);
  if (!fd) return open_fault(path, fd.error().code);
  return part_of(std::move(*fd), path);
}

Error read_fault(const std::string& path, int code) {
  return fault(code, shown(path) + ": cannot be read: " + std::strerror(code),
               advice_by_code(code,
                              "Test it: cat FILE > /dev/null; if that works, tell your "
                              "site's support"));
}

}  // namespace

Error open_fault(const std::string& path, int code) {
  const std::string file = shell_word(shown(path));
  std::string advice =
      "Is its file system mounted on this node? If it happens again, tell your site's support";
  if (code == ENOENT || code == ENOTDIR || code == ELOOP) advice = "Check the path: ls -l " + file;
  if (code == EACCES || code == EPERM)
    advice = "The job's user must be able to read it: namei -l " + file +
             " (if you can, its file system may require a ticket, as with Kerberos, that you have "
             "there and not on the node)";
  return fault(code, shown(path) + ": " + std::strerror(code),
               advice_by_code(code, advice.c_str()));
}

const char* advice_by_code(int code, const char* otherwise) {
  if (code == EMFILE) return k_raise_open_files;
  if (code != ENOKEY && code != EKEYEXPIRED && code != EKEYREVOKED && code != EKEYREJECTED)
    return otherwise;
  return "Its file system requires a ticket or token (Kerberos, AFS) that staging on a node does "
         "not have. Stage from another file system, or ask your site's support";
}

Result<struct stat> examine_source(const std::string& path) {
  struct stat info {};
  if (stat_source(path, info) != 0) return open_fault(path, errno);
  if (!S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode)) return kind_fault(path);
  return info;
}

Result<Fd> open_source_directory(const std::string& path) {
  auto fd = open_at(AT_FDCWD, path, O_PATH | O_DIRECTORY);
  if (!fd) return open_fault(path, fd.error().code);
  return fd;
}

// The relays of the parts of one file. Slots are few: a part's relay begins when the part is first
// read, and is closed when all of it was read, or when others need the slot. From then on, what is
// still read of it is the original's. For any thread.
class PartRelays {
 public:
  // Borrows all. Nothing before `offset` is read.
  PartRelays(std::span<const SourcePart> parts, ItemRelay& relay, std::uint64_t offset)
      : parts_(parts), relay_(relay), slots_(parts.size()) {
    for (std::size_t i = 0; i < parts.size(); ++i) {
      slots_[i].from = std::min(offset - std::min(offset, parts[i].begin), parts[i].size());
      slots_[i].left = parts[i].size() - slots_[i].from;
    }
  }
  PartRelays(const PartRelays&) = delete;
  PartRelays& operator=(const PartRelays&) = delete;
  ~PartRelays() { close(); }

  // While a thread reads from a part.
  class Turn {
   public:
    Turn(PartRelays& all, std::size_t part) : all_(all), part_(part), relayed_(all.enter(part)) {}
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn() { all_.leave(part_, read_); }
    [[nodiscard]] RelayedSource* relayed() const { return relayed_; }  // null: read the original
    void has_read(std::size_t bytes) { read_ = bytes; }

   private:
    PartRelays& all_;
    const std::size_t part_;
    RelayedSource* const relayed_;
    std::size_t read_ = 0;
  };

  // What threads still want is not waited for.
  void close() {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    for (Slot& slot : slots_) close(slot);
  }

 private:
  enum class State { unread, beginning, open, closed };
  struct Slot {
    State state = State::unread;
    std::unique_ptr<RelayedSource> relayed;
    std::size_t readers = 0;
    std::uint64_t from = 0;
    std::uint64_t left = 0;  // bytes that were not read yet
  };

  RelayedSource* enter(std::size_t part) {
    std::unique_lock lock(mutex_);
    Slot& slot = slots_[part];
    ++slot.readers;
    if (slot.state == State::unread) {
      slot.state = State::beginning;
      make_room(part);
      lock.unlock();  // others go on meanwhile: it can wait for their slots
      std::unique_ptr<RelayedSource> relayed;
      static_cast<void>(guarded([&] {  // without memory for it, too, the others must not wait
        const SourcePart& of = parts_[part];
        relayed = relay_.begin(of.path, of.fd.get(), of.info, slot.from, parts_.back().end());
      }));
      lock.lock();
      slot.relayed = std::move(relayed);
      slot.state = State::open;
      wants_room_before_ = 0;
      if (is_over_) close(slot);
      begun_.notify_all();
    }
    begun_.wait(lock, [&slot] { return slot.state != State::beginning; });
    return slot.state == State::open ? slot.relayed.get() : nullptr;
  }

  void leave(std::size_t part, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    Slot& slot = slots_[part];
    --slot.readers;
    slot.left -= std::min<std::uint64_t>(slot.left, bytes);
    const bool is_over = slot.left == 0 || part < wants_room_before_;
    if (is_over && slot.readers == 0) close(slot);
  }

  // Closes earlier parts that nobody reads from, if too many are open, or the next that is left.
  void make_room(std::size_t before) {
    const auto is_open = [](const Slot& slot) {
      return slot.state == State::open && slot.relayed != nullptr;
    };
    const auto end = slots_.begin() + static_cast<std::ptrdiff_t>(before);
    auto open = static_cast<std::size_t>(std::count_if(slots_.begin(), slots_.end(), is_open));
    for (auto slot = slots_.begin(); slot != end && open >= relay_.share(); ++slot) {
      if (!is_open(*slot) || slot->readers > 0) continue;
      close(*slot);
      --open;
    }
    if (open >= relay_.share()) wants_room_before_ = before;
  }

  void close(Slot& slot) {
    if (slot.state != State::open) return;
    slot.state = State::closed;
    if (slot.relayed) relay_.add(slot.relayed->close());
    if (slot.readers == 0) slot.relayed.reset();
  }

  const std::span<const SourcePart> parts_;
  ItemRelay& relay_;
  std::mutex mutex_;  // over what follows
  std::condition_variable begun_;
  std::vector<Slot> slots_;
  std::size_t wants_room_before_ = 0;  // of these parts, one is closed as soon as it can be
  bool is_over_ = false;
};

Source::Source(std::string path, std::vector<SourcePart> parts, Meter& meter)
    : path_(std::move(path)), parts_(std::move(parts)), info_(parts_.front().info), meter_(&meter) {
  info_.st_size = static_cast<off_t>(parts_.back().end());
  for (std::size_t i = 1; i < parts_.size(); ++i) info_.st_blocks += parts_[i].info.st_blocks;
}

Source::Source(Source&& other) noexcept = default;
Source& Source::operator=(Source&& other) noexcept = default;
Source::~Source() = default;

Result<Source> Source::open(const std::string& path, Meter& meter) {
  return join(path, {path}, meter);
}

Result<Source> Source::of_file(Fd fd, const std::string& path, Meter& meter) {
  std::vector<SourcePart> parts(1);
  TRY_ASSIGN(parts.front(), part_of(std::move(fd), path));
  return Source(path, std::move(parts), meter);
}

Result<Source> Source::join(const std::string& path, const std::vector<std::string>& parts,
                            Meter& meter) {
  std::vector<SourcePart> all;
  all.reserve(parts.size());
  for (const std::string& one : parts) {
    TRY_ASSIGN(SourcePart part, open_part(one));
    part.begin = all.empty() ? 0 : all.back().end();
    constexpr std::uint64_t k_most = std::numeric_limits<off_t>::max();
    if (part.size() > k_most - part.begin)
      return fault(EFBIG, shown(path) + ": its parts have more bytes than a file can have",
                   "Look at their sizes: ls -l " + shell_word(shown(one)));
    all.push_back(std::move(part));
  }
  return Source(path, std::move(all), meter);
}

void Source::begin_relay(ItemRelay& relay, std::uint64_t offset) {
  relay_ = &relay;
  if (is_joined()) {
    relays_ = std::make_unique<PartRelays>(parts_, relay, offset);
  } else {
    relayed_ = relay.begin(parts_.front().path, fd(), info_, offset);
  }
}

void Source::end_relay() {
  if (relays_) relays_->close();
  if (relayed_ && relay_ != nullptr) relay_->add(relayed_->close());
}

const SourcePart* Source::changed() const {
  for (const SourcePart& part : parts_)
    if (!is_unchanged(part.fd.get(), part.info)) return &part;
  return nullptr;
}

const SourcePart* Source::changed(const SettleRules& rules) const {
  for (const SourcePart& part : parts_)
    if (!has_held_still(part.fd.get(), part.info, rules)) return &part;
  return nullptr;
}

Result<std::size_t> Source::read(std::span<std::byte> into) {
  TRY_ASSIGN(const std::size_t bytes, read_at(position_, into));
  position_ += bytes;
  return bytes;
}

Result<std::size_t> Source::read_at(std::uint64_t offset, std::span<std::byte> into) const {
  static const std::atomic<bool> k_never = false;
  TRY_ASSIGN(const Fetched fetched, fetch_at(offset, into, k_never));
  meter_->count_relayed(fetched.relayed);
  TRY(meter_->count_read(fetched.bytes - fetched.relayed));
  return fetched.bytes;
}

Result<std::string> Source::text_at(std::uint64_t offset, std::uint64_t size) const {
  std::string text(size, '\0');
  TRY_ASSIGN(const std::size_t bytes, read_at(offset, std::as_writable_bytes(std::span(text))));
  text.resize(bytes);
  return text;
}

Result<Source::Fetched> Source::fetch_at(std::uint64_t offset, std::span<std::byte> into,
                                         const std::atomic<bool>& given_up) const {
  if (is_joined()) return fetch_joined(offset, into, given_up);
  return fetch_from(parts_.front(), relayed_.get(), offset, into, given_up);
}

// A part that became shorter ends it: what follows would be at a wrong place.
Result<Source::Fetched> Source::fetch_joined(std::uint64_t offset, std::span<std::byte> into,
                                             const std::atomic<bool>& given_up) const {
  Fetched all;
  const auto after =
      std::upper_bound(parts_.begin(), parts_.end(), offset,
                       [](std::uint64_t at, const SourcePart& part) { return at < part.begin; });
  for (auto part = after - 1; part != parts_.end() && all.bytes < into.size(); ++part) {
    const std::uint64_t at = offset + all.bytes;
    if (at >= part->end()) continue;
    const auto of_part =
        into.subspan(all.bytes, std::min<std::uint64_t>(into.size() - all.bytes, part->end() - at));
    TRY_ASSIGN(const Fetched fetched, fetch_part(static_cast<std::size_t>(part - parts_.begin()),
                                                 at - part->begin, of_part, given_up));
    all.bytes += fetched.bytes;
    all.relayed += fetched.relayed;
    if (fetched.bytes < of_part.size()) break;
  }
  return all;
}

Result<Source::Fetched> Source::fetch_part(std::size_t part, std::uint64_t offset,
                                           std::span<std::byte> into,
                                           const std::atomic<bool>& given_up) const {
  if (!relays_) return fetch_from(parts_[part], nullptr, offset, into, given_up);
  PartRelays::Turn turn(*relays_, part);
  TRY_ASSIGN(const Fetched fetched,
             fetch_from(parts_[part], turn.relayed(), offset, into, given_up));
  turn.has_read(fetched.bytes);
  return fetched;
}

Result<Source::Fetched> Source::fetch_from(const SourcePart& of, RelayedSource* relayed,
                                           std::uint64_t offset, std::span<std::byte> into,
                                           const std::atomic<bool>& given_up) const {
  if (relayed == nullptr) {
    TRY_ASSIGN(const std::size_t bytes, fetch_original(of, offset, into));
    return Fetched{bytes, 0};
  }
  const std::uint64_t rest = of.size() - std::min(offset, of.size());
  into = into.first(std::min<std::uint64_t>(into.size(), rest));
  Fetched fetched;
  while (fetched.bytes < into.size()) {
    const std::uint64_t at = offset + fetched.bytes;
    const auto part = into.subspan(fetched.bytes, relayed->part(into.size() - fetched.bytes));
    TRY_ASSIGN(const bool is_relayed, relayed->fetch(at, part, given_up));
    std::size_t bytes = part.size();
    if (is_relayed) {
      fetched.relayed += bytes;
    } else {
      TRY_ASSIGN(bytes, fetch_original(of, at, part));
      relayed->read_original(at, bytes);
    }
    fetched.bytes += bytes;
    if (bytes < part.size()) break;
  }
  return fetched;
}

Result<std::size_t> Source::fetch_original(const SourcePart& part, std::uint64_t offset,
                                           std::span<std::byte> into) const {
  auto count = pread_all(part.fd.get(), into, offset);
  if (!count) return read_fault(part.path, count.error().code);
  meter_->from_storage += *count;
  return count;
}

}  // namespace nodestage
