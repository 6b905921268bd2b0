#include "daemon/worker/venv/venv.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <optional>
#include <utility>
#include <vector>

#include "common/os/file.hpp"
#include "common/os/mounts.hpp"
#include "common/text/human.hpp"
#include "common/text/path_names.hpp"
#include "daemon/worker/basis/fault.hpp"
#include "daemon/worker/tree/remove_tree.hpp"
#include "daemon/worker/tree/tree_walk.hpp"
#include "daemon/worker/venv/requirements.hpp"
#include "daemon/worker/venv/venv_build.hpp"
#include "daemon/worker/venv/venv_interpreter.hpp"
#include "daemon/worker/venv/venv_python.hpp"
#include "daemon/worker/venv/venv_relocation.hpp"

namespace nodestage {
namespace {

constexpr const char* k_advice =
    "--stage-venv takes a virtual environment (a directory with pyvenv.cfg) or one of conda (with "
    "conda-meta), an archive of one, or a requirements.txt";
constexpr const char* k_unpack = "bin/conda-unpack";
constexpr const char* k_left_out =
    "envs and pkgs of this conda installation are left out: name an environment in envs to stage "
    "that";
constexpr const char* k_activation =
    "for the environment's activation scripts and variables: source $NODESTAGE_VENV/bin/activate";
constexpr const char* k_list = "sources";
constexpr int k_max_depth = 16;  // "home/alice/envs/x" in an archive
constexpr const char* k_noexec =
    "$SLURM_TMPDIR is on a file system that is mounted noexec: compiled modules and programs of "
    "the environment do not work there, which your site's support can change";
constexpr const char* k_reminder = "after a `module load`: source $NODESTAGE_VENV/bin/activate";

// argv: the number of processes, a file of names that end in NUL, the directory of these files, and
// the directory that their code objects name. It starts processes without multiprocessing, which
// needs /dev/shm.
constexpr const char* k_compile = R"(
import os, py_compile, sys
count, names, here, there = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
with open(names, 'rb') as file:
    names = [os.fsdecode(name) for name in file.read().split(b'\0') if name]
def work(part):
    for name in names[part::count]:
        if os.path.islink(os.path.join(here, os.path.dirname(name), '__pycache__')):
            continue
        try:
            py_compile.compile(os.path.join(here, name), dfile=os.path.join(there, name), doraise=True)
        except Exception as fault:
            print('not compiled:', name, repr(fault)[:200])
    sys.stdout.flush()
children = []
for part in range(1, count):
    child = os.fork()
    if child == 0:
        work(part)
        os._exit(0)
    children.append(child)
work(0)
for child in children:
    os.waitpid(child, 0)
)";

// argv: the directory in which an interpreter must find its standard library.
constexpr const char* k_try =
    "import os, sys; sys.exit(not os.path.samefile(sys.prefix, sys.argv[1]))";

// The only name in a directory if that is a directory, otherwise "".
std::string only_directory(int dir_fd) {
  const std::string only = only_name(dir_fd);
  struct stat info {};
  const bool is_directory = !only.empty() &&
                            ::fstatat(dir_fd, only.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 &&
                            S_ISDIR(info.st_mode);
  return is_directory ? only : std::string();
}

bool is_regular(int dir_fd, const char* path) {
  const auto fd = open_beneath(dir_fd, path, O_PATH | O_NOFOLLOW);
  struct stat info {};
  return fd && ::fstat(fd->get(), &info) == 0 && S_ISREG(info.st_mode);
}

// What contains environments and is none.
Error no_environment(const std::string& source, int dir_fd) {
  for (const std::string inside : {"envs", ".pixi/envs"}) {
    if (dir_fd >= 0 && has_entry(dir_fd, inside))
      return fault(EINVAL, shown(source) + ": is no environment itself, but contains some",
                   "Name one of those in " + shown(source + "/" + inside));
  }
  return fault(EINVAL, shown(source) + ": is a directory without pyvenv.cfg and conda-meta",
               k_advice);
}

Error from_elsewhere(const std::string& source) {
  return fault(EINVAL,
               shown(source) +
                   ": is a conda environment whose files do not say where it was made, so its old "
                   "path cannot be replaced",
               "Stage the directory where it was made, or an archive that conda-pack makes of it");
}

Error no_programs(const std::string& source) {
  return fault(EACCES,
               shown(source) +
                   ": is a conda environment, whose programs cannot run in $SLURM_TMPDIR: that is "
                   "on a file system that is mounted noexec",
               "Ask your site's support, or use a container");
}

// Everything is borrowed.
class Venv {
 public:
  explicit Venv(const VenvContext& context)
      : item_(context.item), order_(context.order), meter_(context.meter), context_(context) {}

  Status make(Piece& piece, const Piece::Place& place) {
    const std::string kind = piece.kind();
    is_directory_ = kind == "directory";
    if (is_directory_) {
      TRY(copy(piece, place));
    } else if (kind == "file") {
      TRY(build(place));
    } else {
      TRY(extract(piece, place));
    }
    const std::string path = path_of(place.dir_fd) + "/" + place.name;
    const auto directory = open_directory_at(place.dir_fd, place.name);
    if (!directory) return system_error(path, directory.error().code);
    if (is_regular(directory->get(), k_unpack)) {
      if (is_noexec(place.dir_fd)) return no_programs(item_.source);
      TRY(start_commands(place));
      TRY(unpack_conda(path));
    } else if (venv_kind(directory->get()) == VenvKind::conda && options_.prefixes.empty()) {
      TRY(read_records(directory->get(), place));
    }
    if (kind != "file") {
      TRY(start_commands(place));
      // python= is set by the submission, too.
      if (!item_.wheels.empty()) add_note("nothing was built, so wheels= had no meaning");
    }
    TRY(relocate(directory->get(), place));
    if (is_noexec(place.dir_fd)) add_note(k_noexec);
    if (!item_.modules.empty()) add_note(k_reminder);
    return {};
  }

  [[nodiscard]] const std::string& note() const { return note_; }
  [[nodiscard]] bool has_log() const { return has_log_; }

 private:
  Status copy(Piece& piece, const Piece::Place& place) {
    TRY(check_source(place));
    TRY(piece.build(place));
    add_note(piece.note());
    return {};
  }

  // Finds what is wrong before thousands of files are read in vain.
  Status check_source(const Piece::Place& place) {
    const auto source = open_at(AT_FDCWD, item_.source, O_PATH | O_DIRECTORY);
    const VenvKind kind = source ? venv_kind(source->get()) : VenvKind::none;
    if (kind == VenvKind::none) {
      TRY(check_whole_environment(item_.source));
      return no_environment(item_.source, source ? source->get() : -1);
    }
    if (const std::string real = real_path(item_.source); !real.empty()) from_.push_back(real);
    from_.push_back(without_slashes(item_.source));
    options_.origin = from_.front();
    const std::string to = order_.directory + "/" + item_.destination;
    if (kind == VenvKind::venv) {
      TRY(venv_python(source->get(), VenvMove(from_, to), item_.source, order_.node));
      return {};
    }
    if (has_entry(source->get(), "envs") || has_entry(source->get(), "pkgs")) add_note(k_left_out);
    if (is_regular(source->get(), k_unpack)) return {};
    TRY(read_records(source->get(), place));
    if (item_.shared) return {};  // it goes to another path, which the relocation knows
    return check_room(source->get(), options_.prefixes,
                      VenvMove(from_, to, VenvMove::Match::prefix));
  }

  Status read_records(int dir_fd, const Piece::Place& place) {
    if (is_noexec(place.dir_fd)) return no_programs(item_.source);
    options_.env = EnvPython::take;
    TRY_ASSIGN(options_.prefixes, prefix_files(dir_fd, item_.source, meter_));
    return {};
  }

  Status extract(Piece& piece, const Piece::Place& place) {
    Piece::Place outer = place;
    outer.name += "-archive";
    TRY(piece.build(outer));
    add_note(piece.note());
    options_.env = EnvPython::take;
    const auto top = open_directory_at(place.dir_fd, outer.name);
    if (!top) return system_error(outer.name, top.error().code);
    if (venv_kind(top->get()) != VenvKind::none) {
      if (::renameat(place.dir_fd, outer.name.c_str(), place.dir_fd, place.name.c_str()) == 0)
        return {};
      return system_error(outer.name);
    }
    Fd parent(::fcntl(top->get(), F_DUPFD_CLOEXEC, 0));
    for (int depth = 0; depth < k_max_depth; ++depth) {
      const std::string inner = only_directory(parent.get());
      auto below = inner.empty() ? Result<Fd>(Error{}) : open_directory_at(parent.get(), inner);
      if (!below) break;
      if (venv_kind(below->get()) != VenvKind::none) {
        if (::renameat(parent.get(), inner.c_str(), place.dir_fd, place.name.c_str()) == 0)
          return {};
        return system_error(inner);
      }
      parent = std::move(*below);
    }
    return fault(
        EINVAL,
        shown(item_.source) +
            ": contains no virtual environment: there is no pyvenv.cfg or conda-meta at its "
            "top, or in a directory that is the only entry there",
        "Make it with: tar czf env.tar.gz -C DIR_OF_THE_ENVIRONMENT .");
  }

  Status start_commands(const Piece::Place& place) {
    if (commands_) return {};
    if (::mkdirat(place.dir_fd, k_venv_log_directory, 0700) != 0 && errno != EEXIST)
      return system_error(k_venv_log_directory);
    commands_.emplace(BuildContext{context_.builder, item_, order_, context_.stop,
                                   path_of(place.dir_fd) + "/" + k_venv_log_directory,
                                   context_.report});
    return {};
  }

  Status build(const Piece::Place& place) {
    TRY(start_commands(place));
    has_log_ = true;
    TRY(commands_->build(path_of(place.dir_fd) + "/" + place.name));
    const auto text = read_requirements(item_.source);
    if (text && !has_requirements(*text))
      add_note("the file names no package, so the environment has none");
    add_note(commands_->why_no_wheels());
    return {};
  }

  // conda-pack's own program writes the present path, which is the old one from then on.
  Status unpack_conda(const std::string& path) {
    if (order_.venv.build == VenvBuild::off) {
      return fault(
          EPERM,
          shown(item_.source) +
              ": was made by conda-pack, and its conda-unpack may not be run while a job is "
              "staged here (venv.build = \"off\")",
          "Run it in the job, or use a virtual environment");
    }
    options_.strings = RelocationOptions::Strings::move;
    has_log_ = true;
    return commands_->run({path + "/bin/python", path + "/bin/conda-unpack"},
                          {"conda-unpack",
                           "Unpack the archive into an empty directory and run bin/conda-unpack "
                           "there: if that fails, too, make it again with conda-pack"});
  }

  Status relocate(int dir_fd, const Piece::Place& place) {
    const std::string path = path_of(place.dir_fd) + "/" + place.name;
    for (auto& old : old_places(dir_fd)) from_.push_back(std::move(old));
    from_.push_back(path);
    TRY_ASSIGN(VenvPython python,
               venv_python(dir_fd, VenvMove(from_, path), item_.source, order_.node));
    // A program of an environment is not run.
    if (real_path(python.path).starts_with(path + "/")) python = {};
    TRY(take_interpreter(dir_fd, place, python));
    const std::string to = context_.decide();
    const VenvMove move(from_, to);
    TRY_ASSIGN(const Relocated relocated, relocate_environment(dir_fd, move, options_, meter_));
    if (relocated.is_from_elsewhere) return from_elsewhere(item_.source);
    meter_.files = relocated.files;
    meter_.bytes_written = relocated.bytes;
    for (const auto& note : relocated.notes) add_note(note);
    if (venv_kind(dir_fd) == VenvKind::conda) {
      TRY_ASSIGN(const bool does_more, write_activation(dir_fd, to));
      if (does_more) add_note(k_activation);
    }
    if (relocated.uncompiled.empty() || python.version.empty()) return {};
    // Its own interpreter is a program of the environment.
    if (python.path.empty() && order_.venv.build == VenvBuild::off) return {};
    const std::string program = python.path.empty() ? path + "/bin/python" : python.path;
    return compile(relocated.uncompiled, path, to, program);
  }

  // What cannot be staged is used where it is, as the source of the environment does.
  Status take_interpreter(int dir_fd, const Piece::Place& place, VenvPython& python) {
    const auto found = private_interpreter(python, item_);
    // The key of what is shared knows only that of a directory.
    const bool is_unknown = item_.shared && !is_directory_;
    if (!found || is_unknown || is_noexec(place.dir_fd) ||
        !VenvMove(from_, "/").moved(found->program).empty())
      return {};
    const std::string subject = "its interpreter " + shown(found->prefix);
    const std::string stays = subject + " is still read from there: ";
    if (has_entry(dir_fd, std::string(k_own_python))) {
      add_note(stays + "the environment has another one in " + std::string(k_own_python));
      return {};
    }
    const MeterMark mark(meter_);
    const std::uint64_t before = meter_.bytes_written;
    const std::string own = path_of(dir_fd) + "/" + std::string(k_own_python);
    const WritableDirectory writable(dir_fd);
    Status copied = copy_interpreter(*found, dir_fd, place);
    Status tried = copied
                       ? commands_->run({own + "/bin/" + found->name, "-I", "-S", "-c", k_try, own},
                                        {"a copy of it", ""})
                       : Status();
    if (copied && tried) {
      options_.interpreter = found->program;
      python.path = own + "/bin/" + found->name;
      add_note(subject + " (" + human_bytes(meter_.bytes_written - before) + ") is staged, too" +
               found->library_note());
      return {};
    }
    if (!copied && is_stopped(copied.error())) return copied;
    if (!tried && is_stopped(tried.error())) return tried;
    static_cast<void>(!remove_entry(dir_fd, std::string(k_own_python)));
    place.space.removed(meter_.bytes_written - before);
    mark.restore();
    add_note(stays + (copied ? "a copy of it does not work" : copied.error().what));
    return {};
  }

  Status copy_interpreter(const PrivateInterpreter& found, int dir_fd, const Piece::Place& place) {
    PieceLimits limits;
    limits.threads = order_.threads;
    limits.rules = order_.extract;
    TRY_ASSIGN(Piece piece, Piece::open(found.prefix, found.parts(), meter_, limits));
    if (context_.relay != nullptr) piece.relay_by(*context_.relay);
    return piece.build({dir_fd, std::string(k_own_python), place.umask, place.space});
  }

  // Uses the program outside, which runs none of the environment's files (-I -S), or that of conda.
  Status compile(const std::vector<std::string>& names, const std::string& path,
                 const std::string& to, const std::string& program) {
    std::string list;
    for (const auto& name : names) list.append(name).push_back('\0');
    const std::string file = commands_->scratch() + "/" + k_list;
    TRY_ASSIGN(const Fd fd, open_at(AT_FDCWD, file, O_WRONLY | O_CREAT | O_EXCL, 0600));
    TRY(write_all(fd.get(), std::string_view(list)));
    Status done = commands_->run(
        {program, "-I", "-S", "-c", k_compile, std::to_string(order_.threads), file, path, to},
        {"the compilation of Python files", ""});
    if (!done && is_stopped(done.error())) return done;
    if (!done) add_note("its Python files are compiled when they are first imported");
    return {};
  }

  void add_note(const std::string& text) {
    if (text.empty()) return;
    if (!note_.empty()) note_ += "; ";
    note_ += text;
  }

  const VenvItem& item_;
  const StageOrder& order_;
  Meter& meter_;
  const VenvContext& context_;
  std::optional<EnvironmentBuild> commands_;
  std::vector<std::string> from_;  // where it was before, as far as the source shows
  RelocationOptions options_;
  std::string note_;
  bool has_log_ = false;
  bool is_directory_ = false;  // the source
};

}  // namespace

std::string kind_of_venv(const Piece& piece) {
  const std::string kind = piece.kind();
  if (kind == "directory") return "venv";
  return kind == "file" ? "requirements" : kind + " of a venv";
}

MadeVenv make_venv(Piece& piece, const Piece::Place& place, const VenvContext& context) {
  Venv venv(context);
  Status status = venv.make(piece, place);
  return {std::move(status), venv.note(), venv.has_log()};
}

}  // namespace nodestage
