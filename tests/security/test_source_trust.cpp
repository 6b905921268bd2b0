// Attack: what a user hands over as a source to keep for all is a file of a file system that the
// user controls, or of the kernel's; or the process that opens the sources is stopped halfway.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "../unit/scratch.hpp"
#include "daemon/worker/read/opened_sources.hpp"
#include "daemon/worker/share/source_trust.hpp"

using namespace nodestage;
namespace fs = std::filesystem;

namespace {

// Whether this process can mount, where nobody else sees it.
bool has_own_mounts() {
  static const bool has = ::geteuid() == 0 && ::unshare(CLONE_NEWNS) == 0 &&
                          ::mount("", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
  if (!has) MESSAGE("skipped: it mounts, which needs root");
  return has;
}

class Mounted {
 public:
  Mounted(const char* type, std::string path, const std::string& options, unsigned long flags = 0)
      : path_(std::move(path)) {
    REQUIRE(::mount("of-a-user", path_.c_str(), type, flags, options.c_str()) == 0);
  }
  Mounted(const Mounted&) = delete;
  Mounted& operator=(const Mounted&) = delete;
  ~Mounted() { ::umount2(path_.c_str(), MNT_FORCE | MNT_DETACH); }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// A file whose server is an ordinary user's, which notes what it is asked.
class FuseFile {
 public:
  explicit FuseFile(const std::string& path) : device_(::open("/dev/fuse", O_RDWR | O_CLOEXEC)) {
    REQUIRE(device_);
    std::ofstream(path) << "below";
    mounted_.emplace("fuse", path,
                     "fd=" + std::to_string(device_.get()) +
                         ",rootmode=100644,user_id=65534,group_id=65534,allow_other",
                     MS_NOSUID | MS_NODEV);
    server_ = std::thread([this] { serve(); });
  }
  FuseFile(const FuseFile&) = delete;
  FuseFile& operator=(const FuseFile&) = delete;
  ~FuseFile() {
    mounted_.reset();  // ends the server's reads
    server_.join();
  }
  [[nodiscard]] std::multiset<std::uint32_t> asked() {
    const std::lock_guard lock(mutex_);
    return asked_;
  }

 private:
  void serve() {
    alignas(8) char request[FUSE_MIN_READ_BUFFER];
    while (::read(device_.get(), request, sizeof request) > 0) {
      fuse_in_header head{};
      std::memcpy(&head, request, sizeof head);
      {
        const std::lock_guard lock(mutex_);
        asked_.insert(head.opcode);
      }
      if (head.opcode == FUSE_INIT) {
        answer(head, fuse_init_out{.major = FUSE_KERNEL_VERSION, .minor = 31, .max_write = 4096});
      } else if (head.opcode == FUSE_OPEN) {
        answer(head, fuse_open_out{});
      } else if (head.opcode != FUSE_FORGET) {
        const fuse_out_header refusal{sizeof refusal, -ENOSYS, head.unique};
        static_cast<void>(!::write(device_.get(), &refusal, sizeof refusal));
      }
    }
  }
  template <typename Body>
  void answer(const fuse_in_header& to, const Body& body) {
    struct {
      fuse_out_header head;
      Body body;
    } all{{sizeof(fuse_out_header) + sizeof body, 0, to.unique}, body};
    static_cast<void>(!::write(device_.get(), &all, sizeof all));
  }

  Fd device_;
  std::optional<Mounted> mounted_;
  std::mutex mutex_;
  std::multiset<std::uint32_t> asked_;
  std::thread server_;
};

struct Ends {
  Ends() {
    int both[2] = {-1, -1};
    REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, both) == 0);
    user = Fd(both[0]);
    keeper = Fd(both[1]);
  }
  [[nodiscard]] std::size_t received(const std::vector<std::uint32_t>& only = {}) const {
    const auto items = receive_items(keeper.get(), is_of_the_site, only);
    REQUIRE(items);
    return items->size();
  }
  Fd user;
  Fd keeper;
};

// Returns whether the keeper takes a file of which the user has a descriptor.
bool is_taken(const std::string& path, int fd) {
  Ends ends;
  REQUIRE(hand_over(ends.user.get(), 0, path, fd));
  REQUIRE(end_item(ends.user.get(), 0, false));
  ends.user.reset();
  return ends.received() == 1;
}

bool is_taken(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  REQUIRE(fd);
  return is_taken(path, fd.get());
}

bool is_on_ext4(const std::string& path) {
  struct statfs system {};
  return ::statfs(path.c_str(), &system) == 0 && system.f_type == 0xef53;
}

std::string file_in(const std::string& directory) {
  std::ofstream(directory + "/data.tar") << "text";
  return directory + "/data.tar";
}

}  // namespace

TEST_CASE("a file of a user's FUSE is refused, and its server is asked nothing") {
  if (!has_own_mounts()) return;
  const Scratch scratch;
  FuseFile file(scratch / "data.tar");
  const std::string path = scratch / "data.tar";
  {
    const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    REQUIRE(fd);
    const auto before = file.asked();
    CHECK_FALSE(is_of_the_site(fd.get()));
    CHECK_FALSE(is_taken(path, fd.get()));
    auto after = file.asked();
    after.erase(FUSE_FLUSH);  // what was received is closed
    CHECK(after == before);
    const std::vector<std::string> never;
    CHECK(SourceTrust(never).objection(path, fd.get()) != "");
    CHECK(SourceTrust(never, SourceTrust::For::all_readers).objection(path, fd.get()) != "");
  }
}

TEST_CASE("a file of an overlay or a tmpfs, which a user name space can mount, is refused") {
  if (!has_own_mounts()) return;
  const Scratch scratch;
  fs::create_directories(scratch / "memory");
  const Mounted memory("tmpfs", scratch / "memory", "size=1m");
  for (const char* name : {"lower", "upper", "work", "merged"})
    fs::create_directories(memory.path() + "/" + name);
  const std::string below = memory.path() + "/";
  const Mounted merged(
      "overlay", below + "merged",
      "lowerdir=" + below + "lower,upperdir=" + below + "upper,workdir=" + below + "work");
  CHECK_FALSE(is_taken(file_in(memory.path())));
  CHECK_FALSE(is_taken(file_in(merged.path())));
  const std::string plain = file_in(scratch.path());
  if (is_on_ext4(plain)) CHECK(is_taken(plain));
}

TEST_CASE("a file of /proc, which is another one for each reader, is refused") {
  for (const char* path : {"/proc/self/mem", "/proc/self/environ", "/proc/version"})
    CHECK_FALSE_MESSAGE(is_taken(path), path);
}

// As what another mount name space shows.
TEST_CASE("a file of a mount that this process does not have is refused") {
  if (!has_own_mounts()) return;
  const Scratch scratch;
  fs::create_directories(scratch / "bound");
  const std::string path = scratch / "bound/data.tar";
  Fd fd;
  {
    file_in(scratch.path());
    REQUIRE(::mount(scratch.path().c_str(), (scratch / "bound").c_str(), nullptr, MS_BIND,
                    nullptr) == 0);
    fd = Fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    REQUIRE(fd);
    if (is_on_ext4(path)) CHECK(is_taken(path, fd.get()));
    REQUIRE(::umount2((scratch / "bound").c_str(), MNT_DETACH) == 0);
  }
  CHECK_FALSE(is_taken(path, fd.get()));
}

TEST_CASE("a process that is stopped while it opens sources holds up no complete item") {
  const Scratch scratch;
  const std::string path = file_in(scratch.path());
  const bool counts = is_taken(path);
  Ends ends;
  const pid_t pid = ::fork();
  REQUIRE(pid >= 0);
  if (pid == 0) {
    const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    const bool sent = hand_over(ends.user.get(), 1, path, fd.get()) &&
                      end_item(ends.user.get(), 1, false) &&
                      hand_over(ends.user.get(), 0, path, fd.get());
    if (sent) ::raise(SIGSTOP);
    ::_exit(1);
  }
  ends.user.reset();
  int status = 0;
  REQUIRE(::waitpid(pid, &status, WUNTRACED) == pid);
  REQUIRE(WIFSTOPPED(status));
  CHECK(ends.received({1}) == (counts ? 1 : 0));
  // As the daemon does at the limit cache.identify_wait.
  REQUIRE(::kill(pid, SIGKILL) == 0);
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  CHECK(ends.received() == 0);
}
