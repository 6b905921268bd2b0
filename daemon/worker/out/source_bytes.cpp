#include "daemon/worker/out/source_bytes.hpp"

#include <sys/stat.h>

#include <utility>

#include "daemon/worker/tree/tree_walk.hpp"

namespace nodestage {
namespace {

std::uint64_t size_of(const struct stat& info) { return static_cast<std::uint64_t>(info.st_size); }

// Of what is below a directory of the tree, `path`.
std::uint64_t bytes_below(Fd directory, const std::string& path, const LeavesOut& leaves_out,
                          const LeavesOut& is_there) {
  std::uint64_t bytes = 0;
  auto walk = TreeWalk::begin(std::move(directory), WalkFor::reading);
  if (!walk) return bytes;
  for (;;) {
    const auto step = walk->next();
    if (!step || !*step) return bytes;
    const bool is_directory = (*step)->kind == WalkStep::Kind::directory;
    const bool is_file = (*step)->kind == WalkStep::Kind::leaf && S_ISREG((*step)->info.st_mode);
    if (!is_directory && !is_file) continue;
    const std::string name = walk->path(**step);
    const std::string whole = std::string(path).append("/").append(name);
    const bool is_out = leaves_out && leaves_out(whole, (*step)->info);
    if (is_directory && is_out && !walk->skip()) return bytes;
    if (is_file && !is_out && !is_there(name, (*step)->info)) bytes += size_of((*step)->info);
  }
}

}  // namespace

std::uint64_t bytes_of(const OutputSource& source, const JobResults& job,
                       const LeavesOut& leaves_out, const IsThere& is_there) {
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < source.paths.size(); ++i) {
    const auto place = place_of(job.tree, source, source.paths[i]);
    if (!place) continue;
    const LeavesOut is_there_below = [&is_there, i](const std::string& path,
                                                    const struct stat& info) {
      return is_there && is_there(i, path, info);
    };
    if (S_ISREG(place->info.st_mode) && !is_there_below("", place->info))
      bytes += size_of(place->info);
    if (!S_ISDIR(place->info.st_mode)) continue;
    if (auto directory = place->open_directory())
      bytes += bytes_below(std::move(*directory), place->path, leaves_out, is_there_below);
  }
  return bytes;
}

}  // namespace nodestage
