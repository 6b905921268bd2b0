#include <doctest/doctest.h>

#include "daemon/worker/venv/requirements.hpp"
#include "key_values.hpp"
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

// An environment, as a directory and as an archive, on a node whose cache lies beside it.
struct SharedVenv : ShareRun<VenvRun> {
  explicit SharedVenv(const char* source) {
    order.cache = data() + "/cache";
    make("old");
    prepare("tar czf old.tgz -C old .");
    add_venv(source).shared = true;
  }
};

// As the daemon does it.
int publish(const ShareRun<VenvRun>& run, const SharedItem& decided) {
  const std::string entry = decided.path.substr(0, decided.path.rfind('/'));
  return shell("/", "mkdir -p '" + entry + "' && chmod u+w '" + run.job() + "/env' && mv '" +
                        run.job() + "/env' '" + decided.path + "' && chmod 500 '" + decided.path +
                        "' && ln -s '" + decided.path + "' '" + run.job() + "/env'");
}

}  // namespace

TEST_CASE("venv: a shared one works at its path in the cache, without write bits") {
  const char* source = "old.tgz";
  SUBCASE("an archive") {}
  SUBCASE("a directory") { source = "old"; }
  SharedVenv run(source);
  if (source == std::string("old.tgz")) run.prepare("chmod -R u+w old && rm -r old");
  const SharedItem decided = run.decide(ShareRole::lead, "env");
  REQUIRE_MESSAGE(run.run() == 0, run.cause());
  CHECK(run.has_flag(k_item_whole));
  CHECK(run.note().ends_with(k_kept_whole));
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

TEST_CASE("venv: a shared one has its interpreter in the cache, too") {
  ShareRun<VenvRun> run;
  run.order.cache = run.data() + "/cache";
  run.make_python();
  run.prepare("py/bin/python3 -m venv --without-pip old");
  run.add_venv("old").shared = true;
  const SharedItem decided = run.decide(ShareRole::lead, "env");
  REQUIRE_MESSAGE(run.run() == 0, run.cause());
  CHECK(run.has_flag(k_item_whole));
  REQUIRE(publish(run, decided) == 0);
  run.prepare("mv py gone");
  CHECK(run.output("env/bin/python -c 'import json, sys; print(sys.base_prefix)'") ==
        decided.path + "/.python\n");
}

TEST_CASE("venv: one that is built with the user's own interpreter has that, too") {
  Requirements run;
  run.prepare(k_uv);
  run.make_python();
  run.order.venv.installer = VenvInstaller::uv;
  run.item().python = run.data() + "/py/bin/python3";
  SUBCASE("but not where it is shared: its key does not know what is in the interpreter") {
    run.item().shared = true;
    REQUIRE_MESSAGE(run.run() == 0, run.cause());
    CHECK(run.in_job("test ! -e env/.python"));
    return;
  }
  run.item().shared = false;
  REQUIRE_MESSAGE(run.run() == 0, run.cause());
  run.prepare("mv py gone");
  CHECK(run.output("env/bin/python -c 'import json, sys; print(sys.base_prefix)'") ==
        run.job() + "/env/.python\n");
}

TEST_CASE("identify: a venv by what is staged of its interpreter") {
  ShareRun<VenvRun> run;
  run.make_python();
  run.prepare("py/bin/python3 -m venv --without-pip old; cd py/lib/*/json; mkdir __pycache__");
  auto& item = run.add_venv("old");
  item.shared = true;
  const std::string key = run.valid_key();
  bool is_changed = true;
  SUBCASE("its standard library") { run.prepare("echo >>py/lib/python3*/json/decoder.py"); }
  SUBCASE("another program") { run.prepare("p=$(realpath py/bin/python); cp $p p; mv p $p"); }
  SUBCASE("it stays") { item.python = "keep"; }
  SUBCASE("what is not staged") {
    run.prepare("echo >>py/lib/python3*/site-packages/large.py; echo >>py/bin/other");
    is_changed = false;
  }
  SUBCASE("its compiled files") {
    run.prepare("cd py/lib/*/json; touch __pycache__/x.pyc");
    is_changed = false;
  }
  CHECK((run.valid_key() != key) == is_changed);
}

TEST_CASE("venv: a shared one that cannot be kept works at its destination") {
  const char* source = "old.tgz";
  std::string change = "touch old.tgz";
  SUBCASE("an archive") {}
  SUBCASE("a directory") { source = "old", change = "touch old/bin/activate"; }
  SharedVenv run(source);
  run.decide(ShareRole::lead, "env");
  run.prepare(change);
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
  SharedVenv run("old.tgz");
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
  run.prepare(k_uv);
  run.order.venv.installer = VenvInstaller::uv;
  bool is_changed = false;
  SUBCASE("unchanged") {}
  SUBCASE("its text is written during the build, with the same content") {
    is_changed = true;
    run.prepare(
        "touch wait; (for i in $(seq 3000); do test ! -e "
        "../job/.nodestage-partial/items/0/one*/what || break; sleep 0.01; done; "
        "touch -d 2020-01-01 r.txt; rm wait) >/dev/null 2>&1 &");
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
  run.prepare(R"(mkdir -p c/bin c/conda-meta c/lib; ln -s /usr/bin/python3 c/bin/python
printf 'B\0/opt/old\0E' >c/lib/binary
cat >c/bin/conda-unpack <<'E'
import os
prefix = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
open(prefix + "/lib/binary", "wb").write(b"B\0" + prefix.encode() + b"/x\0E")
E
tar czf c.tgz -C c .)");
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
  run.prepare("rm -r r.txt sub bin");
  REQUIRE(run.run() == 0);
  CHECK(run.has_flag(k_item_linked));
  CHECK(run.note() == "shared, already here; it is read-only");
  CHECK(run.in_job("test \"$(readlink env)\" = " + decided.path + " && test ! -e env.log"));
  CHECK(run.status.environment ==
        std::vector<std::string>{"NODESTAGE_VENV=" + decided.path, "NODESTAGE_CACHE=/cache"});
}

TEST_CASE("venv: the job's own shared one has no write bits") {
  SharedVenv run("old.tgz");
  REQUIRE_MESSAGE(run.run() == 0, run.cause());
  CHECK(run.output("find env ! -type l -perm /222").empty());
  CHECK(run.output("env/bin/show") == run.job() + "/env/share " + run.job() + "/env\n");
  // No daemon has decided.
  CHECK(run.note() == "not shared: its turn to be looked at did not come in time; it is read-only");
}

TEST_CASE("identify: a venv of requirements by all that its build reads") {
  Requirements run;
  const std::string key = run.valid_key();
  CHECK(run.what() == "env");
  CHECK(run.has_flag(k_item_shared));
  CHECK(run.has_flag(k_item_venv));
  CHECK(run.status.items[0].bytes_total == 13);
  CHECK(run.key() == key);
  const auto in_data = [&run](const std::string& command) { run.prepare(command); };
  SUBCASE("text") { in_data("echo '# x' >>r.txt"); }
  SUBCASE("included text") { in_data("echo other >sub/a.txt"); }
  SUBCASE("a wheel is added") { in_data("touch -d 2020-01-01 w/y.whl"); }
  SUBCASE("a wheel is replaced") { in_data("echo z >w/pack-1-py3-none-any.whl"); }
  SUBCASE("a site's wheel is removed") { in_data("rm links/x.whl"); }
  SUBCASE("other wheels") { run.item().wheels = run.data() + "/links"; }
  SUBCASE("the site's wheels") { run.order.venv.find_links.clear(); }
  SUBCASE("wheels by the environment") {
    run.item().environment.push_back("PIP_FIND_LINKS=" + run.data() + "/sub");
  }
  SUBCASE("interpreter") { in_data("cp -p bin/python3 p && mv p bin/python3"); }
  SUBCASE("python=") { run.item().python = "/usr/bin/python3"; }
  SUBCASE("modules") { run.item().modules = {"python/3.11"}; }
  SUBCASE("environment") { run.item().environment.push_back("X=1"); }
  SUBCASE("settings of pip") { in_data("echo '[install]' >>home/.config/pip/pip.conf"); }
  SUBCASE("destination") { run.item().destination = "other"; }
  SUBCASE("installer") { run.order.venv.installer = VenvInstaller::uv; }
  SUBCASE("what may be built") { run.order.venv.build = VenvBuild::any; }
  SUBCASE("umask") { run.request.umask = 077; }
  const std::string other = run.valid_key();
  CHECK(other != key);
}

TEST_CASE("identify: each key that changes the environment changes its key, and no other does") {
  for (const auto& row : Option<VenvItem>::keys) {
    CAPTURE(row.name);
    Requirements run;
    const std::string plain = run.key();
    set_other(run.item(), row);
    if (!run.item().wheels.starts_with(run.data())) run.item().wheels = run.data() + "/bin";
    if (run.item().python == "/x") run.item().python = run.data() + "/bin/uv";
    const std::string key = run.valid_key();
    CHECK((key != plain) == (row.tree == TreeEffect::changes));
  }
}

TEST_CASE("identify: a wheel that the environment's find-links have is looked at") {
  Requirements run;
  run.item().environment.push_back("PIP_FIND_LINKS=https://host/ " + run.data() + "/sub");
  const std::string key = run.valid_key();
  run.prepare("echo x >sub/x.whl");
  CHECK(run.key() != key);
}

TEST_CASE("identify: the same bytes of requirements elsewhere have the same key") {
  Requirements run;
  const std::string key = run.key();
  run.prepare("mkdir copy && cp -r r.txt sub copy");
  run.item().source = run.data() + "/copy/r.txt";
  CHECK(run.key() == key);
}

TEST_CASE("identify: the script that defines `module`, and uv, are in the key") {
  Requirements run;
  std::string file;
  SUBCASE("module") { run.item().modules = {"m"}, file = "init.sh"; }
  SUBCASE("uv") { run.order.venv.installer = VenvInstaller::uv, file = "bin/uv"; }
  const std::string key = run.valid_key();
  run.prepare("cp -p " + file + " x && mv x " + file);
  CHECK(run.key() != key);
}

TEST_CASE("identify: requirements that must not be kept") {
  Requirements run;
  std::string why;
  const auto lines = [&run](const std::string& text) { run.prepare("echo '" + text + "' >r.txt"); };
  const std::string names = run.data() + "/r.txt names files whose content is not known";
  SUBCASE("a local directory") { lines("./pkg"), why = names; }
  SUBCASE("an editable install") { lines("-e ."), why = names; }
  SUBCASE("an address") { lines("git+https://host/x.git"), why = names; }
  SUBCASE("a remote wheel") { lines("https://host/x-1-py3-none-any.whl"), why = names; }
  SUBCASE("wheels at an address") { lines("--find-links https://host/"), why = names; }
  SUBCASE("a local index") { lines("--index-url file:///srv/index"), why = names; }
  SUBCASE("an included address") { lines("-r https://host/r.txt"), why = names; }
  SUBCASE("an option that is not known") { lines("--global-option=x"), why = names; }
  SUBCASE("a variable") {
    lines("${HOME}/x.whl");
    why = run.data() + "/r.txt contains a variable";
  }
  SUBCASE("a file that cannot be read") {
    lines("-r none.txt");
    why = run.data() + "/none.txt cannot be read whole";
  }
  SUBCASE("a wheel that does not exist") {
    lines("./x-1-py3-none-any.whl");
    why = run.data() + "/./x-1-py3-none-any.whl: No such file or directory";
  }
  SUBCASE("too many wheels") {
    REQUIRE(run.in_data("cd w && seq 10001 | xargs touch -d 2020-01-01 && touch -d 2020-01-01 .") ==
            0);
    why = run.data() + "/w: contains too many files";
  }
  SUBCASE("wheels that must not be kept") {
    run.order.cache_never = {run.data() + "/w"};
    why = "this site keeps nothing from " + run.data() + "/w";
  }
  SUBCASE("no interpreter") {
    SUBCASE("by default") {}
    SUBCASE("as it is where the job was submitted") { run.item().python = "keep"; }
    run.prepare("rm bin/python3");
    why = "this node has no python3 in the PATH of the submission";
  }
  SUBCASE("a directory that was just changed, with many bytes") {
    run.order.cache_min_age_s = 60;
    run.prepare("truncate -s 65M links/x.whl && touch -d 2020-01-01 links/x.whl");
    why = run.data() + "/w: was changed less than a minute ago";
  }
  CHECK(run.key().empty());
  CHECK(run.why_not == why);
}

TEST_CASE("identify: a wheel of many bytes that was just changed, in a directory that was not") {
  Requirements run;
  run.order.cache_min_age_s = 2;
  run.prepare("truncate -s 65M w/pack-1-py3-none-any.whl && sleep 2.1");
  const std::string why =
      run.data() + "/w/pack-1-py3-none-any.whl: was changed less than a minute ago";
  std::string key = "none";
  // Where two seconds pass in between, again.
  for (int tries = 0; tries < 50 && run.why_not != why; ++tries) {
    run.prepare("touch w/pack-1-py3-none-any.whl");
    key = run.key();
  }
  CHECK(key.empty());
  CHECK(run.why_not == why);
}

TEST_CASE("identify: wheels that were just put there are known by their bytes") {
  Requirements run;
  run.order.cache_min_age_s = 60;
  const std::string key = run.valid_key();
  run.prepare("touch w links r.txt sub/a.txt w/* links/*");
  CHECK(run.key() == key);
  SUBCASE("other bytes") { run.prepare("echo W >w/pack-1-py3-none-any.whl"); }
  SUBCASE("another name") { run.prepare("mv links/x.whl links/y.whl"); }
  SUBCASE("one more") { run.prepare(": >links/y.whl"); }
  SUBCASE("other requirements") { run.prepare("echo other >sub/a.txt"); }
  CHECK(run.key() != key);
}

TEST_CASE("requirements: what else a build reads") {
  const Scratch scratch;
  const std::string dir = scratch.path();
  REQUIRE(::chmod(dir.c_str(), 0777) == 0);
  const int made = shell(dir, R"(mkdir s; cat >r.txt <<'E'
# all of it is known
--index-url https://pypi.org/simple
--extra-index-url=https://host/x
numpy==1.2 --hash=sha256:12
./w/x-1-py3-none-any.whl
y @ file:///w/y-1-py3-none-any.whl#sha256=12
-r s/a.txt
-c s/a.txt
-f wheels
E
echo '-r b.txt' >s/a.txt; echo '-c a.txt' >s/b.txt)");
  REQUIRE(made == 0);
  const RequirementFiles files = files_of_requirements(dir + "/r.txt");
  CHECK(files.unknown.empty());
  CHECK(files.texts ==
        std::vector<std::string>{dir + "/r.txt", dir + "/s/a.txt", dir + "/s/b.txt"});
  CHECK(files.wheels ==
        std::vector<std::string>{dir + "/./w/x-1-py3-none-any.whl", "/w/y-1-py3-none-any.whl"});
  CHECK(files.directories == std::vector<std::string>{dir + "/wheels"});
}

TEST_CASE("identify: a venv's archive, by name or content, and a directory") {
  ShareRun<VenvRun> run;
  run.make("old");
  run.prepare(
      "tar czf old.tgz -C old . && cp old.tgz packed && cp old.tgz bad.tgz && "
      "truncate -s 100 bad.tgz");
  auto& item = run.add_venv("old.tgz");
  item.shared = true;
  const std::string key = run.valid_key();
  // Its environment and wheels do not matter, since nothing is built.
  item.environment = {"X=1"};
  CHECK(run.key() == key);
  run.order.venv.build = VenvBuild::off;
  CHECK(run.key() != key);
  item.source = run.data() + "/packed";
  CHECK(run.key().size() == k_share_key_bytes);
  item.source = run.data() + "/bad.tgz";  // the job that stages it reports the fault
  CHECK(run.key().size() == k_share_key_bytes);
  item.source = run.data() + "/old";
  const std::string directory = run.valid_key();
  CHECK(run.status.items[0].bytes_total > 1000);
  // Its files name the path where it is.
  run.prepare("ln -s old link");
  item.source = run.data() + "/link";
  const std::string link = run.key();
  CHECK(link != directory);
  run.prepare("touch old/new");
  CHECK(run.key().size() == k_share_key_bytes);
  CHECK(run.key() != link);
}
