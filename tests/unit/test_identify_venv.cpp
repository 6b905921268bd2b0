#include <doctest/doctest.h>

#include "daemon/worker/venv/requirements.hpp"
#include "key_values.hpp"
#include "requirements_run.hpp"

using namespace nodestage;

TEST_CASE("identify: a venv of requirements by all that its build reads") {
  Requirements run;
  const std::string key = run.valid_key();
  CHECK(run.what() == "env");
  CHECK(run.has_flag(k_item_shared));
  CHECK(run.has_flag(k_item_venv));
  CHECK(run.status.items[0].bytes_total == 13);
  CHECK(run.key() == key);
  const auto in_data = [&run](const std::string& command) { REQUIRE(run.in_data(command) == 0); };
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
  REQUIRE(run.in_data("echo x >sub/x.whl") == 0);
  CHECK(run.key() != key);
}

TEST_CASE("identify: the same bytes of requirements elsewhere have the same key") {
  Requirements run;
  const std::string key = run.key();
  REQUIRE(run.in_data("mkdir copy && cp -r r.txt sub copy") == 0);
  run.item().source = run.data() + "/copy/r.txt";
  CHECK(run.key() == key);
}

TEST_CASE("identify: the script that defines `module`, and uv, are in the key") {
  Requirements run;
  std::string file;
  SUBCASE("module") { run.item().modules = {"m"}, file = "init.sh"; }
  SUBCASE("uv") { run.order.venv.installer = VenvInstaller::uv, file = "bin/uv"; }
  const std::string key = run.valid_key();
  REQUIRE(run.in_data("cp -p " + file + " x && mv x " + file) == 0);
  CHECK(run.key() != key);
}

TEST_CASE("identify: requirements that must not be kept") {
  Requirements run;
  std::string why;
  const auto lines = [&run](const std::string& text) {
    REQUIRE(run.in_data("echo '" + text + "' >r.txt") == 0);
  };
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
    REQUIRE(run.in_data("rm bin/python3") == 0);
    why = "this node has no python3 in the PATH of the submission";
  }
  SUBCASE("a directory that was just changed, with many bytes") {
    run.order.cache_min_age_s = 60;
    REQUIRE(run.in_data("truncate -s 65M links/x.whl && touch -d 2020-01-01 links/x.whl") == 0);
    why = run.data() + "/w: was changed less than a minute ago";
  }
  CHECK(run.key().empty());
  CHECK(run.why_not == why);
}

TEST_CASE("identify: a wheel of many bytes that was just changed, in a directory that was not") {
  Requirements run;
  run.order.cache_min_age_s = 2;
  REQUIRE(run.in_data("truncate -s 65M w/pack-1-py3-none-any.whl && sleep 2.1") == 0);
  const std::string why =
      run.data() + "/w/pack-1-py3-none-any.whl: was changed less than a minute ago";
  std::string key = "none";
  // Where two seconds pass in between, again.
  for (int tries = 0; tries < 50 && run.why_not != why; ++tries) {
    REQUIRE(run.in_data("touch w/pack-1-py3-none-any.whl") == 0);
    key = run.key();
  }
  CHECK(key.empty());
  CHECK(run.why_not == why);
}

TEST_CASE("identify: wheels that were just put there are known by their bytes") {
  Requirements run;
  run.order.cache_min_age_s = 60;
  const std::string key = run.valid_key();
  REQUIRE(run.in_data("touch w links r.txt sub/a.txt w/* links/*") == 0);
  CHECK(run.key() == key);
  SUBCASE("other bytes") { REQUIRE(run.in_data("echo W >w/pack-1-py3-none-any.whl") == 0); }
  SUBCASE("another name") { REQUIRE(run.in_data("mv links/x.whl links/y.whl") == 0); }
  SUBCASE("one more") { REQUIRE(run.in_data(": >links/y.whl") == 0); }
  SUBCASE("other requirements") { REQUIRE(run.in_data("echo other >sub/a.txt") == 0); }
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
  REQUIRE(run.make("old") == 0);
  REQUIRE(run.in_data("tar czf old.tgz -C old . && cp old.tgz packed && cp old.tgz bad.tgz && "
                      "truncate -s 100 bad.tgz") == 0);
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
  REQUIRE(run.in_data("ln -s old link") == 0);
  item.source = run.data() + "/link";
  const std::string link = run.key();
  CHECK(link != directory);
  REQUIRE(run.in_data("touch old/new") == 0);
  CHECK(run.key().size() == k_share_key_bytes);
  CHECK(run.key() != link);
}
