// Images that mksquashfs makes of a tree.
#pragma once

#include <fstream>
#include <random>
#include <string>

#include "daemon/worker/image/squash_image.hpp"
#include "scratch.hpp"
#include "texts.hpp"

namespace nodestage {

// The same bytes in every run. `variety`: how many values a byte has; fewer compress better.
inline std::string some_bytes(std::size_t size, unsigned variety, unsigned seed) {
  std::mt19937 random(seed);
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random() % variety);
  return bytes;
}

// A tree `from`, and images of it.
struct ImageSource {
  Scratch scratch = {};
  std::string tree = scratch / "from";

  ImageSource() { std::filesystem::create_directory(tree); }

  void write(const std::string& name, const std::string& content) const {
    std::filesystem::create_directories(std::filesystem::path(tree + "/" + name).parent_path());
    std::ofstream(tree + "/" + name, std::ios::binary) << content;
  }
  // Returns the path of a new image.
  [[nodiscard]] std::string pack(const std::string& options,
                                 const std::string& name = "image") const {
    const std::string path = scratch / name;
    const std::string command = "mksquashfs '" + tree + "' '" + path + "' -noappend -no-progress " +
                                options + " >/dev/null 2>&1";
    REQUIRE(std::system(command.c_str()) == 0);
    return path;
  }
};

struct OpenImage {
  Fd file;
  SquashImage image;

  explicit OpenImage(const std::string& path)
      : file(must(open_at(AT_FDCWD, path, O_RDONLY))), image(must(SquashImage::open(file.get()))) {}

  // Nothing: there is no such name.
  std::optional<ImageNode> find(const std::string& path) {
    ImageNode node = must(image.node(image.root()));
    for (const auto& part : std::filesystem::path(path)) {
      const auto id = must(image.find(node, part.string()));
      if (!id) return std::nullopt;
      node = must(image.node(*id));
    }
    return node;
  }
  std::string read(const ImageNode& node, std::uint64_t offset, std::size_t size) {
    std::string bytes(size, '?');
    bytes.resize(must(image.read(node, offset, std::as_writable_bytes(std::span(bytes)))));
    return bytes;
  }
  // Pieces of `most` names each.
  std::vector<std::string> list(const ImageNode& directory, std::size_t most) {
    std::vector<std::string> names;
    std::uint64_t from = 0;
    for (std::size_t got = most; got == most;) {
      got = 0;
      REQUIRE(image.list(directory, from, [&](const ImageEntry& entry) {
        names.emplace_back(entry.name);
        from = entry.next;
        return ++got < most;
      }));
    }
    return names;
  }
};

}  // namespace nodestage
