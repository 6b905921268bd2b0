#include <doctest/doctest.h>
#include <munge.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <memory>

#include "daemon/peer/credential.hpp"
#include "peer_run.hpp"
#include "scratch.hpp"
#include "texts.hpp"

using namespace nodestage;

namespace {

constexpr uid_t k_other_uid = 65534;

int run(std::vector<std::string> words) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t pid = 0;
  if (::posix_spawn(&pid, argv[0], nullptr, nullptr, argv.data(), environ) != 0) return -1;
  int status = 0;
  ::waitpid(pid, &status, 0);
  return status;
}

// A munged of the test's own, ended with it (by munged --stop, which finds it by its lock).
class Munged {
 public:
  Munged() {
    ::chmod(scratch_.path().c_str(), 0711);  // any user reaches the socket
    std::ofstream(key_) << std::string(64, 'k');
    ::chmod(key_.c_str(), 0600);
    started_ = run({k_program, "--socket=" + socket_, "--key-file=" + key_,
                    "--seed-file=" + scratch_ / "seed", "--pid-file=" + scratch_ / "pid",
                    "--log-file=" + scratch_ / "log", "--num-threads=2", "--force"}) == 0;
  }
  Munged(const Munged&) = delete;
  Munged& operator=(const Munged&) = delete;
  ~Munged() {
    if (started_) run({k_program, "--stop", "--socket=" + socket_});
  }

  static bool installed() { return ::access(k_program, X_OK) == 0; }
  [[nodiscard]] bool started() const { return started_; }
  [[nodiscard]] const std::string& socket() const { return socket_; }

  // Restricted to a uid, unless it is MUNGE_UID_ANY.
  [[nodiscard]] std::string sign(const std::string& payload, uid_t for_uid) const {
    const std::unique_ptr<munge_ctx, void (*)(munge_ctx_t)> context(::munge_ctx_create(),
                                                                    ::munge_ctx_destroy);
    ::munge_ctx_set(context.get(), MUNGE_OPT_SOCKET, socket_.c_str());
    ::munge_ctx_set(context.get(), MUNGE_OPT_UID_RESTRICTION, for_uid);
    char* made = nullptr;
    ::munge_encode(&made, context.get(), payload.data(), static_cast<int>(payload.size()));
    const std::unique_ptr<char, void (*)(void*)> credential(made, std::free);
    return made == nullptr ? "" : made;
  }
  // The same by another user.
  [[nodiscard]] std::string sign_as(uid_t uid, const std::string& payload, uid_t for_uid) const {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    const pid_t pid = ::fork();
    if (pid == 0) {
      const bool became = ::setresuid(uid, uid, uid) == 0;
      const std::string credential = became ? sign(payload, for_uid) : "";
      ::_exit(::write(ends[1], credential.data(), credential.size()) < 0 ? 1 : 0);
    }
    ::close(ends[1]);
    const Fd from(ends[0]);
    std::string credential(8192, '\0');
    const ssize_t count = ::read(from.get(), credential.data(), credential.size());
    ::waitpid(pid, nullptr, 0);
    credential.resize(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    return credential;
  }

 private:
  static constexpr char k_program[] = "/usr/sbin/munged";
  Scratch scratch_;
  std::string socket_ = scratch_ / "socket";
  std::string key_ = scratch_ / "key";
  bool started_ = false;
};

bool skipped() {
  if (::geteuid() == 0 && Munged::installed()) return false;
  MESSAGE("skipped: needs root and munged");
  return true;
}

// A peer that asks this munged takes root's note, once.
void check_peer(const Munged& munged) {
  const std::string note = frame(munged.sign(note_from("n1"), ::geteuid()));
  PeerRun peer({0, 20, 1024, {"n1=127.0.0.1"}},
               {munge_opener(munged.socket()), resolve_loopback, {}});
  const Caller first(peer.port());
  first.send(note);
  CHECK(first.rest() == "A");
  CHECK(peer.hear_kind<PeerReceived>().payload == note_from("n1"));
  const Caller again(peer.port());
  again.send(note);
  CHECK(again.rest() == "R");
  CHECK(has(peer.hear_kind<PeerDropped>().why, "used before"));
}

}  // namespace

TEST_CASE("credentials of a real munged: only root's, for this user, and once") {
  if (skipped()) return;
  const Munged munged;
  REQUIRE(munged.started());
  const OpenCredential open = munge_opener(munged.socket());

  const std::string good = munged.sign("payload", ::geteuid());
  CHECK(must(open(good)) == "payload");
  CHECK(has(open(good).error().what, "its credential was used before"));
  CHECK(open(munged.sign_as(k_other_uid, "payload", ::geteuid())).error().what ==
        "its credential is of uid 65534, not 0");
  CHECK(has(open(munged.sign("payload", k_other_uid)).error().what,
            "has that user the same uid on all nodes?"));
  CHECK(open(munged.sign("payload", static_cast<uid_t>(MUNGE_UID_ANY))).error().what ==
        "its credential is not restricted to the user of nodestage-peer");
  CHECK(open(munged.sign("", ::geteuid())).error().what == "its credential is empty");

  std::string altered = munged.sign("payload", ::geteuid());
  char& byte = altered[altered.size() / 2];
  byte = byte == 'A' ? 'B' : 'A';
  CHECK_FALSE(open(altered));
  CHECK(has(open("garbage").error().what, "what it sent is not a MUNGE credential"));
  CHECK(has(open(good + std::string("\0x", 2)).error().what, "not a MUNGE credential"));
  CHECK_FALSE(open(""));
  check_peer(munged);
}

TEST_CASE("without munged the log says what to look at") {
  const Scratch scratch;
  const Error opened = must_fail(munge_opener(scratch / "none")("MUNGE:x:"));
  CHECK(has(opened.what, "does the service munge run?"));
}
