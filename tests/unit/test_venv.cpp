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
  run.prepare("for d in *; do [ ! -d \"$d\" ] || chmod -R u+w \"$d\"; rm -rf \"$d\"; done");
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
  SUBCASE("links") { run.make("old"); }
  SUBCASE("copies") { run.make("old", "--copies"); }
  SUBCASE("system site packages") { run.make("old", "--system-site-packages"); }
  run.add_venv("old");
  check_works(run);
  CHECK(run.what() == "venv");
  CHECK(run.note().empty());  // no module was named that the job could load again
}

TEST_CASE("venv: wheels= had no meaning for an environment that was there") {
  VenvRun run;
  run.make("old");
  auto& item = run.add_venv("old");
  item.python = "/usr/bin/python3";  // as a submission in an environment sets it
  std::string note;
  SUBCASE("none") {}
  SUBCASE("some") {
    item.wheels = "/wheels";
    note = "nothing was built, so wheels= had no meaning";
  }
  REQUIRE_MESSAGE(run.run() == 0, run.cause());
  CHECK(run.note() == note);
}

TEST_CASE("venv: an environment of any name, place and mode works where it is staged") {
  std::string made = "old";
  std::string source = "old";
  std::string then = "true";
  std::string place = "env";
  SUBCASE("names with blanks and other letters, there and here") {
    made = source = "my \xc3\xb6ld env";
    place = "my n\xc3\xa9w/env";
  }
  SUBCASE("a path beyond what a #! line can hold") {
    place = std::string(100, 'd') + "/" + std::string(100, 'e') + "/env";
  }
  SUBCASE("a link to it, and one that was moved by hand") {
    then = "mv old moved; ln -s moved link";
    source = "link";
  }
  SUBCASE("files and directories that may not be written") { then = "chmod -R a-w old"; }
  VenvRun run;
  run.make(made);
  run.prepare(then);
  run.add_venv(source).destination = place;
  check_works(run, place);
}

TEST_CASE("venv: an archive behind a #! that is larger than any text") {
  VenvRun run;
  run.make("old");
  run.prepare(
      "{ printf '#!%s/old/bin/python3\\n' \"$PWD\"; head -c 9000000 /dev/zero; } "
      ">old/bin/app; chmod 755 old/bin/app");
  run.add_venv("old");
  REQUIRE_MESSAGE(run.run() == 0, run.cause());
  CHECK(run.output("head -n 1 env/bin/app") == "#!" + run.job() + "/env/bin/python3\n");
}

TEST_CASE("venv: archives") {
  VenvRun run;
  run.make("old");
  SUBCASE("of what is in it") { run.prepare("tar czf env.tgz -C old .; rm -r old"); }
  SUBCASE("of the directory") { run.prepare("tar czf env.tgz old; rm -r old"); }
  SUBCASE("of the directory by a longer name") {
    run.prepare("mkdir -p a/b; mv old a/b; tar czf env.tgz a; rm -r a");
  }
  SUBCASE("zip, whose times are too coarse for compiled files") {
    run.prepare("zip -qryX env.zip old; mv env.zip env.tgz; rm -r old");
  }
  SUBCASE("with scripts as venv-pack leaves them") {
    run.prepare(
        "sed -i '1s|.*|#!/usr/bin/env python3|' old/bin/show; tar czf env.tgz old; "
        "rm -r old");
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
    CHECK(run.has_cause(words));
    CHECK(run.cause().starts_with("the environment: "));
    CHECK(run.in_job("test -z \"$(ls -A)\" || { ls -A; false; }"));
  };
  refused("dir", "is a directory without pyvenv.cfg and conda-meta\n--stage-venv takes");
  refused("dir.tar", "contains no virtual environment");
  refused("p.toml", "is not a requirements file");
  refused("nowhere", "No such file or directory");
  refused("empty", "has no bin/python");
  refused("c", "c/conda-meta: has no record of a package");
  refused("c.tar", "c.tar/conda-meta: has no record of a package");
}

TEST_CASE("venv: an interpreter that is missing here is named") {
  VenvRun run;
  run.make("old");
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
    run.prepare(
        "rm old/bin/python*; cp /usr/bin/python3 old/bin/python; "
        "sed -i 's|^home = .*|home = /opt/no/such/bin|' old/pyvenv.cfg");
    run.add_venv("old");
  }
  CHECK(run.run() == 1);
  CHECK(run.has_cause("was made with /opt/no/such/bin/python3, and node n1 has no such program\n"));
}

TEST_CASE("venv: another version of Python") {
  VenvRun run;
  run.make("old");
  run.prepare("mv old/lib/python3* old/lib/python3.99");
  run.add_venv("old");
  CHECK(run.run() == 1);
  CHECK(has(run.cause(), "was made for Python 3.99, and /usr/bin/python3 on node n1 is 3."));
}

namespace {

// Where json is imported from, and where the interpreter looks for its library.
constexpr const char* k_where =
    "/bin/python -c 'import json, sys; print(json.__file__.split(\"/lib/\")[0], sys.base_prefix)'";

}  // namespace

TEST_CASE("venv: an interpreter of the user's own is staged with it") {
  VenvRun run;
  run.make_python();
  std::string source = "old";
  std::string make = "py/bin/python3 -m venv --without-pip old";
  VenvItem& item = run.add_venv("old");
  SUBCASE("links") {}
  SUBCASE("copies") { make += " --copies"; }
  SUBCASE("by a link to its directory, as uv makes it") {
    make = "ln -s py minor; minor/bin/python3 -m venv --without-pip old";
  }
  SUBCASE("read-only, and kept for further jobs") {
    make += "; chmod -R a-w old py/lib";
    item.shared = true;
  }
  SUBCASE("in an archive") { make += "; tar czf old.tgz old; rm -r old; mv old.tgz old"; }
  run.prepare(make);
  REQUIRE_MESSAGE(run.run() == 0, run.cause());
  CHECK_MESSAGE(has(run.note(), "its interpreter " + run.data() + "/py ("), run.note());
  CHECK_MESSAGE(has(run.note(), "B) is staged, too"), run.note());
  const std::string own = run.job() + "/env/.python";
  run.prepare("mv py gone");
  CHECK(run.output("env" + std::string(k_where)) == own + " " + own + "\n");
  CHECK(run.output("grep ^home env/pyvenv.cfg") == "home = " + own + "/bin\n");
  CHECK(run.output(
            "cd env/.python; ls -d bin/other pkgs lib/p*/site-packages lib/lib* 2>/dev/null") ==
        "lib/libz.so.1\n");
}

TEST_CASE("venv: an interpreter stays where it is") {
  VenvRun run;
  run.make_python();
  std::string make = "py/bin/python3 -m venv --without-pip old";
  std::string note;
  VenvItem& item = run.add_venv("old");
  const std::string failed = "its interpreter " + run.data() + "/py is still read from there: ";
  SUBCASE("python=keep") { item.python = "keep"; }
  SUBCASE("of a module") { item.modules = {"python/3"}; }
  SUBCASE("without a standard library of its own") {
    make += "; mv py/lib/python3* .; ln -s $PWD/python3* py/lib";
  }
  SUBCASE("with a part that cannot be read") {
    make += "; chmod 000 py/lib/python3*/json/decoder.py";
    note = failed + run.data() + "/py/lib/python3.";
  }
  SUBCASE("that does not run in another place") {
    make +=
        "; printf '#!/bin/sh\nexec /usr/bin/python3 \"$@\"\n' >py/new; chmod 755 py/new; mv py/new "
        "$(realpath py/bin/python)";
    note = failed + "a copy of it does not work";
  }
  SUBCASE("of an environment that has another one") {
    make += "; mkdir old/.python; touch old/.python/mine";
    note = failed + "the environment has another one in .python";
  }
  SUBCASE("of an archive that is kept, whose key does not know it") {
    make += "; tar cf old.tar old; rm -r old; mv old.tar old";
    item.shared = true;
  }
  run.prepare(make);
  REQUIRE_MESSAGE(run.run() == 0, run.cause());
  CHECK_MESSAGE(run.note().starts_with(note), run.note());
  CHECK_MESSAGE(has(run.note(), "interpreter") == has(note, "interpreter"), run.note());
  CHECK(run.in_job("[ ! -e env/.python/bin ]"));
  CHECK(run.output("readlink env/bin/python3") == run.data() + "/py/bin/python3\n");
}

TEST_CASE("venv: one that was staged with its interpreter is staged again") {
  VenvRun run;
  run.make_python();
  run.prepare("py/bin/python3 -m venv --without-pip old");
  run.add_venv("old");
  REQUIRE_MESSAGE(run.run() == 0, run.cause());
  run.prepare("rm -rf old; mv ../job/env again; mv py gone");
  run.add_venv("again");
  REQUIRE_MESSAGE(run.run() == 0, run.cause());
  run.prepare("mv again away");
  const std::string own = run.job() + "/env/.python";
  CHECK(run.output("env" + std::string(k_where)) == own + " " + own + "\n");
}

TEST_CASE("venv: editable installs, inside and outside") {
  VenvRun run;
  run.make("old");
  run.prepare(
      R"(site=$(echo old/lib/python3*/site-packages); mkdir -p old/src/inner outer $site/inner-1.dist-info $site/outer-1.dist-info
echo 'x = 1' >old/src/inner/inner.py; echo 'x = 2' >outer/outer.py
echo "$PWD/old/src/inner" >$site/inner.pth; echo "$PWD/outer" >$site/__editable__.outer-1.pth
echo '{"url": "file://'$PWD'/old/src/inner", "dir_info": {"editable": true}}' >$site/inner-1.dist-info/direct_url.json
echo '{"url": "file://'$PWD'/outer", "dir_info": {"editable": true}}' >$site/outer-1.dist-info/direct_url.json
)");
  run.add_venv("old");
  REQUIRE(run.run() == 0);
  CHECK(run.note().starts_with("outer is still read from " + run.data() +
                               "/outer (install it without -e to have it here)"));
  CHECK(run.output("env/bin/python -c 'import inner, outer; print(inner.__file__)'") ==
        run.job() + "/env/src/inner/inner.py\n");
}

TEST_CASE("venv: a link with more '..' than there are directories leads to where it led") {
  VenvRun run;
  run.make("old");
  run.prepare("ln -s $(printf '../%.0s' $(seq 40))etc/passwd old/far");
  run.add_venv("old");
  REQUIRE_MESSAGE(run.run() == 0, run.cause());
  CHECK(run.output("readlink env/far") == "/etc/passwd\n");
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
  run.make("old");
  run.prepare("echo x >f");
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
  VenvRun run(R"(mkdir -p c/bin c/conda-meta c/lib/data; ln -s /usr/bin/python3 c/bin/python
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
tar czf c.tgz -C c .)");
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
    run.prepare(
        "printf 'raise SystemExit(\"no room for the prefix\")' "
        ">c/bin/conda-unpack; tar czf c.tgz -C c .");
    CHECK(run.run() == 1);
    check_has(run.cause(), {"conda-unpack exited with code 1", "| no room for the prefix",
                            "run bin/conda-unpack there"});
    CHECK_FALSE(has(run.cause(), "pip"));
  }
  SUBCASE("not where nothing may be run") {
    run.order.venv.build = VenvBuild::off;
    CHECK(run.run() == 1);
    CHECK(has(run.cause(), "conda-unpack may not be run"));
  }
}
