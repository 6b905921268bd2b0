// Attack: an environment, or an archive of one, that somebody else made: its names, links and texts
// are to make the worker change or read into the environment what lies outside of the job
// directory, or to run the archive's own programs.
#include <doctest/doctest.h>

#include "../unit/venv_run.hpp"

using namespace nodestage;

namespace {

// In the data directory, after what makes the victim.
int beside_victim(const VenvRun& run, const char* command) {
  std::string all =
      "mkdir -p victim; echo \"source $PWD/old/bin\" >victim/rc; cp victim/rc rc.before\n";
  return run.in_data(all.append(command));
}

void check_untouched(const VenvRun& run) {
  CHECK(run.in_data("cmp victim/rc rc.before && test \"$(ls -A victim)\" = rc") == 0);
}

}  // namespace

TEST_CASE("a link in bin does not have a file outside rewritten") {
  VenvRun run;
  run.make("old");
  REQUIRE(
      beside_victim(run,
                    "ln -sf \"$PWD/victim/rc\" old/bin/activate; ln -s \"$PWD/victim\" old/share; "
                    "ln -s ../../../victim/rc old/bin/run") == 0);
  SUBCASE("in a directory") { run.add_venv("old"); }
  SUBCASE("in an archive") {
    run.prepare("tar cf a.tar old");
    run.add_venv("a.tar");
  }
  REQUIRE_MESSAGE(run.run() == 0, run.cause());
  check_untouched(run);
  CHECK(run.note().find("lead out of the environment") != std::string::npos);
}

TEST_CASE("bin, lib or __pycache__ as links out of it") {
  VenvRun run;
  run.make("old");
  REQUIRE(beside_victim(run, "") == 0);
  SUBCASE("bin") { run.prepare("mv old/bin elsewhere; ln -s ../elsewhere old/bin"); }
  SUBCASE("__pycache__") {
    run.prepare(
        "cd old/lib/python3*/site-packages/pack; rm -r __pycache__; "
        "ln -s '" +
        run.data() + "/victim' __pycache__");
  }
  SUBCASE("pyvenv.cfg") { run.prepare("ln -sf ../victim/rc old/pyvenv.cfg"); }
  run.prepare("tar cf a.tar old");
  run.add_venv("a.tar");
  static_cast<void>(run.run());
  check_untouched(run);
}

TEST_CASE("an archive's names do not leave the job directory") {
  VenvRun run;
  run.make("old");
  REQUIRE(beside_victim(run,
                        "tar cf a.tar old; echo evil >rc; "
                        "tar rPf a.tar --transform 's|^rc|old/../../../../data/victim/rc|' rc") ==
          0);
  run.add_venv("a.tar");
  CHECK(run.run() == 1);
  check_untouched(run);
}

TEST_CASE("no program of an archive is run, and pyvenv.cfg chooses none in it") {
  VenvRun run;
  run.make("old");
  REQUIRE(beside_victim(run, R"(
for name in python python3 python3.11; do rm -f old/bin/$name; printf '#!/bin/sh\necho ran >>%s/victim/rc\n' "$PWD" >old/bin/$name; chmod 755 old/bin/$name; done
find old -name '*.pyc' -delete)") == 0);
  SUBCASE("home is the node's own") {}
  SUBCASE("home is in the environment") {
    run.prepare("sed -i \"s|^home = .*|home = $PWD/../job/env/bin|\" old/pyvenv.cfg");
  }
  SUBCASE("home is a directory with another program of the user's") {
    run.prepare("mkdir h; printf '#!/bin/sh\\ntouch victim/ran\\n' >h/python3");
    run.prepare("sed -i \"s|^home = .*|home = $PWD/h|\" old/pyvenv.cfg");
  }
  SUBCASE("it has an interpreter where staging puts one") {
    run.prepare(
        "mkdir -p old/.python/bin; for name in python python3; do mv old/bin/$name "
        "old/.python/bin; ln -s ../.python/bin/$name old/bin; done");
  }
  SUBCASE("what is there leads out of it") {
    run.prepare(
        "mkdir -p old/.python; ln -s $PWD/old/bin old/.python/bin; mv old/bin/python3 "
        "old/bin/real; rm old/bin/python; ln -s ../.python/bin/real old/bin/python");
  }
  run.prepare("tar cf a.tar old");
  run.add_venv("a.tar");
  static_cast<void>(run.run());
  check_untouched(run);
}

TEST_CASE("texts that are hard to read are left, and end") {
  VenvRun run;
  run.make("old");
  REQUIRE(
      run.in_data(
          R"(cd old; head -c 300000 /dev/zero | tr '\0' '#' >bin/long; printf '#!' >bin/short; printf '\177ELF' >bin/elf
head -c 100 /usr/bin/python3 >lib/cut.so; python3 - <<'E'
d = bytearray(open('/usr/bin/true', 'rb').read())
for i in range(32, 200): d[i] = 255
open('lib/odd.so', 'wb').write(d)
E
site=$(echo lib/python3*/site-packages); printf ',,,\n\n"' >$site/pack-1.dist-info/RECORD; printf '{"url":7,"dir_info":[]}' >$site/pack-1.dist-info/direct_url.json
printf '\xff\xfe/\0' >$site/x.pth; printf 'x' >$site/pack/__pycache__/y.cpython-311.pyc; mkfifo bin/fifo)") ==
      0);
  run.add_venv("old");
  REQUIRE_MESSAGE(run.run() == 0, run.cause());
  CHECK(run.in_job("cmp env/bin/long ../data/old/bin/long && test ! -e env/bin/fifo"));
}
