#include <doctest/doctest.h>

#include "daemon/worker/venv/venv_python.hpp"
#include "daemon/worker/venv/venv_text.hpp"

using namespace nodestage;

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
  unsigned left = 0;
  const std::string data("\x7f\0/home/a/env/lib:/home/a/env\0z", 32);
  const auto result = moved_strings(data, k_move, left);
  REQUIRE(result);
  CHECK(*result == std::string("\x7f\0/tmp/j/env/lib:/tmp/j/env\0\0\0z", 32));
  CHECK(left == 0);
  CHECK_FALSE(moved_strings(data, VenvMove({"/home/a/env"}, "/home/a/longer"), left));
  CHECK(left == 1);
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
