#include "daemon/worker/out/output_target.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <set>

#include "common/os/file.hpp"
#include "common/text/archive_names.hpp"
#include "common/text/glob_text.hpp"
#include "common/text/human.hpp"
#include "common/text/path_names.hpp"
#include "daemon/worker/deliver/output_report.hpp"
#include "daemon/worker/tree/glob_walk.hpp"
#include "daemon/worker/tree/pending_file.hpp"

namespace nodestage {
namespace {

Error named(const JobTree& job, const std::string& path, int code) {
  if (code == EXDEV) {
    const auto place = job.find({path});
    return Error{code, path + ": a link there leads out of the job directory" +
                           (place ? ", to " + nodestage::shown(place->path) : "") +
                           ": only the link is kept, and what is there is not; let the job put " +
                           "results into $SLURM_TMPDIR itself"};
  }
  if (code == ENOTCONN) {
    const Error fault = source_fault(system_error(path, code), {});
    return Error{fault.code, path + ": " + fault.what};
  }
  return system_error(path, code);
}

// Adds what one name of a glob with braces means; false: nothing.
Result<bool> add_matches(GlobWalk& walk, const JobTree& job, const std::string& name) {
  if (!is_path_below(name)) return false;
  const auto literal = job.find({name, LastLink::keep});
  if (literal && literal->kind == ResolvedPath::Kind::there) {
    walk.add_match(name);
    return true;
  }
  const std::size_t before = walk.count();
  const Status searched = walk.add(name);
  if (!searched && searched.error().code == E2BIG)
    return Error{E2BIG, name + ": too many directories would be searched"};
  if (!searched) return named(job, searched.error().what, searched.error().code);
  return walk.count() > before;
}

Result<OutputSource> expand(const JobTree& job, const std::string& glob) {
  OutputSource result;
  TRY_ASSIGN(const auto names, brace_texts(glob));
  GlobWalk walk(job);
  std::set<std::string_view> matched;  // the directories of what is there
  for (const std::string& name : names) {
    TRY_ASSIGN(const bool is_there, add_matches(walk, job, name));
    if (is_there) matched.insert(split_path(name).parent);
    if (!is_there) result.absent.push_back(name);
  }
  std::erase_if(result.absent, [&matched](const std::string& name) {  // "{*,.*}" misspells nothing
    const auto [parent, last] = split_path(name);
    return (last == "*" || last == "**" || last == ".*") && matched.contains(parent);
  });
  result.paths = walk.take_matches();
  if (!result.paths.empty()) result.kind = OutputSource::Kind::matches;
  return result;
}

}  // namespace

Result<OutputSource> find_output_source(const JobTree& job, const std::string& source) {
  const std::string path = source.substr(0, source.find_last_not_of('/') + 1);
  OutputSource result;
  const auto literal = job.find({path});
  if (!literal) return named(job, path, literal.error().code);
  if (literal->kind == ResolvedPath::Kind::outside) return named(job, path, EXDEV);
  if (literal->kind == ResolvedPath::Kind::there) {
    result.kind =
        S_ISDIR(literal->info.st_mode) ? OutputSource::Kind::directory : OutputSource::Kind::file;
    result.paths = {path};
    return result;
  }
  const auto link = job.find({path, LastLink::keep});
  result.is_dangling = link && link->kind == ResolvedPath::Kind::there;
  if (result.is_dangling || !is_glob(path)) return result;
  return expand(job, path);
}

Result<ResolvedPath> place_of(const JobTree& job, const OutputSource& source,
                              const std::string& path) {
  const bool is_match = source.kind == OutputSource::Kind::matches;
  auto place = job.find({path, is_match ? LastLink::keep : LastLink::follow});
  if (!place) return named(job, path, place.error().code);
  if (place->kind == ResolvedPath::Kind::there) return place;
  return named(job, path, place->kind == ResolvedPath::Kind::outside ? EXDEV : ENOENT);
}

namespace {

// Decides whether to pack, from the target's text before anything is added to it.
bool is_packed(const OutputItem& item, const OutputSource& source, const std::string& target) {
  if (item.pack) return true;
  if (archive_suffix(target).empty()) return false;
  return source.kind != OutputSource::Kind::file || archive_suffix(source.paths.front()).empty();
}

void split(const std::string& path, OutputTarget& target) {
  const std::size_t slash = path.rfind('/');
  target.directory = slash == 0 ? "/" : path.substr(0, slash);
  target.name = path.substr(slash + 1);
}

// The archive's name if TARGET is only the directory for it.
std::string default_archive_name(const NamedOrder& order, const OutputSource& source) {
  if (source.kind == OutputSource::Kind::matches) return "job-" + std::to_string(order.job);
  return last_part(source.paths.front());
}

OutputTarget archive_target(std::string path, const std::string& node, const NamedOrder& order,
                            const OutputSource& source) {
  OutputTarget target;
  target.form = OutputTarget::Form::archive;
  if (path.ends_with('/')) {
    if (!node.empty()) path += node + "/";
    path += default_archive_name(order, source) + ".tar.zst";
  } else {
    const std::string suffix = path.substr(path.size() - archive_suffix(path).size());
    path.resize(path.size() - suffix.size());
    if (!node.empty()) path += "." + node;
    path += suffix.empty() ? ".tar.zst" : suffix;
  }
  split(path, target);
  target.suffix = archive_suffix(target.name);
  return target;
}

OutputTarget plain_target(std::string path, const std::string& node, const OutputSource& source) {
  OutputTarget target;
  const bool ends_in_slash = path.ends_with('/');
  path.resize(path.find_last_not_of('/') + 1);  // "/" becomes empty
  if (!node.empty()) path += "/" + node;
  const bool contents = source.kind == OutputSource::Kind::directory && !ends_in_slash;
  if (source.kind == OutputSource::Kind::file && !ends_in_slash && node.empty() && !path.empty()) {
    target.form = OutputTarget::Form::named;
    split(path, target);
    return target;
  }
  target.form = contents ? OutputTarget::Form::contents : OutputTarget::Form::inside;
  target.directory = path.empty() ? "/" : path;
  return target;
}

// Syncs the name of a new directory; where its parent may not be read, all of its file system.
Status sync_name(int parent_fd, int made_fd) {
  const Fd parent(::openat(parent_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const Fd made(::openat(made_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const int rc = parent ? ::fsync(parent.get()) : made ? ::syncfs(made.get()) : 0;
  if (rc == 0 || is_sync_refusal(errno)) return {};
  return system_error("the target's file system did not store a new directory");
}

Result<Fd> make_directory(int parent_fd, const std::string& name, const std::string& path,
                          mode_t mode) {
  constexpr int k_flags = O_PATH | O_DIRECTORY;
  auto fd = open_at(parent_fd, name, k_flags);
  if (fd || fd.error().code != ENOENT) {
    if (fd) return fd;
    return system_error(path, fd.error().code);
  }
  const bool is_new = ::mkdirat(parent_fd, name.c_str(), mode) == 0;
  if (!is_new && errno != EEXIST) return system_error("cannot make the directory " + path);
  fd = open_at(parent_fd, name, k_flags);
  if (fd && is_new) TRY(sync_name(parent_fd, fd->get()));
  if (fd) return fd;
  if (fd.error().code == ENOENT) return Error{ENOENT, path + ": is a link that leads nowhere"};
  return system_error(path, fd.error().code);
}

}  // namespace

PatternFacts pattern_facts(const NamedOrder& order) {
  PatternFacts facts;
  facts.job = order.job;
  facts.restart = order.restart;
  facts.user = order.user;
  facts.node = order.node;
  if (order.node_index != k_no_number) facts.node_index = order.node_index;
  if (!order.job_name.empty()) facts.job_name = order.job_name;
  if (order.array_known) {
    const bool array = order.array_job != k_no_number;
    facts.array_job = array ? order.array_job : order.job;
    facts.array_task = array ? order.array_task : k_slurm_no_value;  // as its own %a
  }
  return facts;
}

PatternFacts strict_pattern_facts(const NamedOrder& order) {
  PatternFacts facts = pattern_facts(order);
  if (order.array_task == k_no_number) facts.array_task.reset();
  return facts;
}

std::string OutputTarget::path() const {
  if (name.empty()) return directory;
  return directory == "/" ? "/" + name : directory + "/" + name;
}

Result<OutputTarget> place_output(const OutputItem& item, const NamedOrder& order,
                                  const OutputSource& source) {
  auto expanded = expand_pattern(item.target, pattern_facts(order));
  if (!expanded) return expanded.error();
  std::string& path = *expanded;
  if (!path.starts_with('/')) return Error{EINVAL, path + ": the target is not an absolute path"};
  const std::string node = order.node_count > 1 && !names_node(item.target) ? order.node : "";
  if (is_packed(item, source, path)) return archive_target(std::move(path), node, order, source);
  return plain_target(std::move(path), node, source);
}

Result<Fd> make_directories(const std::string& path, mode_t last_mode) {
  if (auto whole = open_at(AT_FDCWD, path, O_PATH | O_DIRECTORY)) return whole;
  TRY_ASSIGN(Fd fd, open_at(AT_FDCWD, "/", O_PATH | O_DIRECTORY));
  std::size_t end = 0;
  for (;;) {
    const std::size_t begin = path.find_first_not_of('/', end);
    if (begin == std::string::npos) return fd;
    end = std::min(path.find('/', begin), path.size());
    const bool is_last = path.find_first_not_of('/', end) == std::string::npos;
    TRY_ASSIGN(fd, make_directory(fd.get(), path.substr(begin, end - begin), path.substr(0, end),
                                  is_last ? last_mode : 0777));
  }
}

}  // namespace nodestage
