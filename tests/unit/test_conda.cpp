#include <doctest/doctest.h>

#include "requirements_run.hpp"
#include "texts.hpp"

using namespace nodestage;

namespace {

// A VenvRun with a package cache, and an environment whose files are linked from there.
struct CondaRun : ShareRun<VenvRun> {
  // In the data directory, with placeholders of that length.
  void install(const std::string& path, std::size_t placeholder = 255) const {
    prepare("python3 conda.py '" + path + "' cache " + std::to_string(placeholder));
  }
  explicit CondaRun(std::size_t placeholder = 255) {
    prepare("cat >conda.py <<'E'\n" + source_text("tests/conda.py") + "E");
    install("old", placeholder);
    prepare("find cache -type f | xargs md5sum >cache.before");
    add_venv("old");
  }

  // Compares what was staged with what conda installs at that path, but for the activation.
  void check_like_conda(const std::string& place, std::size_t placeholder = 255) {
    REQUIRE_MESSAGE(run() == 0, cause());
    const std::string staged = job() + "/" + request.venv->destination;
    prepare("md5sum --quiet -c cache.before");
    prepare("chmod -R u+w '" + staged + "'; mv '" + staged + "' staged");
    install(place, placeholder);
    const std::string differences = output(
        "cd ../data; diff -r --no-dereference -x activate -x __pycache__ '" + place + "' staged");
    CHECK_MESSAGE(differences.empty(), differences);
    CHECK(output("cd ../data/staged/share; [ plain -ef same ] && stat -c %h plain") == "2\n");
    CHECK(output("cd ../data; PYTHONPATH=$(echo staged/lib/python*/site-packages) python3 -c "
                 "'import pure_config; print(pure_config.PREFIX)'") == place + "\n");
  }

  void check_refused(std::initializer_list<std::string_view> words) {
    CHECK(run() == 1);
    check_has(cause(), words);
    CHECK(in_job("test -z \"$(ls -A | grep -v '[.]log$')\" || { ls -A; false; }"));
  }
};

constexpr const char* k_activation_note =
    "for the environment's activation scripts and variables: source $NODESTAGE_VENV/bin/activate";

}  // namespace

TEST_CASE("conda: what is staged is what conda installs at that path") {
  CondaRun run;
  SUBCASE("a shorter path, without the right to write") { run.prepare("chmod -R a-w old"); }
  SUBCASE("a longer one, for which the packages' padding has room") {
    run.request.venv->destination = std::string(50, 'd') + "/env";
    // For this script, the #! line would have been too long there.
    run.prepare("sed -i '1s|.*|#!/usr/bin/env python|' old/bin/pure");
  }
  SUBCASE("an archive, which does not say where it was made but in its files") {
    run.prepare("tar czf env.tgz -C old . && rm -r old");
    run.add_venv("env.tgz");
  }
  run.check_like_conda(run.job() + "/" + run.request.venv->destination);
  CHECK(run.note() == k_activation_note);
}

TEST_CASE("conda: a kept one has its path in the cache") {
  CondaRun run;
  run.order.cache = run.data() + "/c";
  run.request.venv->shared = true;
  const SharedItem decided = run.decide(ShareRole::lead, "env");
  run.check_like_conda(decided.path);
  CHECK(run.has_flag(k_item_whole));
}

TEST_CASE("conda: a file without room for the new path is named, with both paths") {
  const std::size_t exact = CondaRun().data().size() + 4;  // that of "old" in a scratch directory
  CondaRun run(exact);
  std::string to = run.job() + "/longer/env";
  SUBCASE("before anything is copied") { run.request.venv->destination = "longer/env"; }
  SUBCASE("in the cache") {
    run.order.cache = run.data() + "/cache";
    run.request.venv->shared = true;
    to = run.decide(ShareRole::lead, "env").path;
  }
  const std::string from = run.data() + "/old";
  run.check_refused({"file lib/libbase.so: contains the path ", from, to,
                     "has no room for the new one", "shorter destination"});
}

TEST_CASE("conda: what pip has put there follows the rules of venv") {
  CondaRun run;
  run.prepare(R"(site=$(echo old/lib/python*/site-packages); mkdir $site/outer-1.dist-info
printf '#!%s/old/bin/python\nprint(1)\n' "$PWD" >old/bin/show
printf '../../../bin/show,sha256=old,1\n' >$site/outer-1.dist-info/RECORD
printf 'x\0%s/old/lib\0' "$PWD" >$site/outer.bin
echo '{"url": "file:///srv/outer", "dir_info": {"editable": true}}' >$site/outer-1.dist-info/direct_url.json)");
  REQUIRE_MESSAGE(run.run() == 0, run.cause());
  CHECK(run.output("head -n 1 env/bin/show") == "#!" + run.job() + "/env/bin/python\n");
  CHECK_FALSE(has(run.output("cat env/lib/python*/site-packages/*/RECORD"), "sha256=old"));
  CHECK(run.note().starts_with("outer is still read from /srv/outer"));
  CHECK(has(run.output("tr '\\0' '\\n' <$(echo env/lib/python*/site-packages/outer.bin)"),
            run.data() + "/old/lib"));
}

TEST_CASE("conda: its own python compiles what has changed, but not where no program may be run") {
  CondaRun run;
  run.prepare("sed -i '2i touch \"$0.ran\"' old/bin/python3*");
  SUBCASE("it may") { run.order.venv.build = VenvBuild::wheels_only; }
  SUBCASE("it may not") { run.order.venv.build = VenvBuild::off; }
  REQUIRE_MESSAGE(run.run() == 0, run.cause());
  const bool may = run.order.venv.build != VenvBuild::off;
  CHECK(run.in_job("test -e env/bin/python.ran") == may);
  CHECK(run.output("env/bin/pure") == run.job() + "/env\n");
}

TEST_CASE("conda: a listed text is rewritten whatever its size is") {
  CondaRun run;
  run.prepare(
      "(head -c 9000000 /dev/zero | tr '\\0' '#'; echo; echo \"$PWD/old\") "
      ">>old/lib/pkgconfig/base.pc");
  REQUIRE_MESSAGE(run.run() == 0, run.cause());
  CHECK(run.output("tail -n 1 env/lib/pkgconfig/base.pc") == run.job() + "/env\n");
}

TEST_CASE("conda: of an installation, its cache and other environments stay") {
  CondaRun run;
  run.prepare("mkdir -p old/pkgs/x old/envs/y old/share/pkgs; echo 1 >old/share/pkgs/z");
  REQUIRE_MESSAGE(run.run() == 0, run.cause());
  CHECK(run.in_job("test ! -e env/pkgs && test ! -e env/envs && test -e env/share/pkgs/z"));
  CHECK(run.note().starts_with("envs and pkgs of this conda installation are left out: name "));
}

TEST_CASE("conda: what contains environments is none") {
  CondaRun run;
  run.prepare("mkdir -p root project/.pixi; mv old root/envs; cp -r root/envs project/.pixi");
  run.add_venv("root");
  run.check_refused({"root: is no environment itself", "Name one of those in ", "/root/envs"});
  run.add_venv("project");
  run.check_refused({"Name one of those in ", "/project/.pixi/envs"});
}

TEST_CASE("conda: its activation in a shell") {
  CondaRun run;
  const auto activated = [&run] {
    REQUIRE_MESSAGE(run.run() == 0, run.cause());
    return run.output(
        "for shell in bash dash; do $shell -euc '. env/bin/activate; echo "
        "\"${PATH%%:*}|$CONDA_PREFIX|$BASE_DATA|$BASE_MODE|${GONE-}|${X-}\"'; done");
  };
  const std::string env = run.job() + "/env";
  std::string line = env + "/bin|" + env + "|" + env + "/share|it's on||";
  SUBCASE("what its packages and the user have set") {
    run.prepare(R"(mkdir old/etc/conda/env_vars.d
echo '{"BASE_MODE": "a package sets it first", "X": "'$PWD'/old/x"}' >old/etc/conda/env_vars.d/base.json)");
    line += env + "/x";
  }
  SUBCASE("what is no variable") {
    run.prepare(
        R"(echo '{"env_vars": {"X; touch evil": "1", "": "1", "GONE": "***unset***", "N": 1, "BASE_MODE": "it'"'"'s on"}}' >old/conda-meta/state)");
  }
  SUBCASE("that of conda-pack, which would do nothing, does not stay") {
    run.prepare("echo '_conda_pack_activate() { false; }; return 1' >old/bin/activate");
  }
  SUBCASE("a link to that of another installation does not stay") {
    run.prepare("ln -s /nowhere/bin/activate old/bin/activate");
  }
  SUBCASE("its own script stays") {
    run.prepare("echo \"echo '$PWD/old'\" >old/bin/activate");
    CHECK(activated().starts_with(env + "\n"));
    return;
  }
  CHECK(activated() == line + "\n" + line + "\n");
  CHECK(run.in_job("test ! -e evil"));
}

TEST_CASE("conda: environments that cannot be relocated are refused in words") {
  CondaRun run;
  SUBCASE("whose files name another path") {
    run.prepare("tar czf a.tgz -C old --exclude=bin/pure --exclude=bin/prefix-config .");
    run.add_venv("a.tgz");
    run.check_refused({"files do not say where it was made", "conda-pack"});
  }
  SUBCASE("whose files name another path, but for /usr/bin/env") {
    run.prepare(
        "sed -i '1s|.*|#!/usr/bin/env python|' old/bin/pure;"
        "tar czf a.tgz -C old --exclude=bin/prefix-config .");
    run.add_venv("a.tgz");
    run.check_refused({"files do not say where it was made", "conda-pack"});
  }
  SUBCASE("a record that is none") {
    const char* record = "";
    const char* k_rows[] = {"{",
                            R"({"name": "x", "files": ["bin/x"]})",
                            "[]",
                            "\"x\"",
                            "{\"name\": \"x\", \"paths_data\": 1}",
                            "{\"name\": \"x\", \"paths_data\": {\"paths\": [{\"_path\": 1, "
                            "\"prefix_placeholder\": \"/p\"}]}}",
                            "{\"name\": \"x\", \"paths_data\": {\"paths\": [{\"_path\": \"x\", "
                            "\"prefix_placeholder\": 7}]}}"};
    for (const char* text : k_rows) {
      CAPTURE(record = text);
      run.prepare("printf '%s' '" + std::string(text) + "' >old/conda-meta/x-1.json");
      run.check_refused({"/old/conda-meta/x-1.json: is no record of a conda package"});
    }
  }
  SUBCASE("a large record") {
    run.prepare("truncate -s 1G old/conda-meta/x-1.json");
    run.check_refused({"x-1.json: is no record of a conda package with its paths: it is damaged"});
  }
  SUBCASE("a pipe, or a link, as a record") {
    run.prepare("mkfifo old/conda-meta/x-1.json; ln -s base-1-0.json old/conda-meta/y-1.json");
    run.check_refused({"x-1.json: is no record"});
  }
  SUBCASE("deeply nested") {
    run.prepare("python3 -c 'print(\"[\" * 3000000)' >old/conda-meta/x-1.json");
    run.check_refused({"x-1.json: is no record"});
  }
}

TEST_CASE("conda: paths in a record that lead elsewhere") {
  CondaRun run;
  run.request.venv->destination = std::string(230, 'd') + "/env";  // longer than any placeholder
  run.prepare(R"(printf '%s/old\0' "$PWD" >victim; cp victim before
mkfifo old/lib/fifo; ln -s "$PWD/victim" old/lib/link; ln -s "$PWD" old/lib/out; rm old/lib/libbase.so
python3 - "$PWD" <<'E'
import json, sys
names = ["../victim", "/../victim", sys.argv[1] + "/victim", "lib/fifo", "lib/link", "lib/out/victim", "lib", "", "x" * 5000]
paths = [{"_path": name, "prefix_placeholder": "/p", "file_mode": mode} for name in names for mode in ("binary", "text")]
json.dump({"name": "x", "paths_data": {"paths": paths + [None, {}, {"_path": "x", "prefix_placeholder": None}]}}, open("old/conda-meta/x-1.json", "w"))
E)");
  REQUIRE_MESSAGE(run.run() == 0, run.cause());
  CHECK(run.in_data("cmp victim before") == 0);
  CHECK(run.output("readlink env*/env/lib/link ddd*/env/lib/link") == run.data() + "/victim\n");
}
