// Environments that are built from requirements, by pip or uv.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "common/os/file.hpp"
#include "daemon/worker/basis/fault.hpp"
#include "daemon/worker/venv/builder.hpp"
#include "stage_run.hpp"
#include "texts.hpp"
#include "venv_run.hpp"

using namespace nodestage;
using Clock = Builder::Clock;

namespace {

// A python whose new environments have `main` as their pip.
std::string python_with_pip(const VenvRun& run, const std::string& main) {
  run.prepare("cat >main <<'E'\n" + main + R"(
E
cat >py <<'E'
#!/bin/sh
/usr/bin/python3 "$1" "$2" --without-pip "$4" || exit
site=$(echo "$4"/lib/python3*/site-packages); mkdir "$site/pip"; : >"$site/pip/__init__.py"
cp "${0%/*}/main" "$site/pip/__main__.py"
E
chmod 755 py)");
  return run.data() + "/py";
}

}  // namespace

TEST_CASE("venv: requirements where they may not be built, or not as they are") {
  VenvRun run("echo -e . >r.txt; echo '-e .' >r.txt");
  auto& item = run.add_venv("r.txt");
  CHECK(run.run() == 1);
  CHECK(run.has_cause("'-e .' is not a wheel"));
  run.order.venv.build = VenvBuild::off;
  CHECK(run.run() == 1);
  CHECK(run.has_cause("venv.build = \"off\""));
  run.order.venv.build = VenvBuild::any;
  item.python = "/opt/no/such/python";
  CHECK(run.run() == 1);
  CHECK(run.has_cause("node n1 has no /opt/no/such/python\n"));
  item.modules = {"python/3"};
  run.order.venv.module_init = "/no/such/init";
  CHECK(run.run() == 1);
  CHECK(run.has_cause("node n1 has no `module` command (/no/such/init)"));
}

// uv itself is in no distribution; this stand-in takes what its manual says of `uv venv` and
// `uv pip install`, and shows what it got.
TEST_CASE("venv: uv, where the site has it, gets python, place, wheels and what it must not do") {
  VenvRun run(R"(mkdir w; echo pack >r.txt; cat >uv <<'E'
#!/bin/sh
echo "uv $*"; env | grep -E '^(UV|HOME|TMPDIR|X_1)' | sort
case $1 in
venv) exec "$3" -m venv --without-pip "$4" ;;
pip) [ -x "$4" ] ;;
esac
E
chmod 755 uv)");
  auto& item = run.add_venv("r.txt");
  item.python = "/usr/bin/python3";
  item.wheels = run.data() + "/w";
  item.environment = {"X_1=of the user", "UV_CACHE_DIR=/home/a/cache", "HOME=/home/a"};
  run.order.venv.installer = VenvInstaller::uv;
  run.order.venv.uv = run.data() + "/uv";
  run.order.venv.find_links = {"/site"};
  const std::string built = run.job() + "/.nodestage-partial/items/0/";
  std::string home = "/home/a";  // which `~` in a configuration means
  std::string only = "--only-binary :all: ";
  SUBCASE("of wheels") {}
  SUBCASE("of sources, whose code may write to HOME") {
    run.order.venv.build = VenvBuild::any;
    home = built + "build/home";
    only = "";
  }
  REQUIRE_MESSAGE(run.run() == 0, run.cause());
  CHECK(run.what() == "requirements");
  const std::string log = run.output("cat env.log");
  for (const std::string& part :
       {"uv venv --python /usr/bin/python3 " + built + "one\n",
        "uv pip install --python " + built + "one/bin/python --no-index --find-links " +
            run.data() + "/w --find-links /site " + only + "-r " + run.data() + "/r.txt\n",
        "HOME=" + home + "\n", "TMPDIR=" + built + "build/tmp\n",
        "UV_CACHE_DIR=" + built + "build/cache/uv\n", std::string("UV_OFFLINE=1\n"),
        std::string("UV_PYTHON_DOWNLOADS=never\n"), std::string("X_1=of the user\n")}) {
    CHECK_MESSAGE(has(log, part), log);
  }
  CHECK(run.output("env/bin/python -c 'import sys; print(sys.prefix)'") == run.job() + "/env\n");
}

TEST_CASE("venv: requirements that name nothing, and wheels= that is no directory, are noted") {
  VenvRun run(R"(printf '# none yet\n\n' >r.txt; cat >uv <<'E'
#!/bin/sh
case $1 in
venv) exec "$3" -m venv --without-pip "$4" ;;
esac
E
chmod 755 uv)");
  auto& item = run.add_venv("r.txt");
  item.python = "/usr/bin/python3";
  item.wheels = run.data() + "/whels";
  run.order.venv.installer = VenvInstaller::uv;
  run.order.venv.uv = run.data() + "/uv";
  REQUIRE_MESSAGE(run.run() == 0, run.cause());
  CHECK(has(run.note(), "the file names no package, so the environment has none"));
  CHECK(has(run.note(), "/whels is no directory on node n1"));
}

TEST_CASE("venv: a failed build shows the last lines of its log, and keeps it beside") {
  VenvRun run(
      "echo pack >r.txt; printf '#!/bin/sh\\nseq 100; echo \"No matching distribution "
      "found for pack==1\"; exit 3\\n' >py; chmod 755 py");
  run.add_venv("r.txt").python = run.data() + "/py";
  run.request.venv->optional = true;
  REQUIRE(run.run() == 0);
  CHECK(run.state() == ItemState::failed);
  const std::string note = run.note();
  CHECK(has(note, "-m virtualenv after it, exited with code 3\n  | 90\n"));
  CHECK(has(note, "\nOnly wheels count"));
  CHECK(note.ends_with("and give wheels=DIR"));
  CHECK(has(note, "Put a wheel of pack that"));
  CHECK_FALSE(has(note, "login"));  // `run` says it, too
  CHECK(run.output("tail -n 1 env.log") == "No matching distribution found for pack==1\n");
  CHECK(run.in_job("test \"$(ls -A | xargs)\" = env.log"));
}

// The pip of this test says where it runs and starts a program, as who builds from sources does.
TEST_CASE("venv: pip starts nothing for wheels, and no file beside the requirements is a module") {
  VenvRun run;
  REQUIRE(run.in_data(R"(echo pack >r.txt
for name in logging runpy resource venv pip; do echo 'open("/dev/stderr", "w").write("imported\n")' >$name.py; done)") ==
          0);
  run.add_venv("r.txt").python = python_with_pip(run, R"(import os, subprocess, sys
print('pip in', os.getcwd(), *sys.argv[1:3], flush=True)
subprocess.run(['true'])
print('started'))");
  SUBCASE("wheels") {
    CHECK(run.run() == 1);
    CHECK(run.has_cause("One of the requirements is not a wheel"));
  }
  SUBCASE("any") {
    run.order.venv.build = VenvBuild::any;
    REQUIRE_MESSAGE(run.run() == 0, run.cause());
    CHECK(run.output("tail -n 1 env.log") == "started\n");
  }
  CHECK(run.output("grep -c imported env.log") == "0\n");
  CHECK(run.output("grep 'pip in' env.log") == "pip in " + run.data() + " install --no-compile\n");
}

TEST_CASE("venv: settings of the user's pip apply, but none that puts packages elsewhere") {
  VenvRun run(R"(echo pack >r.txt; mkdir -p home/.pip config/pip
printf '[global]\ntarget = /x\nno-deps = 1\ntimeout = 7\n' >home/.pip/pip.conf
printf '[global]\nfind-links =\n  /a\n  /b\nPREFIX=/x\n[install]\nroot = /x\n--log = /x\ntimeout = 8\n[list]\nformat = json\n' \
  >config/pip/pip.conf
printf '[install]\npython_version = 3.1\nretries = 3\n' >named.conf)");
  auto& item = run.add_venv("r.txt");
  item.python = python_with_pip(run, R"(import os
for name in sorted(os.environ):
    if name.startswith('PIP_'): print('got', name, os.environ[name].split()))");
  item.environment = {"HOME=" + run.data() + "/home", "XDG_CONFIG_HOME=" + run.data() + "/config",
                      "PIP_TARGET=/x", "PIP_CONSTRAINT=/c"};
  std::string got = "PIP_FIND_LINKS ['/a', '/b']\nPIP_NO_DEPS ['1']\nPIP_TIMEOUT ['8']\n";
  SUBCASE("of the user") {}
  SUBCASE("of the user, where the code of sources has another HOME") {
    run.order.venv.build = VenvBuild::any;
  }
  SUBCASE("of a file that a variable names, alone") {
    item.environment.push_back("PIP_CONFIG_FILE=" + run.data() + "/named.conf");
    got = "PIP_RETRIES ['3']\n";
  }
  REQUIRE_MESSAGE(run.run() == 0, run.cause());
  // This machine may have settings of its own.
  const std::string ours =
      "CONFIG_FILE|CONSTRAINT|FIND_LINKS|FORMAT|LOG|NO_DEPS|PREFIX|PYTHON_VERSION|RETRIES|ROOT|"
      "TARGET|TIMEOUT";
  CHECK(run.output("sed -n 's/^got //p' env.log | grep -E '^PIP_(" + ours + ") '") ==
        "PIP_CONFIG_FILE ['/dev/null']\nPIP_CONSTRAINT ['/c']\n" + got);
}

TEST_CASE("venv: what a build cannot reach is said before anything runs") {
  VenvRun run;
  auto& item = run.add_venv("r.txt");
  item.python = "/usr/bin/python3";
  item.environment = {"W=/w"};
  SUBCASE("an address") {
    run.prepare("echo 'demo @ https://host/demo-1-py3-none-any.whl' >r.txt");
    CHECK(run.run() == 1);
    CHECK(run.has_cause("' is downloaded, and an environment is built on a node without"));
  }
  SUBCASE("a variable") {
    run.prepare("echo '${W}/${WHEEL}-1-py3-none-any.whl' >r.txt");
    CHECK(run.run() == 1);
    CHECK(run.has_cause("the build has no variable ${WHEEL}"));
  }
  SUBCASE("an interpreter") {
    run.prepare(": >r.txt");
    item.python = "python9.9";
    item.environment = {"PATH=/usr/bin"};
    CHECK(run.run() == 1);
    CHECK(run.has_cause("node n1 has no python9.9 in the PATH of the submission"));
  }
}

TEST_CASE("venv: an interpreter's name is looked up in the PATH of the submission") {
  VenvRun run(": >r.txt; mkdir bin; ln -s /usr/bin/python3 bin/mypython");
  auto& item = run.add_venv("r.txt");
  item.python = "mypython";
  item.environment = {"PATH=/usr/bin:" + run.data() + "/bin"};
  REQUIRE_MESSAGE(run.run() == 0, run.cause());
  CHECK(run.output("grep ^home env/pyvenv.cfg") == "home = " + run.data() + "/bin\n");
}

TEST_CASE("venv: a build that leaves something else than its log") {
  VenvRun run;
  std::string make = "mkfifo log";
  SUBCASE("a FIFO") {}
  SUBCASE("a link") { make = "ln -s " + run.data() + "/secret log"; }
  run.prepare(
      "echo secret >secret; echo pack >r.txt; printf '#!/bin/sh\\n[ $2 = venv ] && "
      "exit 3\\ncd \"${0%%/*}/../job/.nodestage-partial/items/0/build\"; rm log; " +
      make + "; exit 4\\n' >py; chmod 755 py");
  run.add_venv("r.txt").python = run.data() + "/py";
  CHECK(run.run() == 1);
  CHECK(run.has_cause("exited with code 4"));
  CHECK_FALSE(run.has_cause("secret"));
}

namespace {

// In a child of its own, since the sandbox is for good and no_new_privs must be set.
class BuilderRun {
 public:
  Scratch scratch;
  std::atomic<bool> stop = false;

  template <typename Test>
  int run(Test test) {
    std::filesystem::create_directory(scratch / "job");
    if (::geteuid() == 0) {
      REQUIRE(::chown((scratch / "job").c_str(), k_test_uid, k_test_uid) == 0);
      REQUIRE(::chown(scratch.path().c_str(), k_test_uid, k_test_uid) == 0);
    }
    return as_user([&] {
      ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
      const Fd job(::open((scratch / "job").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
      auto builder = Builder::start(job.get(), 022);
      return builder ? test(*builder) : 99;
    });
  }

  BuildCommand shell(const std::string& text) const {
    return {{"/bin/sh", "-c", text}, {"A=b c"}, scratch / "job", scratch / "job/log", ""};
  }

  Result<int> execute(Builder& builder, const std::string& text) const {
    return builder.run(shell(text), Clock::now() + std::chrono::minutes(1), stop,
                       [] { return Status(); });
  }

  [[nodiscard]] std::string log() const {
    const auto text = read_file(AT_FDCWD, scratch / "job/log", 1 << 20);
    return text ? *text : "";
  }
};

bool has_landlock() { return ::syscall(SYS_landlock_create_ruleset, nullptr, 0, 1) >= 2; }

}  // namespace

TEST_CASE("builder: exit codes, environment, directory, log") {
  BuilderRun run;
  CHECK(run.run([&](Builder& builder) {
    if (*run.execute(builder, "echo \"$A\"; pwd; env | wc -l; ls /proc/self/fd | xargs; exit 7") !=
        7)
      return 1;
    if (*run.execute(builder, "kill -9 $$") != 128 + 9) return 2;
    BuildCommand command = run.shell("echo out; echo log >&2");
    command.output = run.scratch / "job/out";
    const auto done = builder.run(command, Clock::now() + std::chrono::minutes(1), run.stop,
                                  [] { return Status(); });
    if (!done || *done != 0) return 3;
    command.arguments = {"/no/such/program"};
    const auto missing = builder.run(command, Clock::now() + std::chrono::minutes(1), run.stop,
                                     [] { return Status(); });
    return missing && *missing == 127 ? 0 : 4;
  }) == 0);
  CHECK(run.log().starts_with("b c\n" + (run.scratch / "job") + "\n"));
  CHECK(has(run.log(), "\n0 1 2 3\n"));  // 3: ls's own
  check_has(run.log(), {"/no/such/program: No such file or directory", "\nlog\n"});
  CHECK_FALSE(has(run.log(), "\nout\n"));
}

TEST_CASE("builder: a deadline, a stop and a failed check end all that was started") {
  BuilderRun run;
  std::string command = "setsid sleep 1000 & sleep 1000 & echo $! $$ >pids; wait";
  int first = 0;
  int second = 0;
  const auto has_started = [&] {
    const auto pids = read_file(AT_FDCWD, run.scratch / "job/pids", 100);
    return pids && std::sscanf(pids->c_str(), "%d %d", &first, &second) == 2;
  };
  const auto all_gone = [&](Builder& builder, Clock::time_point deadline, const Status& answer) {
    std::filesystem::remove(run.scratch / "job/pids");
    const auto done = builder.run(run.shell(command), deadline, run.stop,
                                  [&] { return has_started() ? answer : Status(); });
    if (done) return Error{0, "it ended"};
    if (!has_started()) return Error{EAGAIN, "no pids"};
    if (::kill(first, 0) == 0 || ::kill(second, 0) == 0) return Error{0, "alive"};
    return done.error();
  };
  const auto later = Clock::now() + std::chrono::minutes(1);
  int code = EAGAIN;
  for (int limit_ms = 300; code == EAGAIN && limit_ms < 60'000; limit_ms *= 4) {
    code = run.run([&](Builder& builder) {
      return all_gone(builder, Clock::now() + std::chrono::milliseconds(limit_ms), {}).code;
    });
  }
  CHECK(code == ETIMEDOUT);
  CHECK(run.run([&](Builder& builder) {
    const auto fault = all_gone(builder, later, Error{ENOSPC, "full"});
    return fault.what == "full" && !run.execute(builder, "true") ? 0 : 1;
  }) == 0);
  run.stop = true;
  command = "echo 1 1 >pids; sleep 1000";
  CHECK(run.run([&](Builder& builder) {
    return is_stopped(builder.run(run.shell("sleep 1000"), later, run.stop, [] { return Status(); })
                          .error())
               ? 0
               : 1;
  }) == 0);
}

TEST_CASE("builder: writes stay below the job directory, where the kernel can say so") {
  if (!has_landlock()) {
    MESSAGE("not tested: no Landlock in this kernel");
    return;
  }
  BuilderRun run;
  const std::string out = run.scratch / "outside";
  CHECK(run.run([&](Builder& builder) {
    if (*run.execute(builder,
                     "echo x >inside && mkdir d && mv inside d/ && rm -r d && "
                     "echo >/dev/null && head -c 1 /dev/urandom >/dev/null") != 0)
      return 1;
    if (*run.execute(builder, "echo x >" + out) == 0) return 2;
    if (*run.execute(builder, "ln -s " + out + " link; echo x >link") == 0) return 3;
    if (*run.execute(builder, "echo >/dev/tty || : >/dev/shm/nodestage-test") == 0) return 4;
    if (*run.execute(builder, "mkdir ../sibling") == 0) return 5;
    return 0;
  }) == 0);
  CHECK_FALSE(std::filesystem::exists(out));
}

TEST_CASE("builder: no network, no tracing, no other namespaces, and all that programs need") {
  BuilderRun run;
  const int code = run.run([&](Builder& builder) {
    return *run.execute(builder, R"(exec /usr/bin/python3 -I -c '
import ctypes, socket, subprocess, threading
libc = ctypes.CDLL(None, use_errno=True)
for family in (socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK, 38):
    try:
        socket.socket(family, socket.SOCK_DGRAM)
        print("a socket of family", family)
    except PermissionError:
        pass
for name, arguments in {"unshare": (0x10000000,), "ptrace": (0, 0, 0, 0), "setns": (0, 0)}.items():
    if getattr(libc, name)(*arguments) != -1 or ctypes.get_errno() != 1:
        print(name, "is not refused")
socket.socketpair()
socket.socket(socket.AF_UNIX)
thread = threading.Thread(target=subprocess.run, args=(["true"],))
thread.start()
thread.join()
print("all done")
')");
  });
  CHECK(code == 0);
  CHECK(run.log() == "all done\n");
}

TEST_CASE("builder: what leaves its session and its parent ends with its command") {
  BuilderRun run;
  CHECK(run.run([&](Builder& builder) {
    const auto done = run.execute(builder,
                                  "(setsid sh -c 'echo $$ >new; mv new pid; exec sleep 1000' &); "
                                  "until [ -e pid ]; do :; done");
    const auto text = read_file(AT_FDCWD, run.scratch / "job/pid", 100);
    const int pid = text ? std::atoi(text->c_str()) : 0;
    return done && *done == 0 && pid > 1 && ::kill(pid, 0) != 0 ? 0 : 1;
  }) == 0);
}
