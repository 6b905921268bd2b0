#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <numeric>

#include "common/text/encodings.hpp"
#include "daemon/root/nodes/key_credentials.hpp"
#include "hex.hpp"
#include "scratch.hpp"
#include "texts.hpp"

using namespace nodestage;

namespace {

constexpr std::uint64_t k_now_ms = 1'700'000'000'000;
constexpr std::uint64_t k_lifetime_ms = 300'000;

// The bytes 0, 1, 2, …
std::string counted_bytes(std::size_t count) {
  std::string bytes(count, '\0');
  std::iota(bytes.begin(), bytes.end(), '\0');
  return bytes;
}

ClusterKeys keys_of(const std::string& bytes) {
  return must(derive_cluster_keys({"/etc/slurm/slurm.key", bytes}));
}

// A memory that began long ago.
KeyCredentials holder_of(const std::string& bytes) { return {keys_of(bytes), 0}; }

void write_file(const std::string& path, const std::string& text, mode_t mode) {
  std::ofstream(path) << text;
  REQUIRE(::chmod(path.c_str(), mode) == 0);
}

}  // namespace

// The expected bytes were made with another implementation (Python's cryptography).
TEST_CASE("the encoding of a key credential does not change") {
  const ClusterKeys keys = keys_of(counted_bytes(32));
  REQUIRE(keys.keys.size() == 1);
  CHECK(hex_of(keys.keys[0].id) == "76fc4f8fd443bea2");
  CHECK(hex_of(keys.keys[0].secret) ==
        "6717cf44e60a2869badd5388184dc8ac0fedc61e1ade850b743b1c67c4c7c476");
  KeyCredentials credentials(keys, 0);
  const auto opened = must(credentials.open(
      *bytes_of_hex(
          "4e534b3176fc4f8fd443bea26465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f8081"
          "82830068e5cf8b010000885aece868a95844baa0ce2167cdc9e269cebc11f042"),
      k_now_ms));
  CHECK(opened == "a note");
}

TEST_CASE("key credentials: whoever has the key opens one, once") {
  const KeyCredentials sender = holder_of(counted_bytes(64));
  KeyCredentials receiver = holder_of(counted_bytes(64));
  const std::string payload(20'000, 'p');
  const auto made = must(sender.make(payload, k_now_ms));
  CHECK_FALSE(has(made, "pppp"));
  CHECK(receiver.open(made, k_now_ms).value() == payload);
  CHECK(receiver.open(made, k_now_ms).error().what == "its credential was used before");
  CHECK(receiver.open(made, k_now_ms + k_lifetime_ms).error().what ==
        "its credential was used before");
  CHECK(*sender.make(payload, k_now_ms) != made);
}

TEST_CASE("key credentials: no byte can be changed, left out or added") {
  const KeyCredentials sender = holder_of(counted_bytes(64));
  KeyCredentials receiver = holder_of(counted_bytes(64));
  const auto made = must(sender.make("payload", k_now_ms));
  for (std::size_t i = 0; i < made.size(); ++i) {
    std::string altered = made;
    altered[i] = static_cast<char>(altered[i] ^ 1);
    CHECK_FALSE(receiver.open(altered, k_now_ms));
    CHECK_FALSE(receiver.open(made.substr(0, i), k_now_ms));
  }
  CHECK_FALSE(receiver.open(made + "x", k_now_ms));
  CHECK_FALSE(receiver.open("", k_now_ms));
  CHECK_FALSE(receiver.open(std::string(k_max_credential_bytes + 1, 'x'), k_now_ms));
  CHECK(receiver.open(made, k_now_ms));
}

TEST_CASE("key credentials: another key, and clocks that differ, have words of their own") {
  const auto made = must(holder_of(counted_bytes(64)).make("payload", k_now_ms));
  CHECK(has(holder_of(counted_bytes(65)).open(made, k_now_ms).error().what,
            "made with another key: is /etc/slurm/slurm.key the same on all nodes"));
  KeyCredentials receiver = holder_of(counted_bytes(64));
  CHECK(receiver.open(made, k_now_ms + k_lifetime_ms + 1000).error().what ==
        "its credential is 301 s old: are the clocks of both nodes right?");
  CHECK(receiver.open(made, k_now_ms - k_lifetime_ms - 1000).error().what ==
        "its credential is of a time 301 s from now: are the clocks of both nodes right?");
  CHECK(receiver.open(made, k_now_ms + k_lifetime_ms));
}

TEST_CASE("key credentials: what was made before the memory began is refused") {
  const auto made = must(holder_of(counted_bytes(64)).make("payload", k_now_ms));
  KeyCredentials restarted(keys_of(counted_bytes(64)), k_now_ms + 1);
  CHECK(has(restarted.open(made, k_now_ms + 10).error().what, "its node sends another"));
}

TEST_CASE("key credentials: a clock that was ahead when the memory began, and was set back") {
  const auto sender = holder_of(counted_bytes(64));
  KeyCredentials receiver(keys_of(counted_bytes(64)), k_now_ms + 3'600'000);
  const auto made = must(sender.make("payload", k_now_ms));
  CHECK(receiver.open(made, k_now_ms + 10).error().code == EAGAIN);
  const auto another = must(sender.make("payload", k_now_ms + 20));
  CHECK(receiver.open(another, k_now_ms + 30));
  CHECK(has(receiver.open(another, k_now_ms + 40).error().what, "was used before"));
}

TEST_CASE("cluster keys: a list, of which the default key makes credentials and each opens them") {
  const std::string list = R"({"keys": [
    {"kid": "old", "kty": "oct", "alg": "HS256", "k": "b2xkIG9sZCBvbGQgb2xkIG9sZA=="},
    {"kid": "past", "k": "cGFzdCBwYXN0IHBhc3QgcGFzdA", "exp": 1699999999},
    {"kid": "new", "k": "bmV3IG5ldyBuZXcgbmV3IG5ldyA_Pz8", "use": "Default", "exp": 1700000009}]})";
  const auto keys = must(derive_cluster_keys({"/etc/slurm/slurm.jwks", list, true}));
  REQUIRE(keys.keys.size() == 3);
  CHECK(keys.keys[0].id == keys_of("new new new new new ???").keys[0].id);
  CHECK(keys.keys[1].id == keys_of("old old old old old").keys[0].id);
  KeyCredentials both(keys, 0);
  CHECK(both.open(*holder_of("old old old old old").make("payload", k_now_ms), k_now_ms));
  CHECK(holder_of("new new new new new ???").open(*both.make("payload", k_now_ms), k_now_ms));
  CHECK(both.open(*holder_of("past past past past").make("payload", k_now_ms), k_now_ms)
            .error()
            .what == "its credential was made with a key that has expired");
  // When the default key has expired, too, the next one makes credentials.
  const std::uint64_t later_ms = k_now_ms + 10'000;
  CHECK(holder_of("old old old old old").open(*both.make("payload", later_ms), later_ms));
  ClusterKeys past = keys;
  past.keys.erase(past.keys.begin() + 1);
  CHECK(KeyCredentials(past, 0).make("payload", later_ms).error().what ==
        "no key in /etc/slurm/slurm.jwks is valid any more");
}

TEST_CASE("cluster keys: what is no key is refused with the file's name") {
  const auto why = [](const std::string& text, bool is_list) {
    const auto keys = derive_cluster_keys({"/etc/slurm/file", text, is_list});
    return keys ? std::string() : keys.error().what;
  };
  CHECK(why("short", false) == "/etc/slurm/file holds 5 bytes: a key has at least 16");
  for (const char* text : {"", "[]", "{}", R"({"keys": 1})"})
    CHECK(has(why(text, true), "no \"keys\""));
  CHECK(has(why(R"({"keys": []})", true), "it is empty"));
  for (const char* text : {R"({"keys": [1]})", R"({"keys": [{"k": 1}]})",
                           R"({"keys": [{"k": "c2hvcnQ"}]})", R"({"keys": [{"k": "!!!!"}]})"})
    CHECK(has(why(text, true), "base64url of 16 bytes or more"));
}

TEST_CASE("cluster keys: where they are looked for") {
  const Scratch scratch;
  const std::string etc = scratch / "etc";
  const std::string run = scratch / "run";
  REQUIRE(::mkdir(etc.c_str(), 0755) == 0);
  REQUIRE(::mkdir(run.c_str(), 0755) == 0);
  KeyLocations places{"", {etc, run}};
  CHECK_FALSE(find_key_file(places).value());
  CHECK_FALSE(read_cluster_keys(places).value());

  write_file(etc + "/slurm.key", counted_bytes(32), 0600);
  write_file(etc + "/slurm.conf", "#AuthType=auth/slurm\nAuthType=auth/munge\n", 0644);
  CHECK_FALSE(find_key_file(places).value());
  CHECK(key_file_mark(places).empty());

  write_file(etc + "/slurm.conf", "ClusterName=x\n  authtype = AUTH/slurm # since 2025\n", 0644);
  auto found = must(find_key_file(places));
  REQUIRE(found);
  CHECK(found->path == etc + "/slurm.key");
  CHECK(found->bytes == counted_bytes(32));
  CHECK_FALSE(found->is_list);
  const std::string mark = key_file_mark(places);
  CHECK(has(mark, etc + "/slurm.key"));
  write_file(etc + "/slurm.conf", "AuthType=auth/munge\nInclude auth.conf\n", 0644);
  write_file(etc + "/auth.conf", "AuthType=auth/slurm\n", 0644);
  CHECK(key_file_mark(places) == mark);

  write_file(etc + "/slurm.jwks", "{}", 0600);
  CHECK((*find_key_file(places))->path == etc + "/slurm.jwks");
  CHECK(key_file_mark(places) != mark);

  // A node without a configuration of its own: that of slurmd's cache counts.
  REQUIRE(::unlink((etc + "/slurm.conf").c_str()) == 0);
  REQUIRE(::unlink((etc + "/slurm.jwks").c_str()) == 0);
  write_file(run + "/slurm.conf", "AuthType=auth/slurm\n", 0644);
  CHECK((*find_key_file(places))->path == etc + "/slurm.key");

  write_file(scratch / "own", counted_bytes(32), 0604);
  places.key_file = scratch / "own";
  CHECK(has(find_key_file(places).error().text(), "chmod 600"));
  write_file(scratch / "own", counted_bytes(32), 0640);
  CHECK(has(find_key_file(places).error().text(), "chown root"));
  write_file(scratch / "own", counted_bytes(32), 0600);
  if (::geteuid() == 0) {
    CHECK((*find_key_file(places))->path == scratch / "own");
    CHECK(read_cluster_keys(places).value()->keys[0].secret ==
          keys_of(counted_bytes(32)).keys[0].secret);
    REQUIRE(::chown(places.key_file.c_str(), 65534, 0) == 0);
    CHECK(has(find_key_file(places).error().text(), "others than root"));
  }
  places.key_file = scratch / "none";
  CHECK(has(find_key_file(places).error().what, "No such file"));
  places.key_file = etc;
  CHECK(has(find_key_file(places).error().what, "is not a file"));
}
