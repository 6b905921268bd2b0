#include "daemon/worker/share/share_key.hpp"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>

#include <algorithm>
#include <span>

#include "common/os/file.hpp"
#include "common/text/encodings.hpp"
#include "common/text/human.hpp"
#include "common/wire/status_file.hpp"
#include "daemon/worker/basis/fault.hpp"

namespace nodestage {
namespace {

constexpr const char* k_no_cache = "this node keeps no shared data";
constexpr const char* k_no_file = "it is not a regular file";
constexpr const char* k_just_changed = "it was changed less than a minute ago";
constexpr const char* k_changed_inside = ": was changed less than a minute ago";
constexpr std::size_t k_max_entries = 10'000;
constexpr std::uint64_t k_max_key_bytes = std::uint64_t{64} * 1024 * 1024;
constexpr std::size_t k_part = std::size_t{1} << 20;
// How many times the age at which looks can be trusted is still fresh: the tasks of an array, which
// start one after the other, then know the same source by the same key.
constexpr std::int64_t k_fresh = 60;
constexpr std::int64_t k_millisecond = 1'000'000;

std::int64_t now() {
  timespec time{};
  ::clock_gettime(CLOCK_REALTIME, &time);
  return nanoseconds(time);
}

// The first digit says how the source is known: 0 to 7, or 8 to f.
std::string marked(std::string digits, ShareIdentity way) {
  if (digits.empty()) return digits;
  const std::size_t value = k_hex_digits.find(digits[0]);
  digits[0] = k_hex_digits[way == ShareIdentity::bytes ? value | 8U : value & 7U];
  return digits;
}

// Returns whether the cache can have an entry with that name, and the status file can report it.
std::string unsuitable(const std::string& name) {
  const bool fits = name.size() < sizeof ItemRecord::what && printable(name) == name;
  if (!fits) return "its destination's name is too long for that, or not printable";
  return name.empty() || name == "record" ? "its destination cannot have the name '" + name + "'"
                                          : "";
}

}  // namespace

bool is_same(const SourceIdentity& before, const SourceIdentity& after) {
  return !before.key.empty() && before.key == after.key && before.seen == after.seen;
}

ShareIdentity way_of(std::string_view key) {
  return !key.empty() && k_hex_digits.substr(8).find(key[0]) != std::string_view::npos
             ? ShareIdentity::bytes
             : ShareIdentity::looks;
}

void ShareKey::Release::operator()(evp_md_ctx_st* digest) const { ::EVP_MD_CTX_free(digest); }

ShareKey::ShareKey(const ShareRules& rules, std::string_view kind, const std::string& name)
    : rules_(rules),
      trust_(std::make_unique<SourceTrust>(
          rules.order.cache_never,
          rules.order.for_readers ? SourceTrust::For::all_readers : SourceTrust::For::one_user)),
      digest_(::EVP_MD_CTX_new()),
      seen_(::EVP_MD_CTX_new()) {
  for (const Digest* digest : {&digest_, &seen_}) {
    if (!*digest || ::EVP_DigestInit_ex(digest->get(), EVP_sha256(), nullptr) != 1)
      refuse("this machine's OpenSSL has no SHA-256");
  }
  if (rules.order.cache.empty()) refuse(k_no_cache);
  if (const std::string why = unsuitable(name); !why.empty()) refuse(why);
  add("version", k_share_version);
  add("kind", kind);
  add("owner", rules.order.uid);
  add("name", name);
  add("umask", rules.umask);
  const ExtractRules& extract = rules.order.extract;
  add("escaping", static_cast<unsigned>(extract.escaping));
  add("special", static_cast<unsigned>(extract.special));
  add("max_entries", extract.max_entries);
  add("max_ratio", extract.max_ratio);
  add("xattrs", extract.xattrs ? 1U : 0U);
}

void ShareKey::add_to(const Digest& digest, std::string_view label, std::string_view value) {
  std::string text;
  for (const std::string_view part : {label, value})
    text.append(std::to_string(part.size())).append(":").append(part);
  ::EVP_DigestUpdate(digest.get(), text.data(), text.size());
}

void ShareKey::add(std::string_view label, std::string_view value) {
  if (!is_refused()) add_to(digest_, label, value);
}

void ShareKey::add(std::string_view label, std::uint64_t value) {
  add(label, std::string_view(std::to_string(value)));
}

void ShareKey::add(std::string_view label, const std::vector<std::string>& values) {
  add(label, values.size());
  for (const auto& value : values) add(label, std::string_view(value));
}

void ShareKey::add_look(const Digest& digest, const FileLook& look) {
  const std::pair<const char*, std::uint64_t> k_fields[] = {
      {"device", look.device}, {"file_system", look.file_system},
      {"inode", look.inode},   {"size", look.size},
      {"mtime", look.mtime},   {"ctime", look.ctime}};
  for (const auto& [label, value] : k_fields) add_to(digest, label, std::to_string(value));
}

void ShareKey::add_file(const std::string& path, int fd) {
  const auto look = examine(path, fd);
  if (!look) return;
  note_age(k_just_changed, look->ctime);
  if (rules_.way == ShareIdentity::looks) return add_look(digest_, *look);
  add_look(seen_, *look);
  add_bytes(fd, look->size);
}

void ShareKey::add_copied_file(const std::string& path, int fd) {
  add_file(path, fd);
  const auto look = look_at(fd);
  if (!look || rules_.way == ShareIdentity::looks) return;
  add("mode", look->mode & 07777U);
  add("mtime", static_cast<std::uint64_t>(look->mtime));
  // Extended attributes are not read: the ctime changes with them.
  if (rules_.order.extract.xattrs) add("ctime", static_cast<std::uint64_t>(look->ctime));
}

// Exactly as many bytes as the size says, or the key would not say where they end.
void ShareKey::add_bytes(int fd, std::uint64_t size) {
  if (size > k_max_key_bytes - bytes_read_) return refuse(k_just_changed);
  bytes_read_ += size;
  add("bytes", size);
  std::vector<char> part(std::min<std::size_t>(k_part, size));
  for (std::uint64_t at = 0; at < size;) {
    const std::size_t most = std::min<std::uint64_t>(part.size(), size - at);
    const auto got = pread_all(fd, std::as_writable_bytes(std::span(part)).first(most), at);
    if (!got) return refuse(std::strerror(got.error().code));
    if (*got == 0) return refuse(k_just_changed);
    ::EVP_DigestUpdate(digest_.get(), part.data(), *got);
    at += *got;
  }
}

void ShareKey::add_content(const std::string& path, int fd, std::string_view content) {
  const auto look = examine(path, fd);
  if (!look) return;
  add("content", content);
  add_look(seen_, *look);
}

void ShareKey::add_tree(const std::string& path, const TreeLook& tree) {
  if (is_refused()) return;
  if (!tree.why_not.empty()) return refuse(tree.why_not);
  if (rules_.way == ShareIdentity::bytes) return refuse(k_just_changed);
  tree_bytes_ += tree.bytes;
  const std::string newest = shown(path) + (tree.newest.empty() ? "" : "/" + shown(tree.newest));
  note_change(newest + k_changed_inside +
                  "; a directory is kept when nothing in it has changed for " +
                  human_duration(1000 * rules_.order.cache_min_age_s),
              tree.changed);
  add_look(digest_, tree.top);
  add("tree", std::string_view(tree.digest));
}

// Empty if it must not be kept, which is noted then.
std::optional<FileLook> ShareKey::examine(const std::string& path, int fd) {
  if (is_refused()) return std::nullopt;
  const auto look = look_at(fd);
  const std::string why = !look                 ? look.error().text()
                          : S_ISREG(look->mode) ? trust_->objection(path, fd)
                                                : k_no_file;
  if (why.empty()) return *look;
  refuse(why);
  return std::nullopt;
}

// Users can set an mtime, also to the future; that sets the ctime.
void ShareKey::note_age(const std::string& what, std::int64_t ctime) {
  const std::int64_t age = now() - ctime;
  is_fresh_ = is_fresh_ || age < 0 || age / k_fresh < least_age();
  note_change(what, ctime);
}

// A time in the future counts as just now.
void ShareKey::note_change(const std::string& what, std::int64_t changed) {
  if (now() - changed >= least_age()) return;
  if (young_.empty()) young_ = what;
  settles_ = std::max(settles_, changed + least_age());
}

std::int64_t ShareKey::least_age() const {
  return static_cast<std::int64_t>(rules_.order.cache_min_age_s) * k_ns_per_s;
}

void ShareKey::add_directory(const std::string& path) {
  if (is_refused()) return;
  add("directory", std::string_view(path));
  const auto directory = open_at(AT_FDCWD, path, O_RDONLY | O_DIRECTORY);
  if (!directory && directory.error().code == ENOENT) return add("entries", 0U);
  const auto look = directory ? look_at(directory->get()) : directory.error();
  const std::string why = look ? trust_->objection(path, directory->get()) : look.error().text();
  if (!why.empty()) return refuse(why);
  note_age(shown(path) + k_changed_inside, look->ctime);
  add_entries(path, directory->get());
}

void ShareKey::add_entries(const std::string& path, int dir_fd) {
  auto stream = DirectoryStream::at(dir_fd);
  std::vector<std::string> names;
  while (const auto name = stream.next()) {
    names.emplace_back(*name);
    if (names.size() > k_max_entries) return refuse(shown(path) + ": contains too many files");
  }
  if (stream.code() != 0) return refuse(shown(path) + ": " + std::strerror(stream.code()));
  std::sort(names.begin(), names.end());
  add("entries", names);
  for (const auto& name : names) {
    if (!is_refused()) add_entry(path, dir_fd, name);
  }
}

// A directory in it has no bytes, and counts as it looks.
void ShareKey::add_entry(const std::string& path, int dir_fd, const std::string& name) {
  struct stat info {};
  if (::fstatat(dir_fd, name.c_str(), &info, 0) != 0) return;  // a link to nothing
  const std::int64_t mtime = nanoseconds(info.st_mtim);
  note_age(shown(path) + "/" + shown(name) + k_changed_inside, nanoseconds(info.st_ctim));
  if (rules_.way == ShareIdentity::bytes && S_ISREG(info.st_mode)) {
    const auto file = open_at(dir_fd, name, k_open_source);
    if (!file) return refuse(file.error().what);
    return add_bytes(file->get(), static_cast<std::uint64_t>(info.st_size));
  }
  add("size", static_cast<std::uint64_t>(info.st_size));
  add("mtime", static_cast<std::uint64_t>(mtime));
}

// Its content is the site's business: an upgrade replaces the file.
void ShareKey::add_program(std::string_view label, const std::string& path) {
  if (is_refused()) return;
  const auto file = open_at(AT_FDCWD, path, O_PATH);
  const auto look = file ? look_at(file->get()) : file.error();
  if (!look) return refuse(look.error().text());
  add(label, std::string_view(path));
  add("real", std::string_view(resolved(path)));
  add("inode", look->inode);
  add("size", look->size);
  add("mtime", static_cast<std::uint64_t>(look->mtime));
}

void ShareKey::refuse(const std::string& why) {
  if (why_not_.empty()) why_not_ = why;
}

std::string ShareKey::digits_of(const Digest& digest) {
  const Digest copy(::EVP_MD_CTX_new());
  unsigned char bytes[EVP_MAX_MD_SIZE];
  if (!copy || ::EVP_MD_CTX_copy_ex(copy.get(), digest.get()) != 1 ||
      ::EVP_DigestFinal_ex(copy.get(), bytes, nullptr) != 1)
    return {};
  return hex_digits(std::span(bytes).first(k_share_key_bytes / 2));
}

// A clock that is a little fast is no reason to give up, and one that is far off is.
std::uint64_t ShareKey::settles_ms() const {
  if (settles_ - now() > 2 * least_age()) return 0;
  return static_cast<std::uint64_t>(settles_ / k_millisecond) + 1;
}

SourceIdentity ShareKey::identity() const {
  const bool is_looked_at = rules_.way == ShareIdentity::looks;
  if (is_refused()) return {{}, why_not_, {}, is_fresh_, 0, tree_bytes_};
  if (is_looked_at && !young_.empty())
    return {{}, young_, {}, is_fresh_, settles_ms(), tree_bytes_};
  return {marked(digits_of(digest_), rules_.way), {}, digits_of(seen_), is_fresh_, 0, tree_bytes_};
}

}  // namespace nodestage
