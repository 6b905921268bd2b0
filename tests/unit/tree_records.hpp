// Records of a directory's stream (daemon/worker/piece/tree_stream.hpp), right ones and others.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/wire/wire.hpp"

namespace nodestage::tree_records {

inline std::string record(const WireEncoder& fields) {
  WireEncoder length;
  length.u32(static_cast<std::uint32_t>(fields.data().size()));
  return length.data() + fields.data();
}

struct Attributes {
  std::uint32_t mode = 0644;
  std::uint32_t nanoseconds = 0;
  std::vector<std::string> xattrs = {};
};

inline WireEncoder entry(std::uint8_t kind, const std::string& path, const Attributes& attributes) {
  WireEncoder out;
  out.u8(kind);
  out.text(path);
  out.u32(attributes.mode);
  out.u64(1);
  out.u32(attributes.nanoseconds);
  out.texts(attributes.xattrs);
  return out;
}

inline std::string file(const std::string& path, std::uint64_t size = 0,
                        const Attributes& attributes = {}) {
  WireEncoder out = entry(1, path, attributes);
  out.u64(size);
  return record(out);
}

inline std::string directory(const std::string& path) {
  return record(entry(2, path, Attributes{0755}));
}

inline std::string soft_link(const std::string& path, const std::string& target) {
  WireEncoder out = entry(3, path, {});
  out.text(target);
  return record(out);
}

inline std::string hard_link(const std::string& path, const std::string& first) {
  WireEncoder out;
  out.u8(4);
  out.text(path);
  out.text(first);
  return record(out);
}

// The bytes follow it, as many as `count` says.
inline std::string data(std::uint64_t offset, std::uint32_t count) {
  WireEncoder out;
  out.u8(5);
  out.u64(offset);
  out.u32(count);
  return record(out);
}

inline std::string end() {
  WireEncoder out;
  out.u8(6);
  for (int i = 0; i < 3; ++i) out.u64(0);
  for (int i = 0; i < 3; ++i) out.text("");
  return record(out);
}

// "d/d/…", `depth` times.
inline std::string deep(std::size_t depth) {
  std::string path = "d";
  for (std::size_t i = 1; i < depth; ++i) path += "/d";
  return path;
}

}  // namespace nodestage::tree_records
