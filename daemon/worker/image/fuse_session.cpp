#include "daemon/worker/image/fuse_session.hpp"

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
#include <optional>
#include <span>
#include <string>
#include <string_view>
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
  const std::string& name;
  const ImageOwner owner;
  std::atomic<std::uint32_t> kernel_flags = 0;
  std::atomic<bool> has_logged = false;
};

// One thread of a session.
class Answers {
 public:
  Answers(Session& session, SquashImage image)
      : session_(session),
        image_(std::move(image)),
        request_(std::make_unique_for_overwrite<std::byte[]>(k_request_bytes)),
        reply_(std::make_unique_for_overwrite<std::byte[]>(reply_bytes())) {}

  // Returns once the file system is unmounted. A fault: it was none.
  Status serve() {
    while (true) {
      const ssize_t got = ::read(session_.fd, request_.get(), k_request_bytes);
      if (got >= static_cast<ssize_t>(sizeof head_)) {
        std::memcpy(&head_, request_.get(), sizeof head_);
        body_ = Bytes(request_.get(), static_cast<std::size_t>(got)).subspan(sizeof head_);
        answer();
      } else if (got >= 0 || errno == ENODEV || errno == EPERM) {
        return {};  // unmounted; EPERM: not even mounted
      } else if (errno == EAGAIN) {
        wait();
      } else if (errno != EINTR && errno != ENOENT) {  // ENOENT: its process gave the request up
        return system_error("reading the kernel's requests");
      }
    }
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
    const int code = fill();
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
    if (!session_.has_logged.exchange(true)) log_line(session_.name + ": " + error.text());
    return EIO;
  }

  Result<ImageNode> node() {
    return image_.node(head_.nodeid == k_root_number ? image_.root()
                                                     : head_.nodeid - k_first_number);
  }

  [[nodiscard]] std::uint64_t number_of(const ImageNode& node) const {
    return node.id == image_.root() ? k_root_number : node.id + k_first_number;
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
    attr.nlink = node.links;
    attr.uid = session_.owner.uid;
    attr.gid = session_.owner.gid;
    attr.rdev = node.device;
    attr.blksize = image_.totals().block_size;
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
    const auto found = image_.find(*directory, name);
    if (!found) return code_of(found.error());
    if (!*found) {  // the kernel keeps this, too
      fuse_entry_out none{};
      none.entry_valid = k_for_ever_s;
      return reply(none);
    }
    const auto child = image_.node(**found);
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
    const auto text = image_.link_text(*it);
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
    const auto got = image_.read(*file, in.offset, {reply_.get(), most});
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
    std::optional<Error> wrong;
    const Status listed =
        image_.list(*directory, in.offset < 2 ? 0 : in.offset - 2, [&](const ImageEntry& entry) {
          auto record = record_of<Record>(entry.number, entry.mode);
          if constexpr (std::is_same_v<Record, fuse_direntplus>) {
            const auto child = image_.node(entry.id);
            if (!child) wrong = child.error();
            if (!child) return false;
            record.entry_out = entry_of(*child);
          }
          return add(most, record, entry.name, entry.next + 2);
        });
    if (!listed) return code_of(listed.error());
    return wrong ? code_of(*wrong) : 0;
  }

  int totals() {
    const ImageTotals totals = image_.totals();
    fuse_statfs_out out{};
    out.st.bsize = out.st.frsize = totals.block_size;
    out.st.blocks = (totals.bytes + totals.block_size - 1) / totals.block_size;
    out.st.files = totals.inodes;
    out.st.namelen = k_max_image_name;
    return reply(out);
  }

  Session& session_;
  SquashImage image_;
  std::unique_ptr<std::byte[]> request_;
  std::unique_ptr<std::byte[]> reply_;
  fuse_in_header head_{};
  Bytes body_;
  std::size_t size_ = 0;  // of the reply
};

}  // namespace

Status serve_image(int fuse_fd, const SquashImage& image, const std::string& name, ImageOwner owner,
                   unsigned threads) {
  Session session{fuse_fd, name, owner};
  std::vector<std::thread> others;
  for (unsigned i = 1; i < threads; ++i)
    others.emplace_back(
        [&session, &image] { static_cast<void>(Answers(session, image.another()).serve()); });
  Status served = Answers(session, image.another()).serve();
  for (std::thread& other : others) other.join();
  return served;
}

}  // namespace nodestage
