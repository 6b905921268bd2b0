#include <doctest/doctest.h>

#include "requirements_run.hpp"

using namespace nodestage;

namespace {

// A stand-in for uv that makes an environment of what is in the requirements file.
constexpr const char* k_uv = R"(cat >bin/uv <<'E'
#!/bin/sh
PATH=/usr/bin:/bin
case $1 in
venv) exec "$3" -m venv --without-pip "$4" ;;
pip)
  for last; do :; done
  cp "$last" "${4%/bin/python}/what"
  for i in 1 2 3 4 5 6 7 8 9; do [ -e wait ] || break; sleep 0.1; done
  printf '#!%s\nprint(1)\n' "$4" >"${4%/*}/show" && chmod 755 "${4%/*}/show" ;;
esac
E
chmod 755 bin/uv; rm bin/python3; ln -s /usr/bin/python3 bin/python3)";

// As the daemon does it.
int publish(const ShareRun<VenvRun>& run, const SharedItem& decided) {
  const std::string entry = decided.path.substr(0, decided.path.rfind('/'));
  return shell("/", "mkdir -p '" + entry + "' && chmod u+w '" + run.job() + "/env' && mv '" +
                        run.job() + "/env' '" + decided.path + "' && chmod 500 '" + decided.path +
                        "' && ln -s '" + decided.path + "' '" + run.job() + "/env'");
}

}  // namespace

TEST_CASE("venv: a shared one works at its path in the cache, without write bits") {
  ShareRun<VenvRun> run;
  run.order.cache = run.data() + "/cache";
  REQUIRE(run.make("old") == 0);
  std::string source;
  SUBCASE("an archive") {
    source = "old.tgz";
    REQUIRE(run.in_data("tar czf old.tgz -C old . && chmod -R u+w old && rm -r old") == 0);
  }
  SUBCASE("a directory") { source = "old"; }
  run.add_venv(source).shared = true;
  const SharedItem decided = run.decide(ShareRole::lead, "env");
  REQUIRE_MESSAGE(run.run() == 0, run.cause());
  CHECK(run.has_flag(k_item_whole));
  CHECK(run.note().ends_with("shared: kept on this node for your further jobs; it is read-only"));
  CHECK(run.status.environment == std::vector<std::string>{"NODESTAGE_VENV=" + decided.path,
                                                           "NODESTAGE_CACHE=" + run.order.cache});
  CHECK(run.in_job("test \"$(stat -c %a env)\" = 500"));
  CHECK(run.output("find env ! -type l -perm /222").empty());
  REQUIRE(publish(run, decided) == 0);
  CHECK(run.output("env/bin/show") == decided.path + "/share " + decided.path + "\n");
  CHECK(run.output("grep -rlF '" + run.job() + "' env/").empty());
  CHECK(run.output("env/bin/python -c 'import pack; print(pack.PLACE)'") ==
        decided.path + "/share\n");
}

TEST_CASE("venv: a shared one that cannot be kept works at its destination") {
  ShareRun<VenvRun> run;
  run.order.cache = run.data() + "/cache";
  REQUIRE(run.make("old") == 0);
  REQUIRE(run.in_data("tar czf old.tgz -C old .") == 0);
  std::string source;
  std::string change;
  SUBCASE("an archive") { source = "old.tgz", change = "touch old.tgz"; }
  SUBCASE("a directory") { source = "old", change = "touch old/bin/activate"; }
  run.add_venv(source).shared = true;
  run.decide(ShareRole::lead, "env");
  REQUIRE(run.in_data(change) == 0);
  REQUIRE_MESSAGE(run.run() == 0, run.cause());
  CHECK_FALSE(run.has_flag(k_item_whole));
  CHECK(run.note().ends_with("not shared: it was changed while it was read; it is read-only"));
  const std::string env = run.job() + "/env";
  CHECK(run.status.environment[0] == "NODESTAGE_VENV=" + env);
  CHECK(run.output("env/bin/show") == env + "/share " + env + "\n");
  CHECK(run.output("grep -rlF '" + run.order.cache + "' env/").empty());
  CHECK(run.output("find env ! -type l -perm /222").empty());
}

TEST_CASE("venv: what an earlier worker has made for a path in the cache is made again") {
  ShareRun<VenvRun> run;
  run.order.cache = run.data() + "/cache";
  REQUIRE(run.make("old") == 0);
  REQUIRE(run.in_data("tar czf old.tgz -C old .") == 0);
  run.add_venv("old.tgz").shared = true;
  run.decide(ShareRole::lead, "env");
  REQUIRE_MESSAGE(run.run() == 0, run.cause());
  SUBCASE("its worker had ended") {}
  SUBCASE("its worker was killed") {
    REQUIRE(run.in_job("mkdir .nodestage-partial && printf 'env\\0' >.nodestage-partial/complete"));
  }
  run.order.shared[0] = {0, ShareRole::own, "", "", "it could not be kept"};
  run.order.is_again = true;
  REQUIRE_MESSAGE(run.run() == 0, run.cause());
  const std::string env = run.job() + "/env";
  CHECK(run.output("env/bin/show") == env + "/share " + env + "\n");
}

TEST_CASE("venv: a shared one that is built") {
  Requirements run;
  run.order.cache = run.data() + "/cache";
  REQUIRE(run.in_data(k_uv) == 0);
  run.order.venv.installer = VenvInstaller::uv;
  bool is_changed = false;
  SUBCASE("unchanged") {}
  SUBCASE("its text is written during the build, with the same content") {
    is_changed = true;
    REQUIRE(run.in_data("touch wait; (for i in $(seq 3000); do test ! -e "
                        "../job/.nodestage-partial/items/0/one*/what || break; sleep 0.01; done; "
                        "touch -d 2020-01-01 r.txt; rm wait) >/dev/null 2>&1 &") == 0);
  }
  const SharedItem decided = run.decide(ShareRole::lead, "env");
  REQUIRE_MESSAGE(decided.key.size() == k_share_key_bytes, run.why_not);
  REQUIRE_MESSAGE(run.run() == 0, run.cause());
  CHECK(run.has_flag(k_item_whole) == !is_changed);
  CHECK(run.output("cat env/what") == "-r sub/a.txt\n");
  const std::string place = is_changed ? run.job() + "/env" : decided.path;
  CHECK(run.output("head -1 env/bin/show") == "#!" + place + "/bin/python\n");
  CHECK(run.output("find env ! -type l -perm /222").empty());
  CHECK(run.in_job("test -e env.log"));
}

TEST_CASE("venv: strings in the binaries of a shared one from conda-pack have room for its path") {
  ShareRun<VenvRun> run;
  run.order.cache = run.data() + "/" + std::string(60, 'c');
  REQUIRE(run.in_data(R"(mkdir -p c/bin c/conda-meta c/lib; ln -s /usr/bin/python3 c/bin/python
printf 'B\0/opt/old\0E' >c/lib/binary
cat >c/bin/conda-unpack <<'E'
import os
prefix = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
open(prefix + "/lib/binary", "wb").write(b"B\0" + prefix.encode() + b"/x\0E")
E
tar czf c.tgz -C c .)") == 0);
  run.add_venv("c.tgz").shared = true;
  const SharedItem decided = run.decide(ShareRole::lead, "env");
  REQUIRE_MESSAGE(run.run() == 0, run.cause());
  CHECK(run.has_flag(k_item_whole));
  CHECK(run.output("tr '\\0' '\\n' <env/lib/binary | grep -v '^$'") ==
        "B\n" + decided.path + "/x\nE\n");
}

TEST_CASE("venv: one that is here already is only linked") {
  Requirements run;
  const SharedItem decided = run.decide(ShareRole::link, "env");
  REQUIRE(run.in_data("rm -r r.txt sub bin") == 0);
  REQUIRE(run.run() == 0);
  CHECK(run.has_flag(k_item_linked));
  CHECK(run.note() == "shared, already here; it is read-only");
  CHECK(run.in_job("test \"$(readlink env)\" = " + decided.path + " && test ! -e env.log"));
  CHECK(run.status.environment ==
        std::vector<std::string>{"NODESTAGE_VENV=" + decided.path, "NODESTAGE_CACHE=/cache"});
}

TEST_CASE("venv: the job's own shared one has no write bits") {
  ShareRun<VenvRun> run;
  REQUIRE(run.make("old") == 0);
  REQUIRE(run.in_data("tar czf old.tgz -C old .") == 0);
  run.add_venv("old.tgz").shared = true;
  REQUIRE_MESSAGE(run.run() == 0, run.cause());
  CHECK(run.output("find env ! -type l -perm /222").empty());
  CHECK(run.output("env/bin/show") == run.job() + "/env/share " + run.job() + "/env\n");
  // No daemon has decided.
  CHECK(run.note() == "not shared: its turn to be looked at did not come in time; it is read-only");
}
