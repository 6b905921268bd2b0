#include <doctest/doctest.h>

#include "texts.hpp"
#include "venv_run.hpp"

using namespace nodestage;

namespace {

// The environment works in its place, with the old one gone, and its first import compiles nothing.
void check_works(VenvRun& run, const std::string& place = "env") {
  REQUIRE_MESSAGE(run.run() == 0, run.cause());
  CHECK(run.state() == ItemState::done);
  const std::string env = run.job() + "/" + place;
  CHECK(run.status.environment == std::vector<std::string>{"NODESTAGE_VENV=" + env});
  REQUIRE(run.in_data(
              "for d in *; do [ ! -d \"$d\" ] || chmod -R u+w \"$d\"; rm -rf \"$d\"; done") == 0);
  const std::string q = "'" + place + "'";
  CHECK(run.output("stamp=$(find " + q + " -name '*.pyc' -printf '%p %i %T@ %s\\n' | sort); " + q +
                   "/bin/show; now=$(find " + q +
                   " -name '*.pyc' -printf '%p %i %T@ %s\\n' | sort); " +
                   "[ \"$stamp\" = \"$now\" ] && [ -n \"$now\" ] && echo unchanged") ==
        env + "/share " + env + "\nunchanged\n");
  CHECK(run.output(". " + q + "/bin/activate && echo \"$VIRTUAL_ENV\" && deactivate && echo ok") ==
        env + "\nok\n");
  CHECK(run.output("grep -rlaF '" + run.data() + "' " + q + " --exclude='*.pyc'").empty());
  // RECORD tells of what is there.
  CHECK(run.output(
            q +
            "/bin/python -c 'import csv, glob, hashlib, base64, os\n"
            "record, = glob.glob(\"" +
            place +
            "/lib/python*/site-packages/pack-1.dist-info/RECORD\")\n"
            "for name, told, size in csv.reader(open(record)):\n"
            "  if told:\n"
            "    data = open(os.path.join(os.path.dirname(record), \"..\", name), \"rb\").read()\n"
            "    real = "
            "base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip(\"=\")\n"
            "    print(name, told == \"sha256=\" + real, int(size) == len(data))'") ==
        "../../../bin/show True True\npack/__init__.py True True\n");
}

}  // namespace

TEST_CASE("venv: a directory is copied and relocated") {
  VenvRun run;
  SUBCASE("links") { REQUIRE(run.make("old") == 0); }
  SUBCASE("copies") { REQUIRE(run.make("old", "--copies") == 0); }
  SUBCASE("system site packages") { REQUIRE(run.make("old", "--system-site-packages") == 0); }
  run.add_venv("old");
  check_works(run);
  CHECK(run.what() == "venv");
  CHECK(run.note().empty());  // no module was named that the job could load again
}

TEST_CASE("venv: names with blanks and other letters, there and here") {
  VenvRun run;
  REQUIRE(run.make("my \xc3\xb6ld env") == 0);
  run.add_venv("my \xc3\xb6ld env").destination = "my n\xc3\xa9w/env";
  check_works(run, "my n\xc3\xa9w/env");
}

TEST_CASE("venv: a path beyond what a #! line can hold") {
  VenvRun run;
  REQUIRE(run.make("old") == 0);
  const std::string place = std::string(100, 'd') + "/" + std::string(100, 'e') + "/env";
  run.add_venv("old").destination = place;
  check_works(run, place);
}

TEST_CASE("venv: a link to it, and one that was moved by hand") {
  VenvRun run;
  REQUIRE(run.make("made") == 0);
  REQUIRE(run.in_data("mv made moved; ln -s moved link") == 0);
  run.add_venv("link");
  check_works(run);
}

TEST_CASE("venv: files and directories that may not be written") {
  VenvRun run;
  REQUIRE(run.make("old") == 0);
  REQUIRE(run.in_data("chmod -R a-w old") == 0);
  run.add_venv("old");
  check_works(run);
}

TEST_CASE("venv: an archive behind a #! that is larger than any text") {
  VenvRun run;
  REQUIRE(run.make("old") == 0);
  REQUIRE(run.in_data("{ printf '#!%s/old/bin/python3\\n' \"$PWD\"; head -c 9000000 /dev/zero; } "
                      ">old/bin/app; chmod 755 old/bin/app") == 0);
  run.add_venv("old");
  REQUIRE_MESSAGE(run.run() == 0, run.cause());
  CHECK(run.output("head -n 1 env/bin/app") == "#!" + run.job() + "/env/bin/python3\n");
}

TEST_CASE("venv: archives") {
  VenvRun run;
  REQUIRE(run.make("old") == 0);
  SUBCASE("of what is in it") { REQUIRE(run.in_data("tar czf env.tgz -C old .; rm -r old") == 0); }
  SUBCASE("of the directory") { REQUIRE(run.in_data("tar czf env.tgz old; rm -r old") == 0); }
  SUBCASE("of the directory by a longer name") {
    REQUIRE(run.in_data("mkdir -p a/b; mv old a/b; tar czf env.tgz a; rm -r a") == 0);
  }
  SUBCASE("zip, whose times are too coarse for compiled files") {
    REQUIRE(run.in_data("zip -qryX env.zip old; mv env.zip env.tgz; rm -r old") == 0);
  }
  SUBCASE("with scripts as venv-pack leaves them") {
    REQUIRE(run.in_data("sed -i '1s|.*|#!/usr/bin/env python3|' old/bin/show; tar czf env.tgz old; "
                        "rm -r old") == 0);
  }
  run.add_venv("env.tgz");
  check_works(run);
  CHECK(run.what().ends_with(" of a venv"));
}

TEST_CASE("venv: what is none is refused in words") {
  VenvRun run;
  REQUIRE(run.in_data(
              "mkdir -p dir/sub x/y; echo a >dir/sub/a; tar cf dir.tar dir x; echo >p.toml; "
              "mkdir empty; touch empty/pyvenv.cfg; mkdir -p c/bin c/conda-meta; tar cf c.tar c") ==
          0);
  const auto refused = [&](const std::string& name, const char* words) {
    run.add_venv(name);
    CHECK(run.run() == 1);
    CHECK_MESSAGE(run.cause().find(words) != std::string::npos, run.cause());
    CHECK(run.cause().starts_with("the environment: "));
    CHECK(run.in_job("test -z \"$(ls -A)\" || ls -A"));
  };
  refused("dir", "is a directory without pyvenv.cfg\n--stage-venv takes");
  refused("dir.tar", "contains no virtual environment");
  refused("p.toml", "is not a requirements file");
  refused("nowhere", "No such file or directory");
  refused("empty", "has no bin/python");
  refused("c", "is a conda environment, which cannot be moved as it is");
  refused("c.tar", "is a conda environment, which cannot be moved as it is");
}

TEST_CASE("venv: an interpreter that is missing here is named") {
  VenvRun run;
  REQUIRE(run.make("old") == 0);
  SUBCASE("a link") {
    REQUIRE(
        run.in_data(
            "ln -sfn /opt/no/such/bin/python3 old/bin/python3; ln -sfn python3 old/bin/python") ==
        0);
    run.add_venv("old");
  }
  SUBCASE("a link in an archive") {
    REQUIRE(run.in_data("ln -sfn /opt/no/such/bin/python3 old/bin/python; tar cf env.tar old") ==
            0);
    run.add_venv("env.tar");
  }
  SUBCASE("the home of a copy") {
    REQUIRE(run.in_data("rm old/bin/python*; cp /usr/bin/python3 old/bin/python; "
                        "sed -i 's|^home = .*|home = /opt/no/such/bin|' old/pyvenv.cfg") == 0);
    run.add_venv("old");
  }
  CHECK(run.run() == 1);
  CHECK_MESSAGE(run.cause().find(
                    "was made with /opt/no/such/bin/python3, and node n1 has no such program\n") !=
                    std::string::npos,
                run.cause());
}

TEST_CASE("venv: another version of Python") {
  VenvRun run;
  REQUIRE(run.make("old") == 0);
  REQUIRE(run.in_data("mv old/lib/python3* old/lib/python3.99") == 0);
  run.add_venv("old");
  CHECK(run.run() == 1);
  CHECK(has(run.cause(), "was made for Python 3.99, and /usr/bin/python3 on node n1 is 3."));
}

TEST_CASE("venv: editable installs, inside and outside") {
  VenvRun run;
  REQUIRE(run.make("old") == 0);
  REQUIRE(
      run.in_data(
          R"(site=$(echo old/lib/python3*/site-packages); mkdir -p old/src/inner outer $site/inner-1.dist-info $site/outer-1.dist-info
echo 'x = 1' >old/src/inner/inner.py; echo 'x = 2' >outer/outer.py
echo "$PWD/old/src/inner" >$site/inner.pth; echo "$PWD/outer" >$site/__editable__.outer-1.pth
echo '{"url": "file://'$PWD'/old/src/inner", "dir_info": {"editable": true}}' >$site/inner-1.dist-info/direct_url.json
echo '{"url": "file://'$PWD'/outer", "dir_info": {"editable": true}}' >$site/outer-1.dist-info/direct_url.json
)") == 0);
  run.add_venv("old");
  REQUIRE(run.run() == 0);
  CHECK(run.note().starts_with("outer is still read from " + run.data() +
                               "/outer (install it without -e to have it here)"));
  CHECK(run.output("env/bin/python -c 'import inner, outer; print(inner.__file__)'") ==
        run.job() + "/env/src/inner/inner.py\n");
}

TEST_CASE("venv: with optional the job starts without it") {
  VenvRun run;
  run.add_venv("nowhere").optional = true;
  CHECK(run.run() == 0);
  CHECK(run.state() == ItemState::failed);
  CHECK(run.status.environment.empty());
}

TEST_CASE("venv: beside datasets") {
  VenvRun run;
  REQUIRE(run.make("old") == 0);
  REQUIRE(run.in_data("echo x >f") == 0);
  run.add("f");
  run.add_venv("old");
  REQUIRE(run.run() == 0);
  CHECK(run.status.environment ==
        std::vector<std::string>{"NODESTAGE_DATASET=" + run.job() + "/f",
                                 "NODESTAGE_DATASET_F=" + run.job() + "/f",
                                 "NODESTAGE_VENV=" + run.job() + "/env"});
  CHECK(run.in_job("test \"$(ls -A | xargs)\" = 'env f'"));
}

TEST_CASE("venv: what conda-pack made is unpacked by its own program") {
  VenvRun run;
  REQUIRE(run.in_data(R"(mkdir -p c/bin c/conda-meta c/lib/data; ln -s /usr/bin/python3 c/bin/python
printf 'prefix=/opt/placeholder_placeholder_placeholder_placeholder_placeholder_placeholder\n' >c/lib/data/text
printf 'B\0/opt/placeholder_placeholder_placeholder_placeholder_placeholder_placeholder_placeholder_placeholder_placeholder_placeholder/x\0E' >c/lib/data/binary
cat >c/bin/conda-unpack <<'E'
import os, re
prefix = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
for name in ("text", "binary"):
    path = os.path.join(prefix, "lib", "data", name)
    data = open(path, "rb").read()
    old = re.search(rb"/opt/[a-z_]+", data).group()
    new = prefix.encode()
    if name == "binary":
        tail = data.index(b"\0", data.index(old))
        new_string = data[data.index(old):tail].replace(old, new)
        data = data[:data.index(old)] + new_string.ljust(tail - data.index(old), b"\0") + data[tail:]
    else:
        data = data.replace(old, new)
    open(path, "wb").write(data)
E
tar czf c.tgz -C c .)") == 0);
  run.add_venv("c.tgz");
  SUBCASE("unpacked") {
    REQUIRE_MESSAGE(run.run() == 0, run.cause());
    CHECK(run.output("cat env/lib/data/text") == "prefix=" + run.job() + "/env\n");
    CHECK(run.output("tr '\\0' '\\n' <env/lib/data/binary | grep -v '^$'") ==
          "B\n" + run.job() + "/env/x\nE\n");
    CHECK(run.output("stat -c %s env/lib/data/binary") ==
          run.output("stat -c %s ../data/c/lib/data/binary"));
  }
  SUBCASE("that fails: its own words, and nothing of pip") {
    REQUIRE(run.in_data("printf 'raise SystemExit(\"no room for the prefix\")' "
                        ">c/bin/conda-unpack; tar czf c.tgz -C c .") == 0);
    CHECK(run.run() == 1);
    CHECK(has(run.cause(), "conda-unpack exited with code 1"));
    CHECK(has(run.cause(), "| no room for the prefix"));
    CHECK(has(run.cause(), "run bin/conda-unpack there"));
    CHECK_FALSE(has(run.cause(), "pip"));
  }
  SUBCASE("not where nothing may be run") {
    run.order.venv_build = VenvBuild::off;
    CHECK(run.run() == 1);
    CHECK(has(run.cause(), "conda-unpack may not be run"));
  }
}

TEST_CASE("venv: requirements where they may not be built, or not as they are") {
  VenvRun run;
  REQUIRE(run.in_data("echo -e . >r.txt; echo '-e .' >r.txt") == 0);
  auto& item = run.add_venv("r.txt");
  CHECK(run.run() == 1);
  CHECK(has(run.cause(), "'-e .' is not a wheel"));
  run.order.venv_build = VenvBuild::off;
  CHECK(run.run() == 1);
  CHECK(has(run.cause(), "venv.build = \"off\""));
  run.order.venv_build = VenvBuild::any;
  item.python = "/opt/no/such/python";
  CHECK(run.run() == 1);
  CHECK(has(run.cause(), "node n1 has no /opt/no/such/python\n"));
  item.modules = {"python/3"};
  run.order.venv_module_init = "/no/such/init";
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
  run.order.venv_installer = VenvInstaller::uv;
  run.order.venv_uv = run.data() + "/uv";
  run.order.venv_find_links = {"/site"};
  const std::string built = run.job() + "/.nodestage-partial/items/0/";
  std::string home = "/home/a";  // which `~` in a configuration means
  std::string only = "--only-binary :all: ";
  SUBCASE("of wheels") {}
  SUBCASE("of sources, whose code may write to HOME") {
    run.order.venv_build = VenvBuild::any;
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
    run.order.venv_build = VenvBuild::any;
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
    run.order.venv_build = VenvBuild::any;
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
