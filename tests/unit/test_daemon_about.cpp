#include <doctest/doctest.h>

#include "common/wire/daemon_about.hpp"

using namespace nodestage;

TEST_CASE("the encoding of what a daemon tells about itself does not change") {
  const DaemonAbout about{"0.1.0",
                          "/localscratch",
                          1 << 30,
                          600,
                          "memory, pids",
                          true,
                          {SandboxState::Kind::fault, "seccomp: not permitted"},
                          true,
                          60,
                          {CredentialState::Kind::holds, "MUNGE"}};
  const std::string text =
      "version=0.1.0\ntmpdir=/localscratch\nleave_free=1073741824\nepilog_wait=600\n"
      "no_cgroups=memory, pids\ncgroups_in_unit=1\nsandbox=fault: seccomp: not "
      "permitted\nsandbox_required=1\nleast_interval=60\ncredentials=holds: MUNGE\n";
  CHECK(encode_about(about) == text);
  CHECK(decode_about(text) == about);
}

TEST_CASE("about: what is not known or not whole is passed over") {
  const DaemonAbout about = decode_about("later=1\n\nversion=2=3\nleave_free=x\ntmpdir");
  CHECK(about == DaemonAbout{"2=3", "", 0, 0, "", false, {}, false, 0, {}});
  CHECK(decode_about("sandbox=holds\n").sandbox.kind == SandboxState::Kind::holds);
  CHECK(decode_about("sandbox=\n").sandbox == SandboxState{});
  CHECK(decode_about("sandbox=holds out\n").sandbox == SandboxState{});
  CHECK(decode_about("") == DaemonAbout{});
}
