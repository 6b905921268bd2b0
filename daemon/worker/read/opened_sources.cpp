#include "daemon/worker/read/opened_sources.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

#include "common/os/passed_descriptors.hpp"
#include "common/text/glob_text.hpp"
#include "common/text/path_names.hpp"
#include "daemon/worker/basis/fault.hpp"
#include "daemon/worker/read/source.hpp"
#include "daemon/worker/tree/glob_walk.hpp"

namespace nodestage {
namespace {

enum class AnswerPart : std::uint32_t { source, end, end_of_group };

struct HandedSource {
  std::uint32_t item = 0;
  AnswerPart part = AnswerPart::source;
};

constexpr std::size_t k_most_in_all = 1024;  // descriptors that one process takes

Status send(int socket, const HandedSource& head, const std::string& path, int fd) {
  const std::array<iovec, 2> parts{iovec{const_cast<HandedSource*>(&head), sizeof head},
                                   iovec{const_cast<char*>(path.data()), path.size()}};
  const std::vector<int> with = fd < 0 ? std::vector<int>() : std::vector<int>{fd};
  while (send_packet(socket, parts, with) < 0) {
    if (errno != EINTR) return system_error("sendmsg");
  }
  return {};
}

// O_PATH needs no right to read.
bool is_readable_file(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  struct stat info {};
  return flags >= 0 && (flags & O_PATH) == 0 && (flags & O_ACCMODE) != O_WRONLY &&
         ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
}

bool has_source(const OpenedItem& item, const std::string& path) {
  return std::any_of(item.sources.begin(), item.sources.end(),
                     [&path](const OpenedSource& source) { return source.path == path; });
}

struct Received {
  OpenedItem item;
  bool is_complete = false;
  bool is_wrong = false;
};

void take(std::map<std::uint32_t, Received>& all, const HandedSource& head, std::string path,
          std::vector<Fd> fds, const IsOfSite& is_of_site) {
  Received& received = all[head.item];
  switch (head.part) {
    case AnswerPart::source:
      received.is_wrong |= received.is_complete || fds.size() != 1 || path.empty() ||
                           path.find('\0') != std::string::npos ||
                           has_source(received.item, path) ||
                           received.item.sources.size() >= k_most_handed_over ||
                           !is_of_site(fds.front().get()) || !is_readable_file(fds.front().get());
      if (!received.is_wrong)
        received.item.sources.push_back({std::move(path), std::move(fds.front())});
      return;
    case AnswerPart::end:
    case AnswerPart::end_of_group:
      received.is_wrong |= received.is_complete || received.item.sources.empty() ||
                           (head.part == AnswerPart::end && received.item.sources.size() > 1);
      received.is_complete = true;
      received.item.is_group = head.part == AnswerPart::end_of_group;
      return;
  }
  received.is_wrong = true;
}

std::optional<OpenedByText>& only_these() {
  static std::optional<OpenedByText> k_items;
  return k_items;
}

bool exists(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0;
}

Error search_fault(const std::string& glob, const Error& error) {
  if (error.code == E2BIG)
    return fault(E2BIG, shown(glob) + ": too many directories would be searched",
                 "Begin the search further down: name more directories before '**'");
  if (error.code == EACCES || error.code == EPERM)
    return fault(error.code,
                 shown(glob) + ": cannot be searched for matches: " +
                     shown(without_slashes(error.what)) + ": " + std::strerror(error.code),
                 "The job's user must be able to read all directories that it enters, or leave "
                 "them out with exclude=NAME");
  return with_suffix(open_fault(glob, error.code), ": a directory on the path cannot be read");
}

// Adds what one name means: itself, or what it matches.
Status add_matches(GlobWalk& walk, const std::string& name) {
  if (exists(name)) {
    walk.add_match(name);
    return {};
  }
  if (!is_glob(name)) return examine_source(name).error();
  const std::size_t before = walk.count();
  if (const Status searched = walk.add(name); !searched)
    return search_fault(name, searched.error());
  if (walk.count() > before) return {};
  if (walk.specials() > 0)
    return fault(ENOENT, shown(name) + ": only FIFOs, sockets or devices match",
                 "Only regular files and directories can be staged");
  return fault(ENOENT, shown(name) + ": no file matches", "Check it: ls -d " + shown(name));
}

}  // namespace

Status hand_over(int socket, std::uint32_t item, const std::string& path, int fd) {
  return send(socket, {item, AnswerPart::source}, path, fd);
}

Status end_item(int socket, std::uint32_t item, bool is_group) {
  return send(socket, {item, is_group ? AnswerPart::end_of_group : AnswerPart::end}, {}, -1);
}

Result<OpenedItems> receive_items(int socket, const IsOfSite& is_of_site,
                                  const std::vector<std::uint32_t>& only) {
  std::map<std::uint32_t, Received> all;
  std::size_t taken = 0;
  for (;;) {
    std::array<char, sizeof(HandedSource) + PATH_MAX> text{};
    ReceivedPacket packet = receive_packet(socket, text, 0);
    const ssize_t count = packet.bytes;
    if (count < 0 && errno == EINTR) continue;
    // The sender was killed: what is complete counts.
    if (count == 0 || (count < 0 && errno == ECONNRESET)) break;
    if (count < 0) return system_error("recvmsg");
    const auto bytes = static_cast<std::size_t>(count);
    HandedSource head{};
    if (bytes < sizeof head || packet.is_cut)
      return Error{EPROTO, "what was handed over cannot be read"};
    std::memcpy(&head, text.data(), sizeof head);
    if (++taken > k_most_in_all) return Error{EPROTO, "too many sources were handed over"};
    take(all, head, std::string(text.data() + sizeof head, bytes - sizeof head),
         std::move(packet.descriptors), is_of_site);
    const auto is_complete = [&all](std::uint32_t item) {
      const auto found = all.find(item);
      return found != all.end() && found->second.is_complete;
    };
    if (!only.empty() && std::all_of(only.begin(), only.end(), is_complete)) break;
  }
  OpenedItems items;
  for (auto& [index, received] : all) {
    if (received.is_complete && !received.is_wrong) items.emplace(index, std::move(received.item));
  }
  return items;
}

void read_opened_only(std::optional<OpenedByText> items) { only_these() = std::move(items); }

const OpenedByText* opened_items() { return only_these() ? &*only_these() : nullptr; }

int opened_source(const std::string& path) {
  for (const auto& [text, item] : *only_these()) {
    const auto found = std::find_if(item.sources.begin(), item.sources.end(),
                                    [&path](const auto& one) { return one.path == path; });
    if (found != item.sources.end()) return found->fd.get();
  }
  return -1;
}

Result<FoundSources> find_sources(const std::string& source,
                                  std::function<bool(const std::string& below)> excludes) {
  if (const OpenedByText* opened = opened_items()) {
    const auto item = opened->find(source);
    if (item == opened->end()) return Error{EACCES, shown(source) + ": was not handed over, open"};
    FoundSources found{{}, item->second.is_group};
    for (const OpenedSource& one : item->second.sources) found.paths.push_back(one.path);
    return found;
  }
  if (!is_glob(source) || exists(source)) return FoundSources{{source}, false};
  const auto names = brace_texts(source);
  if (!names) return with_prefix(names.error(), shown(source) + ": ");
  GlobWalk walk;
  walk.leave_out(std::move(excludes));
  for (const std::string& name : *names) TRY(add_matches(walk, name));
  return FoundSources{walk.take_matches(), true, walk.specials()};
}

}  // namespace nodestage
