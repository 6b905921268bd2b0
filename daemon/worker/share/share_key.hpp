// ShareKey: the key of a shared item (common/wire/worker_order.hpp): a hash of everything that its
// tree depends on, and whether the tree may be kept at all.
//
// The hash is SHA-256 over fields, each as LENGTH:BYTES of its label and of its value, with lengths
// and numbers in decimal. The first field is the version of this format and of our extraction: a
// release that makes other trees of the same source has another version.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/wire/worker_order.hpp"
#include "daemon/worker/share/source_trust.hpp"
#include "daemon/worker/share/tree_look.hpp"

struct evp_md_ctx_st;  // of <openssl/evp.h>

namespace nodestage {

inline constexpr std::string_view k_share_version = "nodestage shared 2";

// How the files of a source are known: by what the kernel says of them, which costs nothing but may
// miss a change just after another one; or by all their bytes, at most 64 MiB. The first digit of a
// key says which.
enum class ShareIdentity { looks, bytes };
ShareIdentity way_of(std::string_view key);

// Of what is kept for all who may read its source.
inline constexpr unsigned k_umask_for_all = 022;

struct ShareRules {
  const IdentifyOrder& order;  // borrowed
  unsigned umask = 022;        // the request's
  ShareIdentity way = ShareIdentity::looks;
  // Not null: the sources were read just now, and what is still looked at ends when this is set.
  const std::atomic<bool>* copy_stop = nullptr;
};

struct SourceIdentity {
  std::string key;      // k_share_key_bytes digits; empty: it must not be kept
  std::string why_not;  // then: the reason, for a user
  // Differs when a file whose content is in the key was written meanwhile, even with the same
  // content in the end.
  std::string seen;
  // A file was changed so lately that it may be known by its bytes.
  bool is_fresh = false;
  // Not 0: `why_not` holds until then, in milliseconds since 1970.
  std::uint64_t settles_ms = 0;
  std::uint64_t tree_bytes = 0;  // of the files in directories that are copied
};

// Returns whether `why_not` is empty and both are of the same, unchanged sources.
bool is_same(const SourceIdentity& before, const SourceIdentity& after);

class ShareKey {
 public:
  // `kind` says what is made of the sources; `name` is the last part of the destination.
  ShareKey(const ShareRules& rules, std::string_view kind, const std::string& name);

  void add(std::string_view label, std::string_view value);
  void add(std::string_view label, std::uint64_t value);
  void add(std::string_view label, const std::vector<std::string>& values);

  // Adds a file whose content the tree is made of. `path` is as the user gave it.
  void add_file(const std::string& path, int fd);
  // Adds one that may be copied as it is: its mode and times are in the copy, too.
  void add_copied_file(const std::string& path, int fd);
  // Adds a file by its content, which was read just before.
  void add_content(const std::string& path, int fd, std::string_view content);

  // Adds a directory that is copied, with everything in it. It is known by looks alone. `path` is
  // as the user gave it.
  void add_tree(const std::string& path, const TreeLook& tree);

  // Adds the names of a directory's entries, with their sizes and times or their bytes. A directory
  // that does not exist has none.
  void add_directory(const std::string& path);
  // Adds a program that the tree is made with or for.
  void add_program(std::string_view label, const std::string& path);

  // Forbids that the tree is kept; the first reason counts.
  void refuse(const std::string& why);
  [[nodiscard]] bool is_refused() const { return !why_not_.empty(); }

  [[nodiscard]] SourceIdentity identity() const;

 private:
  struct Release {
    void operator()(evp_md_ctx_st* digest) const;
  };
  using Digest = std::unique_ptr<evp_md_ctx_st, Release>;
  static void add_to(const Digest& digest, std::string_view label, std::string_view value);
  [[nodiscard]] static std::string digits_of(const Digest& digest);
  static void add_look(const Digest& digest, const FileLook& look);
  std::optional<FileLook> examine(const std::string& path, int fd);
  void note_age(const std::string& what, std::int64_t ctime);
  void note_change(const std::string& what, std::int64_t changed);
  [[nodiscard]] std::int64_t least_age() const;  // nanoseconds
  void add_entries(const std::string& path, int dir_fd);
  void add_entry(const std::string& path, int dir_fd, const std::string& name);
  void add_bytes(int fd, std::uint64_t size);
  [[nodiscard]] std::uint64_t settles_ms() const;

  const ShareRules rules_;
  std::unique_ptr<SourceTrust> trust_;
  Digest digest_;
  Digest seen_;
  std::string why_not_;
  bool is_fresh_ = false;
  std::string young_;             // what must not change for a while; "": nothing
  std::int64_t settles_ = 0;      // when it has not, in nanoseconds since 1970
  std::uint64_t bytes_read_ = 0;  // by add_bytes()
  std::uint64_t tree_bytes_ = 0;
};

}  // namespace nodestage
