// Zip files byte by byte, as no archiver would write them; and their entries, read to the end.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/worker/archive/entry_limits.hpp"
#include "daemon/worker/read/source.hpp"
#include "daemon/worker/tree/file_data.hpp"
#include "metered.hpp"
#include "zip_bytes.hpp"

namespace zip_file {

using zip_bytes::crc32;
using zip_bytes::deflated;
using zip_bytes::little;

// What one header says of a member.
struct Header {
  std::string name;
  std::uint64_t method = 0;
  std::uint64_t flags = 0;
  std::uint64_t dos_time = 0x58210000;  // 2024-01-01
  std::uint64_t crc = 0;
  std::uint64_t packed = 0;
  std::uint64_t size = 0;
  std::string extra = "";

  [[nodiscard]] std::string middle() const {
    return little(flags, 2) + little(method, 2) + little(dos_time, 4) + little(crc, 4) +
           little(packed, 4) + little(size, 4) + little(name.size(), 2) + little(extra.size(), 2);
  }
};

struct Member {
  Header told;   // by the directory
  Header local;  // the same, until it is changed
  std::string data;
  std::uint64_t system = 3;
  std::uint64_t attributes = 0100644U << 16;
  std::optional<std::uint64_t> offset = std::nullopt;  // told; else where it is
  std::string after = "";                              // follows the data
};

inline Member stored(const std::string& name, const std::string& data) {
  const Header header{name, 0, 0, 0x58210000, crc32(data), data.size(), data.size()};
  return {header, header, data};
}

inline Member packed(const std::string& name, const std::string& data) {
  Member member = stored(name, data);
  member.data = deflated(data);
  member.told.method = member.local.method = 8;
  member.told.packed = member.local.packed = member.data.size();
  return member;
}

struct Layout {
  std::string before = "";  // the members: a self-extractor's program
  std::uint64_t shift = 0;  // of all offsets: what `before` counts in them
  std::string comment = "";
  bool is_wide = false;      // with a zip64 end record
  std::string between = "";  // members and directory
  std::uint64_t disk = 0;
};

inline std::string zip(const std::vector<Member>& members, const Layout& layout = {}) {
  std::string all = layout.before;
  const auto told = [&](std::uint64_t at) { return at - layout.before.size() + layout.shift; };
  std::string directory;
  for (const Member& member : members) {
    directory += "PK\1\2\x14" + little(member.system, 1) + little(20, 2) + member.told.middle() +
                 std::string(6, '\0') + little(member.attributes, 4) +
                 little(member.offset.value_or(told(all.size())), 4) + member.told.name +
                 member.told.extra;
    all += "PK\3\4" + little(20, 2) + member.local.middle() + member.local.name +
           member.local.extra + member.data + member.after;
  }
  all += layout.between;
  const std::uint64_t directory_at = told(all.size());
  all += directory;
  const std::string count = little(members.size(), 8);
  if (layout.is_wide) {
    const std::uint64_t wide_at = told(all.size());
    all += "PK\6\6" + little(44, 8) + little(45, 2) + little(45, 2) + little(0, 8) + count + count +
           little(directory.size(), 8) + little(directory_at, 8);
    all += "PK\6\7" + little(0, 4) + little(wide_at, 8) + little(1, 4);
    return all + "PK\5\6" + little(0, 4) + std::string(12, '\xff') +
           little(layout.comment.size(), 2) + layout.comment;
  }
  return all + "PK\5\6" + little(layout.disk, 2) + little(layout.disk, 2) + count.substr(0, 2) +
         count.substr(0, 2) + little(directory.size(), 4) + little(directory_at, 4) +
         little(layout.comment.size(), 2) + layout.comment;
}

// An entry with its data.
struct Seen {
  nodestage::Entry entry;
  std::string data;
};

struct Reading {
  std::vector<Seen> entries;
  std::string fault;  // "" for none
};

// Reads a source's entries with their data, whichever way these come.
class Reader {
 public:
  nodestage::Meter& meter() { return room_.meter; }

  nodestage::Status read_data(nodestage::Entries& entries, Seen& seen) {
    if (entries.data() != nullptr) return fetch(entries, seen);
    for (;;) {
      auto block = entries.read();
      if (!block) return block.error();
      if (block->data.empty()) return {};
      const nodestage::Bytes bytes = block->data.bytes();
      seen.data.resize(std::max<std::size_t>(seen.data.size(), block->offset + bytes.size()));
      std::copy(bytes.begin(), bytes.end(),
                reinterpret_cast<std::byte*>(seen.data.data()) + block->offset);
    }
  }

  // With open(source) → Result<std::unique_ptr<Entries>>.
  template <typename Open>
  Reading read_all(const std::string& path, Open open) {
    Reading all;
    auto source = nodestage::Source::open(path, room_.meter);
    if (!source) return {{}, source.error().text()};
    auto entries = open(*source);
    if (!entries) return {{}, entries.error().text()};
    for (;;) {
      const auto entry = (*entries)->next();
      if (!entry) return all.fault = entry.error().text(), all;
      if (*entry == nullptr) return all;
      Seen& seen = all.entries.emplace_back(Seen{**entry, ""});
      if (const auto status = read_data(**entries, seen); !status) {
        return all.fault = status.error().text(), all;
      }
    }
  }

 private:
  nodestage::Status fetch(nodestage::Entries& entries, Seen& seen) {
    const nodestage::Fd memory(::memfd_create("entry", MFD_CLOEXEC));
    nodestage::FileSink sink(memory.get(), seen.entry.size, {room_.meter, room_.space, room_.stop});
    const nodestage::Status written = entries.data()->write(entries.id(), sink);
    seen.data.resize(sink.end());
    if (::pread(memory.get(), seen.data.data(), seen.data.size(), 0) !=
        static_cast<ssize_t>(seen.data.size())) {
      return nodestage::system_error("pread");
    }
    return written;
  }

  MeteredRoom room_{"/tmp"};
};

template <typename Open>
Reading read_all(const std::string& path, Open open) {
  return Reader().read_all(path, open);
}

}  // namespace zip_file
