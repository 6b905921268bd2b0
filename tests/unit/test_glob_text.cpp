#include <doctest/doctest.h>

#include <string>

#include "common/text/glob_text.hpp"
#include "common/text/path_names.hpp"

using namespace nodestage;

namespace {

// The texts with blanks between them, or the fault's code.
std::string texts(std::string_view glob) {
  const auto found = brace_texts(glob);
  if (!found) return "fault " + std::to_string(found.error().code);
  std::string all;
  for (const auto& text : *found) all += (all.empty() ? "" : " ") + text;
  return all;
}

}  // namespace

TEST_CASE("braces stand for what bash makes of them") {
  CHECK(texts("x") == "x");
  CHECK(texts("s-{000..002}.tar") == "s-000.tar s-001.tar s-002.tar");
  CHECK(texts("{8..11}") == "8 9 10 11");
  CHECK(texts("{08..11..2}") == "08 10");
  CHECK(texts("{2..0}") == "2 1 0");
  CHECK(texts("{-1..1}") == "-1 0 1");
  CHECK(texts("{-01..1}") == "-01 000 001");
  CHECK(texts("{a..e..2}") == "a c e");
  CHECK(texts("{a,b}/{c,d}") == "a/c a/d b/c b/d");
  CHECK(texts("{a,b{1,2}}x") == "ax b1x b2x");
  CHECK(texts("x{,.bak}") == "x x.bak");
  CHECK(texts("*.{png,jp{,e}g}") == "*.png *.jpg *.jpeg");
}

TEST_CASE("what bash does not expand is literal") {
  for (const char* text : {"{a}", "{}", "{a", "a}", "{1..}", "{a..5}", "{1..2..x}", "{A..z}",
                           "${a,b}", "\\{a,b}", "{a\\,b}", "a{1:b", "{1...3}"}) {
    CAPTURE(text);
    CHECK(texts(text) == text);
    CHECK_FALSE(has_braces(text));
  }
  CHECK(texts("{{a}") == "{{a}");
  CHECK(texts("{x{a,b}") == "{xa {xb");
  CHECK(texts("{a\\,b,c}") == "a,b c");
  CHECK(texts("\\{{a,b}\\*") == "{a\\* {b\\*");
}

TEST_CASE("the number of texts is bounded") {
  CHECK(texts("{1..10001}") == "fault 7");
  CHECK(texts("{1..999999999999999}") == "fault 7");
  CHECK(texts("{0..9}{0..9}{0..9}{0..9}{0..9}") == "fault 7");
  CHECK(brace_texts("{0..9}{0..9}{0..9}{0..9}")->size() == k_max_brace_texts);
  CHECK(texts("{1..9000}" + std::string(1000, 'x')) == "fault 7");
  std::string many;
  for (int i = 0; i < 2000; ++i) many += "{1..1}";
  CHECK(texts(many) == std::string(2000, '1'));
  CHECK_FALSE(has_braces(std::string(20'000, '{')));
}

TEST_CASE("globs are told from names") {
  for (const char* glob : {"a*", "a?", "[a]", "{a,b}", "x{1..3}", "\\{a,b\\}", "{x*"})
    CHECK(is_glob(glob));
  for (const char* name : {"a", "{a}", "{x", "a,b", "\\a"}) CHECK_FALSE(is_glob(name));
  CHECK(start_of_any_depth("a/**/b") == 2);
  CHECK(start_of_any_depth("**") == 0);
  CHECK(start_of_any_depth("x**/**") == 4);
  CHECK(start_of_any_depth("a**/b/***") == std::string::npos);
}
