#include "common/request/option_mark.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "common/text/human.hpp"

namespace nodestage {
namespace {

// With "sbatch: error: " and the longest option's name before it, a line fits a terminal.
constexpr std::size_t k_columns = 46;
constexpr std::string_view k_more = "...";

// How one character of the text is shown, or one byte that is not part of a character.
struct Cell {
  std::string shown;
  std::size_t columns;
  std::size_t begin;  // byte of the text
};

bool is_among(char32_t c, std::initializer_list<std::pair<char32_t, char32_t>> ranges) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [c](const auto& range) { return c >= range.first && c <= range.second; });
}

// As terminals do: combining marks take no column, East Asian characters and emoji take two.
std::size_t columns_of(char32_t c) {
  if (is_among(c, {{0x300, 0x36f}, {0x200b, 0x200f}, {0x20d0, 0x20ff}, {0xfe00, 0xfe0f}})) return 0;
  return is_among(c, {{0x1100, 0x115f},
                      {0x2e80, 0xa4cf},
                      {0xac00, 0xd7a3},
                      {0xf900, 0xfaff},
                      {0xfe30, 0xfe6f},
                      {0xff00, 0xff60},
                      {0xffe0, 0xffe6},
                      {0x1f300, 0x1faff},
                      {0x20000, 0x3fffd}})
             ? 2
             : 1;
}

// Decodes one valid UTF-8 sequence.
char32_t code_point(std::string_view sequence) {
  const auto first = static_cast<unsigned char>(sequence.front());
  if (sequence.size() == 1) return first;
  char32_t value = first & (0x7fU >> sequence.size());
  for (const char c : sequence.substr(1))
    value = value << 6 | (static_cast<unsigned char>(c) & 0x3fU);
  return value;
}

std::size_t sequence_length(unsigned char first) {
  if (first < 0xc2) return 1;
  return first < 0xe0 ? 2 : (first < 0xf0 ? 3 : 4);
}

std::vector<Cell> cells_of(std::string_view text) {
  std::vector<Cell> cells;
  for (std::size_t i = 0; i < text.size();) {
    std::string_view piece = text.substr(i, sequence_length(static_cast<unsigned char>(text[i])));
    std::string shown = printable(piece);
    if (shown != piece) {  // not a character, or not a printable one
      piece = piece.substr(0, 1);
      shown = printable(piece);
      cells.push_back({shown, shown.size(), i});
    } else {
      cells.push_back({shown, columns_of(code_point(piece)), i});
    }
    i += piece.size();
  }
  return cells;
}

// Cells [first, last).
struct Window {
  std::size_t first;
  std::size_t last;
};

// At most k_columns around `place`: the place from its start, then what precedes it, then what
// follows.
Window window_around(const std::vector<Cell>& cells, TextPlace place) {
  Window window{0, 0};
  while (window.first < cells.size() && cells[window.first].begin < place.begin) ++window.first;
  window.last = window.first;
  std::size_t columns = 0;
  const auto take = [&](std::size_t index) {
    if (columns + cells[index].columns > k_columns) return false;
    columns += cells[index].columns;
    return true;
  };
  while (window.last < cells.size() && cells[window.last].begin < place.end && take(window.last))
    ++window.last;
  while (window.first > 0 && take(window.first - 1)) --window.first;
  while (window.last < cells.size() && take(window.last)) ++window.last;
  return window;
}

std::string excerpt(std::string_view option, std::string_view text, TextPlace place) {
  const auto cells = cells_of(text);
  const Window window = window_around(cells, place);
  std::string line = "  --" + std::string(option) + "=";
  if (window.first > 0) line += k_more;
  std::string mark(line.size(), ' ');
  std::size_t marked_columns = 0;
  for (std::size_t i = window.first; i < window.last; ++i) {
    line += cells[i].shown;
    if (cells[i].begin < place.begin) mark.append(cells[i].columns, ' ');
    if (cells[i].begin >= place.begin && cells[i].begin < place.end)
      marked_columns += cells[i].columns;
  }
  if (window.last < cells.size()) line += k_more;
  return line + "\n" + mark + "^" + std::string(std::max<std::size_t>(marked_columns, 1) - 1, '~');
}

}  // namespace

Error marked(std::string_view option, std::string_view text, TextPlace place, const Error& cause) {
  std::string what = "--" + std::string(option) + ": " + printable(cause.what) + "\n" +
                     excerpt(option, text, place);
  if (!cause.advice.empty()) what += "\n" + printable(cause.advice);
  return Error{cause.code, std::move(what)};
}

}  // namespace nodestage
