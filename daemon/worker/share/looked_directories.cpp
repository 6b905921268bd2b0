#include "daemon/worker/share/looked_directories.hpp"

#include <openssl/evp.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <utility>

#include "daemon/worker/share/source_trust.hpp"

namespace nodestage {

Result<TreeDigest> digest_of(std::string_view text, const std::vector<TreeDigest>& below) {
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(::EVP_MD_CTX_new(),
                                                                   ::EVP_MD_CTX_free);
  TreeDigest digest{};
  if (!context || ::EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) != 1 ||
      ::EVP_DigestUpdate(context.get(), text.data(), text.size()) != 1 ||
      ::EVP_DigestUpdate(context.get(), below.data(), below.size() * sizeof(TreeDigest)) != 1 ||
      ::EVP_DigestFinal_ex(context.get(), digest.data(), nullptr) != 1)
    return Error{EIO, "this machine's OpenSSL has no SHA-256"};
  return digest;
}

void add_text(std::string& text, std::string_view name, const EntryInfo& info) {
  text.append(name).push_back('\0');
  const std::uint64_t values[] = {info.stx_mode,
                                  info.stx_size,
                                  static_cast<std::uint64_t>(nanoseconds(info.stx_mtime)),
                                  static_cast<std::uint64_t>(nanoseconds(info.stx_ctime)),
                                  info.stx_ino,
                                  device_of(info)};
  for (const std::uint64_t value : values) text.append(std::to_string(value)).push_back(' ');
  text.push_back('\0');
}

dev_t device_of(const EntryInfo& info) { return ::makedev(info.stx_dev_major, info.stx_dev_minor); }

LookedAt::LookedAt(LookedAt* above, std::string its_name, const EntryInfo& info, As as)
    : parent(above),
      name(std::move(its_name)),
      device(device_of(info)),
      inode(info.stx_ino),
      depth(above == nullptr || as == As::link ? 0 : above->depth + 1),
      links(above == nullptr ? 0 : above->links + (as == As::link ? 1 : 0)) {
  add_text(text_, name, info);
}

void LookedAt::add(const std::vector<TreeDigest>& digests) {
  const std::lock_guard lock(mutex_);
  entries_.insert(entries_.end(), digests.begin(), digests.end());
}

bool LookedAt::is_in(const EntryInfo& info) const {
  for (const LookedAt* at = this; at != nullptr; at = at->parent)
    if (at->device == device_of(info) && at->inode == info.stx_ino) return true;
  return false;
}

std::string LookedAt::path_of(std::string_view entry) const {
  std::vector<std::string_view> names{entry};
  for (const LookedAt* at = this; at->parent != nullptr; at = at->parent) names.push_back(at->name);
  std::string path;
  for (std::size_t i = names.size(); i-- > 0;) path.append(names[i]).append(i > 0 ? "/" : "");
  return path;
}

LookedAt& LookedDirectories::add(LookedAt* parent, const std::string& name, const EntryInfo& info,
                                 LookedAt::As as) {
  auto made = std::make_unique<LookedAt>(parent, name, info, as);
  LookedAt& directory = *made;
  const std::lock_guard lock(mutex_);
  directory.self_ = all_.insert(all_.end(), std::move(made));
  return directory;
}

// A loop: a recursion would fail at some depth. Nobody else uses a directory without parts.
Status LookedDirectories::end_part(LookedAt& directory) {
  for (LookedAt* at = &directory; at != nullptr && --at->parts == 0;) {
    std::sort(at->entries_.begin(), at->entries_.end());
    TRY_ASSIGN(const TreeDigest digest, digest_of(at->text_, at->entries_));
    LookedAt* const parent = at->parent;
    if (parent == nullptr) {
      digest_ = digest;
    } else {
      parent->add({digest});
    }
    std::unique_ptr<LookedAt> gone;  // destroyed without the lock
    const std::lock_guard lock(mutex_);
    gone = std::move(*at->self_);
    all_.erase(gone->self_);
    at = parent;
  }
  return {};
}

}  // namespace nodestage
