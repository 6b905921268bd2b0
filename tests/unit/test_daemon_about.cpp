#include <doctest/doctest.h>

#include "common/daemon_about.hpp"

using namespace nodestage;

TEST_CASE("about: golden") {
  const DaemonAbout about{"0.1.0", "/localscratch", 1 << 30, 600, "memory, pids"};
  const std::string text =
      "version=0.1.0\ntmpdir=/localscratch\nleave_free=1073741824\nepilog_wait=600\n"
      "no_cgroups=memory, pids\n";
  CHECK(encode_about(about) == text);
  CHECK(decode_about(text) == about);
}

TEST_CASE("about: what is not known or not whole is passed over") {
  const DaemonAbout about = decode_about("later=1\n\nversion=2=3\nleave_free=x\ntmpdir");
  CHECK(about == DaemonAbout{"2=3", "", 0, 0, ""});
  CHECK(decode_about("") == DaemonAbout{});
}
