#include "daemon/worker/image/fuse_session.hpp"

#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "daemon/worker/basis/fault.hpp"

namespace nodestage {
namespace {

constexpr std::uint64_t k_for_ever_s = 10ULL * 365 * 24 * 3600;
// Requests are short: the longest has a name. The kernel wants room for the largest write.
constexpr std::uint32_t k_max_write = 4096;
constexpr std::size_t k_request_bytes = 64 * 1024;
constexpr std::uint16_t k_max_background = 64;  // requests that nobody waits for: reading ahead
constexpr std::uint32_t k_wanted = FUSE_ASYNC_READ | FUSE_PARALLEL_DIROPS | FUSE_DO_READDIRPLUS |
                                   FUSE_READDIRPLUS_AUTO | FUSE_NO_OPEN_SUPPORT |
                                   FUSE_NO_OPENDIR_SUPPORT | FUSE_CACHE_SYMLINKS | FUSE_MAX_PAGES;

std::size_t page_bytes() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

// The largest reply. The kernel asks for no more pages at once than it is told, and an older one
// for 32 of them; it would take a shorter reply for the end of the file.
std::size_t reply_bytes() { return std::max<std::size_t>(1 << 20, 32 * page_bytes()); }

// The kernel's number of an inode: 1 is the root, and 0 is none, while the first inode of an image
// has the number 0.
constexpr std::uint64_t k_root_number = FUSE_ROOT_ID;
constexpr std::uint64_t k_first_number = FUSE_ROOT_ID + 1;

// What all threads of one session share.
struct Session {
  const int fd;
  const ImageOwner owner;
  const OnImageFault& on_fault;
  std::atomic<std::uint32_t> kernel_flags = 0;
  std::mutex mutex = {};
  std::optional<Error> fault = {};  // the first one of the image
};

// One thread of a session.
class Answers {
 public:
  // Without an image: see ImageSession::answer_without().
  Answers(Session& session, std::optional<SquashImage> image)
      : session_(session),
        image_(std::move(image)),
        request_(std::make_unique_for_overwrite<std::byte[]>(k_request_bytes)),
        reply_(std::make_unique_for_overwrite<std::byte[]>(reply_bytes())) {}

  // Returns once the file system is unmounted. A fault: it was none.
  Status serve() {
    while (true) {
      TRY_ASSIGN(const Next next, answer_next());
      if (next == Next::unmounted) return {};
      if (next == Next::none) wait();
    }
  }

  enum class Next { answered, none, unmounted };
  Result<Next> answer_next() {
    const ssize_t got = ::read(session_.fd, request_.get(), k_request_bytes);
    if (got >= static_cast<ssize_t>(sizeof head_)) {
      std::memcpy(&head_, request_.get(), sizeof head_);
      body_ = Bytes(request_.get(), static_cast<std::size_t>(got)).subspan(sizeof head_);
      answer();
      return Next::answered;
    }
    if (got >= 0 || errno == ENODEV || errno == EPERM) return Next::unmounted;  // or never mounted
    if (errno == EAGAIN) return Next::none;
    // ENOENT: its process gave the request up; ENOMEM passes.
    if (errno == EINTR || errno == ENOENT || errno == ENOMEM) return Next::answered;
    return system_error("reading the kernel's requests");
  }

 private:
  void wait() const {
    pollfd entry{session_.fd, POLLIN, 0};
    static_cast<void>(::poll(&entry, 1, -1));
  }

  void answer() {
    switch (head_.opcode) {
      case FUSE_FORGET:
      case FUSE_BATCH_FORGET:
      case FUSE_INTERRUPT:
      case FUSE_DESTROY:
        return;  // without a reply
    }
    size_ = 0;
    const int code = fill_or_fail();
    if (code != 0) size_ = 0;
    fuse_out_header out{};
    out.len = static_cast<std::uint32_t>(sizeof out + size_);
    out.error = -code;
    out.unique = head_.unique;
    const iovec parts[] = {{&out, sizeof out}, {reply_.get(), size_}};
    static_cast<void>(!::writev(session_.fd, parts, size_ == 0 ? 1 : 2));  // or it was given up
  }

  // Returns an errno value; 0: the reply is complete.
  int fill() {
    if (!image_) return fill_without();
    image_->begin_request();
    switch (head_.opcode) {
      case FUSE_INIT:
        return greet();
      case FUSE_LOOKUP:
        return look_up();
      case FUSE_GETATTR:
        return attributes();
      case FUSE_READLINK:
        return link_text();
      case FUSE_OPEN:
        return open(FUSE_NO_OPEN_SUPPORT, FOPEN_KEEP_CACHE);
      case FUSE_OPENDIR:
        return open(FUSE_NO_OPENDIR_SUPPORT, FOPEN_KEEP_CACHE | FOPEN_CACHE_DIR);
      case FUSE_READ:
        return read();
      case FUSE_READDIR:
        return list<fuse_dirent>();
      case FUSE_READDIRPLUS:
        return list<fuse_direntplus>();
      case FUSE_STATFS:
        return totals();
      case FUSE_RELEASE:
      case FUSE_RELEASEDIR:
        return 0;
      default:  // of the kernel's numbers, which become more; writing is refused by the mount
        return ENOSYS;
    }
  }

  int fill_or_fail() {
    try {
      return fill();
    } catch (const std::bad_alloc&) {
      return ENOMEM;
    }
  }

  int fill_without() {
    fuse_attr_out root{};
    root.attr.ino = k_root_number;
    root.attr.mode = S_IFDIR | S_IRUSR | S_IXUSR;
    root.attr.nlink = 1;
    root.attr.uid = session_.owner.uid;
    root.attr.gid = session_.owner.gid;
    switch (head_.opcode) {
      case FUSE_INIT:
        return greet();
      case FUSE_GETATTR:
        return reply(root);
      case FUSE_STATFS:
        return reply(fuse_statfs_out{});
      default:  // of the kernel's numbers
        return EAGAIN;
    }
  }

  template <typename Record>
  int reply(const Record& record) {
    std::memcpy(reply_.get(), &record, sizeof record);
    size_ = sizeof record;
    return 0;
  }

  // What a request has behind its header. A newer kernel's may be longer, and an older one's
  // shorter.
  template <typename Record>
  [[nodiscard]] Record body() const {
    Record record{};
    std::memcpy(&record, body_.data(), std::min(sizeof record, body_.size()));
    return record;
  }

  // A fault of the image.
  int code_of(const Error& error) {
    if (error.code == ENOTDIR || error.code == EINVAL) return error.code;
    const std::lock_guard lock(session_.mutex);
    if (!session_.fault) session_.on_fault(session_.fault.emplace(error));
    return EIO;
  }

  Result<ImageNode> node() {
    return image_->node(head_.nodeid == k_root_number ? image_->root()
                                                      : head_.nodeid - k_first_number);
  }

  [[nodiscard]] std::uint64_t number_of(const ImageNode& node) const {
    return node.id == image_->root() ? k_root_number : node.id + k_first_number;
  }

  int greet() {
    const auto in = body<fuse_init_in>();
    fuse_init_out out{};
    out.major = FUSE_KERNEL_VERSION;
    out.minor = std::min<std::uint32_t>(in.minor, FUSE_KERNEL_MINOR_VERSION);
    out.max_readahead = in.max_readahead;
    out.flags = in.flags & k_wanted;
    out.max_background = k_max_background;
    out.congestion_threshold = k_max_background;
    out.max_write = k_max_write;
    out.time_gran = 1'000'000'000;  // an image's times are whole seconds
    out.max_pages = static_cast<std::uint16_t>(reply_bytes() / page_bytes());
    session_.kernel_flags = in.flags;
    return in.major == FUSE_KERNEL_VERSION ? reply(out) : EPROTO;
  }

  [[nodiscard]] std::uint32_t mode_of(const ImageNode& node) const {
    if (S_ISLNK(node.mode)) return S_IFLNK | 0777;
    std::uint32_t mode = (node.mode & S_IFMT) | (node.mode & 0555) | S_IRUSR;
    const bool is_entered = S_ISDIR(mode) || (mode & 0111) != 0;
    return is_entered ? mode | S_IXUSR : mode;
  }

  [[nodiscard]] fuse_attr attributes_of(const ImageNode& node) const {
    fuse_attr attr{};
    attr.ino = node.number;
    attr.size = node.size;
    attr.blocks = (node.size + 511) / 512;
    attr.atime = attr.mtime = attr.ctime = node.mtime;
    attr.mode = mode_of(node);
    attr.nlink = S_ISDIR(node.mode) ? std::max(node.links, 2U) : node.links;
    attr.uid = session_.owner.uid;
    attr.gid = session_.owner.gid;
    attr.rdev = node.device;
    attr.blksize = image_->totals().block_size;
    return attr;
  }

  [[nodiscard]] fuse_entry_out entry_of(const ImageNode& node) const {
    fuse_entry_out out{};
    out.nodeid = number_of(node);
    out.entry_valid = out.attr_valid = k_for_ever_s;
    out.attr = attributes_of(node);
    return out;
  }

  int look_up() {
    const auto directory = node();
    if (!directory) return code_of(directory.error());
    const auto* text = reinterpret_cast<const char*>(body_.data());
    const std::string_view name(text, ::strnlen(text, body_.size()));
    const auto found = image_->find(*directory, name);
    if (!found) return code_of(found.error());
    if (!*found) {  // the kernel keeps this, too
      fuse_entry_out none{};
      none.entry_valid = k_for_ever_s;
      return reply(none);
    }
    const auto child = image_->node(**found);
    return child ? reply(entry_of(*child)) : code_of(child.error());
  }

  int attributes() {
    const auto it = node();
    if (!it) return code_of(it.error());
    fuse_attr_out out{};
    out.attr_valid = k_for_ever_s;
    out.attr = attributes_of(*it);
    return reply(out);
  }

  int link_text() {
    const auto it = node();
    if (!it) return code_of(it.error());
    const auto text = image_->link_text(*it);
    if (!text) return code_of(text.error());
    std::memcpy(reply_.get(), text->data(), text->size());
    size_ = text->size();
    return 0;
  }

  int open(std::uint32_t flag_without, std::uint32_t flags) {
    if ((session_.kernel_flags & flag_without) != 0) return ENOSYS;
    fuse_open_out out{};
    out.open_flags = flags;
    return reply(out);
  }

  int read() {
    const auto in = body<fuse_read_in>();
    const auto file = node();
    if (!file) return code_of(file.error());
    const std::size_t most = std::min<std::size_t>(in.size, reply_bytes());
    const auto got = image_->read(*file, in.offset, {reply_.get(), most});
    if (!got) return code_of(got.error());
    size_ = *got;
    return 0;
  }

  static fuse_dirent& dirent_of(fuse_dirent& record) { return record; }
  static fuse_dirent& dirent_of(fuse_direntplus& record) { return record.dirent; }

  // Adds an entry to a list. Returns false if there is no room for it.
  template <typename Record>
  bool add(std::size_t most, Record record, std::string_view name, std::uint64_t offset) {
    fuse_dirent& entry = dirent_of(record);
    entry.off = offset;
    entry.namelen = static_cast<std::uint32_t>(name.size());
    const std::size_t head = sizeof(Record);
    const std::size_t whole = FUSE_REC_ALIGN(head + name.size());
    if (whole > most - size_) return false;
    std::byte* at = reply_.get() + size_;
    std::memset(at + whole - sizeof(std::uint64_t), 0, sizeof(std::uint64_t));
    std::memcpy(at, &record, head);
    std::memcpy(at + head, name.data(), name.size());
    size_ += whole;
    return true;
  }

  template <typename Record>
  static Record record_of(std::uint64_t ino, std::uint32_t mode) {
    Record record{};
    dirent_of(record).ino = ino;
    dirent_of(record).type = mode >> 12;
    return record;
  }

  // "." and ".." come first; then an offset is two more than a position in the directory. The
  // kernel wants no attributes of these two.
  template <typename Record>
  int list() {
    const auto in = body<fuse_read_in>();
    const auto directory = node();
    if (!directory) return code_of(directory.error());
    const std::size_t most = std::min<std::size_t>(in.size, reply_bytes());
    const std::uint64_t up = head_.nodeid == k_root_number ? directory->number : directory->parent;
    if (in.offset < 1 && !add(most, record_of<Record>(directory->number, S_IFDIR), ".", 1))
      return 0;
    if (in.offset < 2 && !add(most, record_of<Record>(up, S_IFDIR), "..", 2)) return 0;
    const Status listed =
        image_->list(*directory, in.offset < 2 ? 0 : in.offset - 2, [&](const ImageEntry& entry) {
          auto record = record_of<Record>(entry.number, entry.mode);
          if constexpr (std::is_same_v<Record, fuse_direntplus>) {
            // One that is damaged has its name alone, without an inode for the kernel.
            const auto child = image_->node(entry.id);
            if (child)
              record.entry_out = entry_of(*child);
            else
              static_cast<void>(code_of(child.error()));
          }
          return add(most, record, entry.name, entry.next + 2);
        });
    return listed ? 0 : code_of(listed.error());
  }

  int totals() {
    const ImageTotals totals = image_->totals();
    fuse_statfs_out out{};
    out.st.bsize = out.st.frsize = totals.block_size;
    out.st.blocks = (totals.bytes + totals.block_size - 1) / totals.block_size;
    out.st.files = totals.inodes;
    out.st.namelen = k_max_image_name;
    return reply(out);
  }

  Session& session_;
  std::optional<SquashImage> image_;
  std::unique_ptr<std::byte[]> request_;
  std::unique_ptr<std::byte[]> reply_;
  fuse_in_header head_{};
  Bytes body_;
  std::size_t size_ = 0;  // of the reply
};

}  // namespace

bool ImageSession::answer_without(int wake_fd, std::chrono::milliseconds time) {
  const int flags = ::fcntl(fd_, F_GETFL);
  ::fcntl(fd_, F_SETFL, flags | O_NONBLOCK);  // a request can be given up before it is read
  const OnImageFault nobody;
  Session session{fd_, owner_, nobody};
  session.kernel_flags = kernel_flags_;
  Answers answers(session, std::nullopt);
  const auto end = std::chrono::steady_clock::now() + time;
  bool is_mounted = true;
  for (pollfd entries[] = {{fd_, POLLIN, 0}, {wake_fd, POLLIN, 0}}; is_mounted;) {
    const auto next = answers.answer_next();
    is_mounted = next && *next != Answers::Next::unmounted;
    if (!is_mounted || *next == Answers::Next::answered) continue;
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    if (left.count() <= 0 || ::poll(entries, 2, static_cast<int>(left.count())) <= 0) break;
    if (entries[1].revents != 0) break;
  }
  kernel_flags_ = session.kernel_flags;
  ::fcntl(fd_, F_SETFL, flags);
  return is_mounted;
}

Status ImageSession::serve(const SquashImage& image, unsigned threads,
                           const OnImageFault& on_fault) {
  Session session{fd_, owner_, on_fault};
  session.kernel_flags = kernel_flags_;
  const auto serve = [&session, &image]() -> Status {
    try {
      return Answers(session, image.another()).serve();
    } catch (const std::bad_alloc&) {
      return Error{ENOMEM, "no memory is left for another thread"};
    }
  };
  std::vector<std::thread> others;
  try {
    for (unsigned i = 1; i < threads; ++i)
      others.emplace_back([&serve] { static_cast<void>(serve()); });
  } catch (const std::system_error&) {  // no more can be started
  }
  Status served = serve();
  for (std::thread& other : others) other.join();
  return session.fault ? Status(std::move(*session.fault)) : served;
}

}  // namespace nodestage
