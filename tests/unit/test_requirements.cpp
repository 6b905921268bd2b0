#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>

#include "daemon/worker/venv/requirements.hpp"
#include "daemon/worker/venv/venv_python.hpp"
#include "daemon/worker/venv/venv_text.hpp"
#include "scratch.hpp"
#include "texts.hpp"

using namespace nodestage;

namespace {

// The fault for a file of that content, "" for none.
std::string fault_of(const std::string& content) {
  const Scratch scratch;
  std::ofstream(scratch / "r.txt", std::ios::binary) << content;
  const Status status = check_wheels_only(scratch / "r.txt");
  return status ? "" : status.error().text();
}

}  // namespace

TEST_CASE("requirements: names, versions, hashes and wheels are fine") {
  CHECK(fault_of("").empty());
  CHECK(fault_of(
            "# -e .\nnumpy==1.24.2 \\\n    --hash=sha256:abc\npkg[extra]>=1; python_version < '4'\n"
            "--find-links ./wheels\n-c constraints.txt\n./wheels/x-1-py3-none-any.whl\n"
            "y @ file:///w/y-1-py3-none-any.whl#sha256=12\r\n")
            .empty());
}

TEST_CASE("requirements: what would run code of its sources is refused, with the line") {
  for (const char* line : {"-e .",
                           "--editable=src/x",
                           "./pkg",
                           "/home/a/pkg",
                           "x-1.0.tar.gz",
                           "pkg/x-1.0.zip",
                           "git+https://host/x.git",
                           "x @ git+ssh://host/x",
                           "x @ file:///usr",
                           "--no-binary :all:",
                           "  -e git+https://host/x#egg=x",
                           "--pre --no-binary :all:",
                           "--no-bin=x",
                           "--pre -e .",
                           "--edit .",
                           "numpy --no-binary=x",
                           "--pre \"--no-binary\" x",
                           "x\t@ file:///usr",
                           "# x \\\n-e .",
                           "x\r-e .",
                           "x\f-e ."}) {
    const std::string fault = fault_of("numpy\n" + std::string(line) + "\n");
    CHECK(has(fault, "wheels-only"));
  }
  CHECK(has(fault_of("-\\\r\ne .\r\n"), "'-e .' is not a wheel"));
  CHECK(has(fault_of("a @ file:///croot/a_1/work\n"),
            "'a @ file:///croot/a_1/work' names a file that does not exist here\nCorrect its path; "
            "or if"));
  CHECK(has(fault_of("-\\\ne .\n"), "'-e .' is not a wheel"));
}

TEST_CASE("requirements: -r is followed, in circles too") {
  const Scratch scratch;
  std::ofstream(scratch / "a.txt") << "-r b.txt\n";
  std::ofstream(scratch / "b.txt") << "--requirement=a.txt\n-rc.txt\n";
  CHECK(check_wheels_only(scratch / "a.txt"));
  std::ofstream(scratch / "c.txt") << "-e .\n";
  CHECK(has(must_fail(check_wheels_only(scratch / "a.txt")).text(), "c.txt: '-e .'"));
}

TEST_CASE("requirements: constraints and addresses of files are followed, so many of them") {
  const Scratch scratch;
  std::ofstream(scratch / "c.txt") << "x @ file:///home/a/x\n";
  std::ofstream(scratch / "a.txt") << "-c c.txt\nx\n";
  CHECK_FALSE(check_wheels_only(scratch / "a.txt"));
  std::ofstream(scratch / "b.txt") << "--pre --requirement file://" << (scratch / "c.txt") << "\n";
  CHECK_FALSE(check_wheels_only(scratch / "b.txt"));
  std::ofstream many(scratch / "many.txt");
  for (int i = 0; i < 1000; ++i) many << "-r " << (i % 2 == 0 ? "./" : "") << "many.txt\n";
  many.close();
  CHECK(check_wheels_only(scratch / "many.txt"));
}

TEST_CASE("requirements: files that are something else") {
  const Scratch scratch;
  std::ofstream(scratch / "r.txt") << "numpy\n";
  std::ofstream(scratch / "empty.txt") << "";
  std::ofstream(scratch / "pyproject.toml") << "[project]\n";
  std::ofstream(scratch / "data", std::ios::binary) << std::string("a\0b", 3);
  CHECK(check_is_requirements(scratch / "r.txt"));
  CHECK(check_is_requirements(scratch / "empty.txt"));
  CHECK_FALSE(check_is_requirements(scratch / "pyproject.toml"));
  CHECK_FALSE(check_is_requirements(scratch / "data"));
  std::ofstream(scratch / "environment.yml") << "name: torch\n";
  CHECK(has(must_fail(check_is_requirements(scratch / "environment.yml")).text(),
            "conda env create --file"));
  std::filesystem::create_directories(scratch / "e/bin");
  std::filesystem::create_directories(scratch / "bin");
  for (const char* name : {"e/pyvenv.cfg", "e/requirements.txt", "e/bin/activate", "bin/activate"})
    std::ofstream(scratch / name) << "deactivate () {\n";
  for (const char* part : {"e/bin/activate", "e/pyvenv.cfg", "e/bin"})
    CHECK(has(must_fail(check_is_requirements(scratch / part)).text(),
              "Name the environment itself: --stage-venv=" + (scratch / "e")));
  for (const char* other : {"bin/activate", "e/requirements.txt"})
    CHECK(check_is_requirements(scratch / other));
}

namespace {

// The same text as PowerShell's `>` writes it.
std::string in_utf16(std::string_view text) {
  std::string bytes = "\xFF\xFE";
  for (const char c : text) (bytes += c) += '\0';
  return bytes;
}

// The fault of what a build cannot reach, "" for none.
std::string beyond(const std::string& content, std::string_view log = {}) {
  const Scratch scratch;
  std::ofstream(scratch / "r.txt", std::ios::binary) << content;
  const Status status = check_reach(scratch / "r.txt", {"HOME=/home/a", "W=/w", "R=more"}, log);
  return status ? "" : status.error().what;
}

}  // namespace

TEST_CASE("requirements: UTF-16 with a byte order mark is text, and is looked into") {
  const Scratch scratch;
  std::ofstream(scratch / "r.txt", std::ios::binary) << in_utf16("numpy==1.24.2\r\n-e .\r\n");
  CHECK(check_is_requirements(scratch / "r.txt"));
  CHECK(fault_of(in_utf16("numpy==1.24.2\r\nshout\r\n")).empty());
  CHECK(has(fault_of(in_utf16("numpy\r\n-e .\r\n")), "'-e .'"));
  CHECK(has(fault_of("\xEF\xBB\xBF-e .\n"), "'-e .'"));
}

TEST_CASE("requirements: what is downloaded, with the line") {
  for (const char* line : {"demo @ https://host/demo-1.0-py3-none-any.whl",
                           "git+https://host/x.git", "-e git+ssh://git@host/x#egg=x",
                           "-r https://host/more.txt", "demo[a] @ git+https://host/x@v1"}) {
    const std::string fault = beyond("numpy\n" + std::string(line) + "\n");
    CHECK(has(fault, "'" + std::string(line) + "' is downloaded"));
  }
  CHECK(has(beyond("x @ https://me:secret@host/x.whl"), "https://****@host/x.whl"));
  CHECK(beyond("--index-url https://host/simple\n--extra-index-url https://${TOKEN}@host/\nnumpy\n"
               "y @ file:///usr/./bin\n-f https://host/wheels\n# https://host\n")
            .empty());
}

TEST_CASE("requirements: wheels that pip freeze names where conda had them") {
  CHECK(has(beyond("numpy @ file:///croot/n%20p/dist/numpy-1.26.4-cp312.whl#sha256=12\n"),
            "names a file that does not exist here"));
  CHECK(beyond("x @ file:///croot/x-1-py3-none-any.whl ; python_version < '3'\n").empty());
}

TEST_CASE("requirements: a line with a marker counts if pip has acted on it") {
  const std::string text = "demo @ https://me:x@host/demo.whl ; python_version >= '3.8'\n";
  CHECK(beyond(text).empty());
  CHECK(beyond(text, "No matching distribution found for other").empty());
  CHECK_FALSE(beyond(text, "Collecting demo@ https://me:****@host/demo.whl").empty());
}

TEST_CASE("requirements: variables that the build has, and one that it has not") {
  CHECK(beyond("${W}/demo-1-py3-none-any.whl\n--find-links ${W}\n-c ${R}.txt\n").empty());
  CHECK(has(beyond("numpy\n${WHEELS}/demo-1-py3-none-any.whl\n"),
            "'${WHEELS}/demo-1-py3-none-any.whl': the build has no variable ${WHEELS}"));
  CHECK_FALSE(beyond("-r ${W}/${NONE}/r.txt").empty());
  CHECK(has(beyond("numpy\n--find-links ${WHEELS}/w\n"), "the build has no variable ${WHEELS}"));
  CHECK(has(beyond("-f${WHEELS}\n"), "the build has no variable ${WHEELS}"));
  CHECK(beyond("${small}/$W/${}x-1-py3-none-any.whl").empty());
  CHECK(with_variables("${W}-${W}${NONE}${R}", {"W=${W}", "R=r"}) == "${W}-${W}${NONE}r");
}

TEST_CASE("requirements: what is included is looked at, too") {
  const Scratch scratch;
  std::ofstream(scratch / "a.txt") << "-r ${PART}.txt\n";
  std::ofstream(scratch / "b.txt") << "-c a.txt\nx @ https://host/x.whl\n";
  const Error status = must_fail(check_reach(scratch / "a.txt", {"PART=b"}));
  CHECK(has(status.what, "b.txt: 'x @ https://host/x.whl'"));
}

namespace {

const VenvMove k_move({"/home/a/env", "/lustre/a/env"}, "/tmp/j/env");

std::string moved(std::string_view text, const VenvMove& move = k_move) {
  return moved_text(text, move).value_or("(as it was)");
}

std::string script(std::string_view text, const VenvMove& move = k_move,
                   EnvPython env = EnvPython::keep) {
  return moved_script(text, move, env).value_or("(as it was)");
}

}  // namespace

TEST_CASE("venv text: a file's hash in RECORD") {
  CHECK(record_hash("") == "sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0");
  CHECK(record_hash("abc") == "sha256=ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0,3");
}

TEST_CASE("venv text: whole paths only") {
  CHECK(moved("x=/home/a/env/lib") == "x=/tmp/j/env/lib");
  CHECK(moved("/home/a/env") == "/tmp/j/env");
  CHECK(moved("'/home/a/env' \"/lustre/a/env/x\"") == "'/tmp/j/env' \"/tmp/j/env/x\"");
  CHECK(moved("-I/home/a/env/include -L/home/a/env/lib:/home/a/env") ==
        "-I/tmp/j/env/include -L/tmp/j/env/lib:/tmp/j/env");
  CHECK(moved("made in /home/a/env.") == "made in /tmp/j/env.");
  for (const char* other :
       {"/home/a/env2", "/home/a/env-old", "/home/a/env.bak", "/mnt/home/a/env", "/home/a/en",
        "/home/a/env_x/y", "/home/a/env\xc3\xa9", "../home/a/env"}) {
    CHECK(moved(other) == "(as it was)");
  }
  CHECK(moved("file:///home/a/env/src") == "file:///tmp/j/env/src");
}

TEST_CASE("venv text: names with blanks and more, as URLs, JSON and shells write them") {
  const VenvMove move({"/home/a/m\xc3\xb6 env's"}, "/tmp/j/my env");
  CHECK(moved("file:///home/a/m%C3%B6%20env%27s/x", move) == "file:///tmp/j/my%20env/x");
  CHECK(moved("{\"argv\": [\"/home/a/m\\u00f6 env's/bin/python\"]}", move) ==
        "{\"argv\": [\"/tmp/j/my env/bin/python\"]}");
  CHECK(moved("VIRTUAL_ENV='/home/a/m\xc3\xb6 env'\"'\"'s'", move) ==
        "VIRTUAL_ENV='/tmp/j/my env'");
}

TEST_CASE("venv text: activate gets quotes where the new path needs some") {
  const VenvMove blank({"/old"}, "/tmp/j/my env");
  CHECK(moved_activate("VIRTUAL_ENV=/old\n", blank) == "VIRTUAL_ENV='/tmp/j/my env'\n");
  CHECK(moved_activate("VIRTUAL_ENV=\"/old\"\n", blank) == "VIRTUAL_ENV=\"/tmp/j/my env\"\n");
  CHECK(moved_activate("it's\nsetenv VIRTUAL_ENV /old\n", blank) ==
        "it's\nsetenv VIRTUAL_ENV '/tmp/j/my env'\n");
  CHECK(moved_activate("VIRTUAL_ENV=/old\n", VenvMove({"/old"}, "/new")) == "VIRTUAL_ENV=/new\n");
  CHECK_FALSE(moved_activate("VIRTUAL_ENV=$HERE\n", blank));
}

TEST_CASE("venv text: the interpreter of a script") {
  const std::string body = "import sys\n";
  CHECK(script("#!/home/a/env/bin/python3\n" + body) == "#!/tmp/j/env/bin/python3\n" + body);
  CHECK(script("#!/home/a/env/bin/python3 -E\n" + body) == "#!/tmp/j/env/bin/python3 -E\n" + body);
  CHECK(script("#!/usr/bin/python3\n" + body) == "(as it was)");
  CHECK(script("#!/usr/bin/python3\nx = '/home/a/env/share'\n") ==
        "#!/usr/bin/python3\nx = '/tmp/j/env/share'\n");
  CHECK(script("#!/usr/bin/env python3\n" + body) == "(as it was)");
  CHECK(script("#!/usr/bin/env python3\n" + body, k_move, EnvPython::take) ==
        "#!/tmp/j/env/bin/python3\n" + body);
  CHECK(script("#!/usr/bin/env bash\n" + body, k_move, EnvPython::take) == "(as it was)");
  CHECK(script("#!/home/a/env/bin/python") == "#!/tmp/j/env/bin/python\n");
}

TEST_CASE("venv text: over-long and blank paths take the form that sh reads, and back") {
  const std::string body = "import sys\n";
  const std::string deep = "/tmp/" + std::string(150, 'd') + "/env";
  const std::string in_sh =
      "#!/bin/sh\n'''exec' \"" + deep + "/bin/python3\" \"$0\" \"$@\"\n' '''\n" + body;
  CHECK(script("#!/home/a/env/bin/python3\n" + body, VenvMove({"/home/a/env"}, deep)) == in_sh);
  CHECK(script(in_sh, VenvMove({deep}, "/n")) == "#!/n/bin/python3\n" + body);
  // pip writes no quotes around a path without blanks.
  const std::string bare =
      "#!/bin/sh\n'''exec' " + deep + "/bin/python3 \"$0\" \"$@\"\n' '''\n" + body;
  CHECK(script(bare, VenvMove({deep}, "/a b")) ==
        "#!/bin/sh\n'''exec' \"/a b/bin/python3\" \"$0\" \"$@\"\n' '''\n" + body);
  CHECK(script("#!/home/a/env/bin/python3 -E\n", VenvMove({"/home/a/env"}, "/a b")) ==
        "#!/bin/sh\n'''exec' \"/a b/bin/python3\" -E \"$0\" \"$@\"\n' '''\n");
  // 127 bytes are the most.
  const std::string name = "/bin/python3";
  const std::string fits = "/" + std::string(127 - 3 - name.size(), 'x');
  CHECK(script("#!/home/a/env/bin/python3\n", VenvMove({"/home/a/env"}, fits)).starts_with("#!/x"));
  CHECK(script("#!/home/a/env/bin/python3\n", VenvMove({"/home/a/env"}, fits + "x"))
            .starts_with("#!/bin/sh\n"));
  // Other languages cannot read the three lines, and bash would start itself for ever.
  CHECK(script("#!/home/a/env/bin/bash\n", VenvMove({"/home/a/env"}, "/a b")) ==
        "#!/usr/bin/env bash\n");
  CHECK(script("#!/home/a/env/bin/perl -w\n", VenvMove({"/home/a/env"}, deep)) ==
        "#!/usr/bin/env -S perl -w\n");
  CHECK(script("#!/home/a/env/bin/bash\n") == "#!/tmp/j/env/bin/bash\n");
  CHECK(script("#!/bin/sh\necho hi\n") == "(as it was)");
  CHECK(script("#!/bin/sh\n'''exec' broken") == "(as it was)");
}

TEST_CASE("venv text: an archive behind a #! keeps its bytes") {
  const std::string zip("PK\3\4\0/home/a/env\0", 17);
  CHECK(script("#!/home/a/env/bin/python3\n" + zip) == "#!/tmp/j/env/bin/python3\n" + zip);
}

TEST_CASE("venv text: strings in binaries keep their length") {
  const auto text = [](const char* bytes) {  // '|' is a NUL
    std::string data(bytes);
    std::replace(data.begin(), data.end(), '|', '\0');
    return data;
  };
  const auto path = VenvMove::Match::path;
  const auto prefix = VenvMove::Match::prefix;
  struct Row {
    std::string name;
    VenvMove::Match match;
    std::size_t placeholder;
    const char* to;
    const char* before;
    const char* after;
    unsigned left;
  };
  const Row rows[] = {
      {"two in one", path, 0, "/j/env", "x|/h/a/env/lib:/h/a/env|z", "x|/j/env/lib:/j/env|||||z",
       0},
      {"longer", path, 0, "/job/7/env", "x|/h/a/env|z", "x|/h/a/env|z", 1},
      {"another name", path, 0, "/j/env", "a|-isystem/h/a/env|/h/a/env2|",
       "a|-isystem/h/a/env|/h/a/env2|", 0},
      {"behind others", prefix, 0, "/j/env", "a|-isystem/h/a/env%s|", "a|-isystem/j/env%s|||", 0},
      {"goes on", prefix, 0, "/j/env", "/h/a/env2|/h/a/env_x|/h/a/env-x|",
       "/h/a/env2|/h/a/env_x|/h/a/env-x|", 0},
      {"a longer path", prefix, 0, "/j/env", "/mnt.d/h/a/env|../h/a/env|",
       "/mnt.d/h/a/env|../h/a/env|", 0},
      {"an address", prefix, 0, "/j/env", "file:///h/a/env|", "file:///j/env|||", 0},
      {"no string", prefix, 0, "/j/env", "x|/h/a/env", "x|/h/a/env", 0},
      {"its padding", prefix, 12, "/job/7/env", "/h/a/env/x||||||z", "/job/7/env/x||||z", 0},
      {"all of its padding", prefix, 12, "/job/77/env1", "/h/a/env/x|||||z", "/job/77/env1/x|z", 0},
      {"padding of two", prefix, 12, "/job/7/env", "/h/a/env:/h/a/env|||||||||z",
       "/job/7/env:/job/7/env|||||z", 0},
      {"beyond its padding", prefix, 12, "/job/777/env1", "/h/a/env/x|||||z", "/h/a/env/x|||||z",
       1},
      {"not padded", prefix, 12, "/job/7/env", "/h/a/env/x||||z", "/h/a/env/x||||z", 1},
      {"a short placeholder", prefix, 2, "/job/7/env", "/h/a/env/x||||z", "/h/a/env/x||||z", 1},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    std::string data = text(row.before);
    unsigned left = 0;
    for (const auto& patch :
         string_patches(data, VenvMove({"/h/a/env"}, row.to, row.match), row.placeholder, left))
      data.replace(patch.at, patch.bytes.size(), patch.bytes);
    CHECK(data == text(row.after));
    CHECK(left == row.left);
  }
}

TEST_CASE("venv text: RECORD") {
  const auto fresh = [](const std::string& path) {
    return path == "../../../bin/f2py" || path == "a,b.py" ? "sha256=NEW,7" : "";
  };
  CHECK(updated_record("../../../bin/f2py,sha256=old,216\r\n\"a,b.py\",sha256=old,1\n"
                       "x/__init__.py,sha256=keep,3\n../../../bin/f2py,,\nx/RECORD,,\n",
                       fresh) ==
        "../../../bin/f2py,sha256=NEW,7\r\n\"a,b.py\",sha256=NEW,7\n"
        "x/__init__.py,sha256=keep,3\n../../../bin/f2py,,\nx/RECORD,,\n");
  CHECK_FALSE(updated_record("x,sha256=keep,3\n", fresh));
  CHECK_FALSE(updated_record("garbage\n,\n,,\n\n", fresh));
}

TEST_CASE("venv text: what is read from elsewhere") {
  CHECK(editable_source(R"({"url":"file:///home/a/my%20src","dir_info":{"editable":true}})") ==
        "/home/a/my src");
  CHECK(editable_source(R"({"url":"file:///x.whl","archive_info":{}})").empty());
  CHECK(editable_source("not json").empty());
  CHECK(pth_paths("import x; x()\n/home/a/src\n# c\nrelative\n  /b  \n") ==
        std::vector<std::string>{"/home/a/src", "/b"});
}

TEST_CASE("venv text: where it was made") {
  CHECK(place_in_activate("x\nVIRTUAL_ENV=\"/home/a/env\"\nexport VIRTUAL_ENV\n") == "/home/a/env");
  CHECK(place_in_activate("    VIRTUAL_ENV=$(cygpath /x)\n  VIRTUAL_ENV='/a b'\n") == "/a b");
  CHECK(place_in_activate("VIRTUAL_ENV=/p/env/\n") == "/p/env");
  CHECK(place_in_activate("_OLD_VIRTUAL_ENV=/p\nVIRTUAL_ENV=$X/env\n").empty());
  CHECK(venv_setting("home = /usr/bin\r\nversion=3.11.2\n", "home") == "/usr/bin");
  CHECK(venv_setting("home = /usr/bin\nversion=3.11.2\n", "version") == "3.11.2");
  CHECK(venv_setting("", "home").empty());
}
