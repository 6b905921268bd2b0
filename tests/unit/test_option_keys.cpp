// The keys of the options: the messages about them, and the documents that list them.
#include <doctest/doctest.h>

#include <cctype>
#include <iterator>
#include <set>
#include <sstream>

#include "key_values.hpp"
#include "option_items.hpp"
#include "texts.hpp"

using namespace nodestage;

namespace {

std::string first_line(const std::string& fault) { return fault.substr(0, fault.find('\n')); }

// The part of a text after `begin`, up to `end`.
std::string part_of(const std::string& text, const std::string& begin, const std::string& end) {
  const std::size_t at = text.find(begin);
  REQUIRE_MESSAGE(at != std::string::npos, begin);
  const std::size_t from = at + begin.size();
  return text.substr(from, text.find(end, from) - from);
}

template <typename Item>
bool is_flag(const OptionKey<Item>& row) {
  return std::holds_alternative<FlagForm<Item>>(row.form);
}

// The words of a key without the default one, or with it; empty for a key of another form.
template <typename Item>
std::vector<std::string> words_of(const OptionKey<Item>& row, bool with_default) {
  std::vector<std::string> words;
  if (const auto* form = std::get_if<WordForm<Item>>(&row.form))
    for (const Word& word : form->words)
      if (with_default || word.value != form->get(Item())) words.emplace_back(word.text);
  return words;
}

// The start of the key's line in the manual, such as ".It Cm strip Ns = Ns Ar".
template <typename Item>
std::string manual_line(const OptionKey<Item>& row) {
  std::string line = std::string(".It Cm ") + row.name;
  if (is_flag(row)) return line;
  line += row.bare.empty() ? " Ns = Ns" : " Ns Op = Ns";
  const auto words = words_of(row, true);
  for (const auto& word : words) line += (&word == &words.front() ? " Cm " : " | ") + word;
  return words.empty() ? line + " Ar" : line;
}

template <typename Item>
void check_manual() {
  const std::string option = std::string("\n.It Fl -") + Option<Item>::name + " ";
  std::istringstream lines(part_of(source_text("docs/nodestage.7"), option, "\n.It Fl "));
  std::set<std::string> listed;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(".It Cm ") || std::isalpha(static_cast<unsigned char>(line[7])) == 0)
      continue;
    const std::size_t value = line.find(" = Ns Ar ");
    listed.insert(value == std::string::npos ? line : line.substr(0, value + 8));
  }
  std::set<std::string> known;
  for (const auto& row : Option<Item>::keys) known.insert(manual_line(row));
  CHECK(listed == known);
}

template <typename Item>
void check_cheat_sheet(const std::string& item) {
  std::istringstream cells(
      part_of(source_text("docs/cheatsheet.md"), "\n| " + item + " | ", " |\n"));
  std::set<std::string> listed;
  for (std::string cell; cells >> cell;) listed.insert(cell);
  std::set<std::string> known;
  for (const auto& row : Option<Item>::keys) {
    const std::string name = std::string("`") + row.name;
    const auto words = words_of(row, false);
    for (const auto& word : words) known.insert(name + (word == row.bare ? "`" : "=" + word + "`"));
    if (words.empty()) known.insert(name + (is_flag(row) || !row.bare.empty() ? "`" : "=`"));
  }
  CHECK(listed == known);
}

// The shells' completion has the rows between quotes, separated by '|' and ':'.
template <typename Item>
void check_rows() {
  for (const auto& row : Option<Item>::keys) {
    CAPTURE(row.name);
    CHECK(is_flag(row) == std::string_view(row.value).empty());
    REQUIRE(row.help != nullptr);
    CHECK_FALSE(std::string_view(row.help).empty());
    CHECK(std::string_view(row.help).find_first_of("|:'\"\\\n") == std::string_view::npos);
  }
}

}  // namespace

TEST_CASE("golden messages: the keys that an option knows") {
  CHECK(
      dataset_fault("/a,stirp=1") ==
      "--stage-dataset: unknown key 'stirp' (did you mean 'strip'?)\n"
      "  --stage-dataset=/a,stirp=1\n"
      "                     ^~~~~~~\n"
      "keys: extract=, strip=, newest=, include=, exclude=, name=, optional, async, shared, eof=, "
      "links=, limit_files=, in=, nested, merge, join, writable, mount; more: man 7 nodestage");
  CHECK(output_fault("r:/t,zzzzzz") ==
        "--stage-out: unknown key 'zzzzzz'; write \\, for a comma inside a path\n"
        "  --stage-out=r:/t,zzzzzz\n"
        "                   ^~~~~~\n"
        "keys: when=, every=, pack, optional, prune; more: man 7 nodestage");
  CHECK(dataset_fault("/a,include=*.png,*.jpg")
            .starts_with("--stage-dataset: unknown key '*.jpg'; give each pattern its key: "
                         "include=A,include=B\n"));
  CHECK(venv_fault("/a,zzzzzz")
            .ends_with("\nkeys: python=, module=, wheels=, optional, shared; more: man 7 "
                       "nodestage"));
}

TEST_CASE("golden messages: the values of keys") {
  CHECK(first_line(dataset_fault("/a,extract=on")) ==
        "--stage-dataset: extract=on (did you mean 'no'?): only auto, yes or no");
  CHECK(first_line(dataset_fault("/a,strip=1001")) ==
        "--stage-dataset: strip=1001: a number from 0 to 1000 is needed");
  CHECK(first_line(dataset_fault("/a,newest=0")) ==
        "--stage-dataset: newest=0: a number from 1 to 100,000 is needed");
  CHECK(first_line(dataset_fault("/a,include={1..65}")) ==
        "--stage-dataset: include= has more than 64 globs (braces stand for several); write '*' "
        "for what varies");
  CHECK(first_line(dataset_fault("/a,eof=optonal")) ==
        "--stage-dataset: eof=optonal: only optional");
  CHECK(first_line(dataset_fault("/a,links=x")) == "--stage-dataset: links=x: only keep or follow");
  CHECK(first_line(dataset_fault("/a,name=")) ==
        "--stage-dataset: the key 'name' needs a value: name=...");
  CHECK(first_line(dataset_fault("/a,name")) ==
        "--stage-dataset: the key 'name' needs a value: name=...");
  CHECK(first_line(dataset_fault("/a,async=1")) ==
        "--stage-dataset: the key 'async' takes no value");
  CHECK(first_line(output_fault("r:/t,when=sucess")) ==
        "--stage-out: when=sucess (did you mean 'success'?): only always, success or failure");
  CHECK(first_line(output_fault("r:/t,every=0")) ==
        "--stage-out: every=0: a time from 1 second to 30 days is needed, such as 900, 90s, 15m, "
        "1h or 2d");
  CHECK(first_line(venv_fault("/a,module=x++y")) ==
        "--stage-venv: module=: the name of a module is missing; several are joined by '+'");
  CHECK(first_line(venv_fault("/a,wheels")) ==
        "--stage-venv: the key 'wheels' needs a value: wheels=...");
}

TEST_CASE("the manual page has the keys of each option, and no others") {
  check_manual<DatasetItem>();
  check_manual<VenvItem>();
  check_manual<OutputItem>();
}

TEST_CASE("the cheat sheet has the keys of each option, and no others") {
  check_cheat_sheet<DatasetItem>("a dataset");
  check_cheat_sheet<VenvItem>("an environment");
  check_cheat_sheet<OutputItem>("an output");
}

TEST_CASE("each key has a help that the shells can show") {
  check_rows<DatasetItem>();
  check_rows<VenvItem>();
  check_rows<OutputItem>();
}

TEST_CASE("each key of a dataset is in its JSON, or refused with the cause") {
  for (const auto& row : Option<DatasetItem>::keys) {
    CAPTURE(row.name);
    StageRequest request;
    request.datasets.push_back({"/p/run*", "d"});
    DatasetItem& item = request.datasets.back();
    set_other(item, row);
    if (item.mount) item.source = "/p/run";  // of a single image
    for (const bool shared : {false, true}) {
      item.shared = shared;
      const auto read = decode_request(encode_request(request));
      CHECK(static_cast<bool>(read) == !key_conflict(item));
      if (read) CHECK(*read == request);
    }
    CHECK(!key_conflict(item) == (row.tree != TreeEffect::unshared));
  }
}

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
