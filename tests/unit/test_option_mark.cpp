#include <doctest/doctest.h>

#include "common/request/option_text.hpp"

using namespace nodestage;

namespace {

std::string lines(std::string_view text, TextRange place) {
  const Error error = marked("o", text, place, {EINVAL, "cause"});
  CHECK(error.code == EINVAL);
  CHECK(error.what == "--o: cause");
  return error.text().substr(error.text().find('\n') + 1);
}

// The places [begin, end) of `part` in `text`.
TextRange place_of(std::string_view text, std::string_view part) {
  const std::size_t begin = text.find(part);
  return {begin, begin + part.size()};
}

}  // namespace

TEST_CASE("the mark stands under what it means, whatever the characters before it take") {
  for (const std::string_view before : {"\xc3\xa9", "e\xcc\x81"}) {  // é, one character or two
    const std::string text = std::string(before) + ",bad,x";
    CHECK(lines(text, place_of(text, "bad")) == "  --o=" + text + "\n        ^~~");
  }
  const std::string wide = "\xe6\x97\xa5\xe6\x9c\xac:\xf0\x9f\x93\x81,bad";  // two columns each
  CHECK(lines(wide, place_of(wide, "bad")) ==
        "  --o=" + wide + "\n" + std::string(14, ' ') + "^~~");
  CHECK(lines(wide, place_of(wide, "\xe6\x9c\xac")) == "  --o=" + wide + "\n        ^~");
}

TEST_CASE("what is not printed as it is takes the place of its escape") {
  const std::string text = "a\n\x1b[1m\xff,bad";
  CHECK(lines(text, place_of(text, "bad")) ==
        "  --o=a\\x0a\\x1b[1m\\xff,bad\n" + std::string(23, ' ') + "^~~");
  CHECK(lines("a\n", {1, 2}) == "  --o=a\\x0a\n       ^~~~");
  // A sequence cut short by the end.
  CHECK(lines("a\xe2\x82", {1, 3}) == "  --o=a\\xe2\\x82\n       ^~~~~~~~");
}

TEST_CASE("of a long text the part around the place is shown") {
  const std::string text = std::string(200, 'a') + ",bad=1," + std::string(300, 'b');
  const std::string shown = lines(text, place_of(text, "bad=1"));
  const std::size_t newline = shown.find('\n');
  CHECK(newline < 64);
  CHECK(shown.starts_with("  --o=...aaa"));
  CHECK(shown.substr(0, newline).ends_with("..."));
  const std::size_t mark = shown.find('^') - newline - 1;
  CHECK(shown.substr(mark, 5) == "bad=1");
  CHECK(shown.ends_with("^~~~~"));
  // A place that is longer than what is shown.
  const std::string long_place = lines(text, {201, text.size()});
  CHECK(long_place.starts_with("  --o=...bad=1,bbb"));
  CHECK(long_place.substr(0, long_place.find('\n')).ends_with("bbb..."));
  const std::string at_end = lines(text, {text.size(), text.size()});
  CHECK(at_end.substr(0, at_end.find('\n')).ends_with("bbb"));
  CHECK(at_end.size() - at_end.find('\n') - 1 == at_end.find('\n') + 1);
}
