// Environments that are built from requirements, by pip or uv.
#include <doctest/doctest.h>

#include "texts.hpp"
#include "venv_run.hpp"

using namespace nodestage;

namespace {

// A python whose new environments have `main` as their pip.
std::string python_with_pip(const VenvRun& run, const std::string& main) {
  REQUIRE(run.in_data("cat >main <<'E'\n" + main + R"(
E
cat >py <<'E'
#!/bin/sh
/usr/bin/python3 "$1" "$2" --without-pip "$4" || exit
site=$(echo "$4"/lib/python3*/site-packages); mkdir "$site/pip"; : >"$site/pip/__init__.py"
cp "${0%/*}/main" "$site/pip/__main__.py"
E
chmod 755 py)") == 0);
  return run.data() + "/py";
}

}  // namespace

TEST_CASE("venv: requirements where they may not be built, or not as they are") {
  VenvRun run;
  REQUIRE(run.in_data("echo -e . >r.txt; echo '-e .' >r.txt") == 0);
  auto& item = run.add_venv("r.txt");
  CHECK(run.run() == 1);
  CHECK(has(run.cause(), "'-e .' is not a wheel"));
  run.order.venv.build = VenvBuild::off;
  CHECK(run.run() == 1);
  CHECK(has(run.cause(), "venv.build = \"off\""));
  run.order.venv.build = VenvBuild::any;
  item.python = "/opt/no/such/python";
  CHECK(run.run() == 1);
  CHECK(has(run.cause(), "node n1 has no /opt/no/such/python\n"));
  item.modules = {"python/3"};
  run.order.venv.module_init = "/no/such/init";
  CHECK(run.run() == 1);
  CHECK(has(run.cause(), "node n1 has no `module` command (/no/such/init)"));
}

// uv itself is in no distribution; this stand-in takes what its manual says of `uv venv` and
// `uv pip install`, and shows what it got.
TEST_CASE("venv: uv, where the site has it, gets python, place, wheels and what it must not do") {
  VenvRun run;
  REQUIRE(run.in_data(R"(mkdir w; echo pack >r.txt; cat >uv <<'E'
#!/bin/sh
echo "uv $*"; env | grep -E '^(UV|HOME|TMPDIR|X_1)' | sort
case $1 in
venv) exec "$3" -m venv --without-pip "$4" ;;
pip) [ -x "$4" ] ;;
esac
E
chmod 755 uv)") == 0);
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
    CHECK_MESSAGE(log.find(part) != std::string::npos, log);
  }
  CHECK(run.output("env/bin/python -c 'import sys; print(sys.prefix)'") == run.job() + "/env\n");
}

TEST_CASE("venv: requirements that name nothing, and wheels= that is no directory, are noted") {
  VenvRun run;
  REQUIRE(run.in_data(R"(printf '# none yet\n\n' >r.txt; cat >uv <<'E'
#!/bin/sh
case $1 in
venv) exec "$3" -m venv --without-pip "$4" ;;
esac
E
chmod 755 uv)") == 0);
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
  VenvRun run;
  REQUIRE(
      run.in_data("echo pack >r.txt; printf '#!/bin/sh\\nseq 100; echo \"No matching distribution "
                  "found for pack==1\"; exit 3\\n' >py; chmod 755 py") == 0);
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
    CHECK_MESSAGE(run.cause().find("One of the requirements is not a wheel") != std::string::npos,
                  run.cause());
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
  VenvRun run;
  REQUIRE(run.in_data(R"(echo pack >r.txt; mkdir -p home/.pip config/pip
printf '[global]\ntarget = /x\nno-deps = 1\ntimeout = 7\n' >home/.pip/pip.conf
printf '[global]\nfind-links =\n  /a\n  /b\nPREFIX=/x\n[install]\nroot = /x\n--log = /x\ntimeout = 8\n[list]\nformat = json\n' \
  >config/pip/pip.conf
printf '[install]\npython_version = 3.1\nretries = 3\n' >named.conf)") == 0);
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
    REQUIRE(run.in_data("echo 'demo @ https://host/demo-1-py3-none-any.whl' >r.txt") == 0);
    CHECK(run.run() == 1);
    CHECK(has(run.cause(), "' is downloaded, and an environment is built on a node without"));
  }
  SUBCASE("a variable") {
    REQUIRE(run.in_data("echo '${W}/${WHEEL}-1-py3-none-any.whl' >r.txt") == 0);
    CHECK(run.run() == 1);
    CHECK(has(run.cause(), "the build has no variable ${WHEEL}"));
  }
  SUBCASE("an interpreter") {
    REQUIRE(run.in_data(": >r.txt") == 0);
    item.python = "python9.9";
    item.environment = {"PATH=/usr/bin"};
    CHECK(run.run() == 1);
    CHECK(has(run.cause(), "node n1 has no python9.9 in the PATH of the submission"));
  }
}

TEST_CASE("venv: an interpreter's name is looked up in the PATH of the submission") {
  VenvRun run;
  REQUIRE(run.in_data(": >r.txt; mkdir bin; ln -s /usr/bin/python3 bin/mypython") == 0);
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
  REQUIRE(run.in_data("echo secret >secret; echo pack >r.txt; printf '#!/bin/sh\\n[ $2 = venv ] && "
                      "exit 3\\ncd \"${0%%/*}/../job/.nodestage-partial/items/0/build\"; rm log; " +
                      make + "; exit 4\\n' >py; chmod 755 py") == 0);
  run.add_venv("r.txt").python = run.data() + "/py";
  CHECK(run.run() == 1);
  CHECK(has(run.cause(), "exited with code 4"));
  CHECK_FALSE(has(run.cause(), "secret"));
}
