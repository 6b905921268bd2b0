#include "common/text/part_names.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "common/text/archive_names.hpp"
#include "common/text/human.hpp"
#include "common/text/parsing.hpp"
#include "common/text/path_names.hpp"

namespace nodestage {
namespace {

constexpr std::string_view k_digits = "0123456789";
constexpr std::string_view k_letters = "abcdefghijklmnopqrstuvwxyz";
constexpr std::string_view k_joints = "._-";
constexpr std::string_view k_part = "part";
constexpr std::string_view k_zip_joint = ".z";
constexpr std::string_view k_zip = ".zip";
constexpr std::size_t k_longest_number = 9;

// What lies beside parts, and ends in letters as a part can.
constexpr std::string_view k_beside[] = {"md",  "txt", "asc", "sig", "sum", "sha",
                                         "log", "crc", "sfv", "yml", "json"};

// The name of a part, without a directory: "t.tar.part01" is of "t.tar", has ".part", and then two
// digits. The number is digits or small letters.
struct PartName {
  std::string whole;
  std::string joint;
  std::string number;

  [[nodiscard]] bool has_digits() const { return number[0] <= '9'; }
  // Split by zip -s: "t.z01". Its last part has the name of the whole.
  [[nodiscard]] bool is_of_zip() const { return joint == k_zip_joint; }
  // What is before the joint.
  [[nodiscard]] std::string start() const {
    return whole.substr(0, whole.size() - (is_of_zip() ? k_zip.size() : 0));
  }
};

std::string_view without_joint(std::string_view text) {
  const bool has_one = !text.empty() && k_joints.find(text.back()) != std::string_view::npos;
  return text.substr(0, text.size() - (has_one ? 1 : 0));
}

// What remains before ".part", "-part-", "." and the like.
std::string_view without_joints(std::string_view text) {
  const std::string_view before = without_joint(text);
  if (!lower(before).ends_with(k_part)) return before;
  return without_joint(before.substr(0, before.size() - k_part.size()));
}

// The digits or letters that a name ends in, without "part" before letters.
std::string_view part_number(std::string_view name) {
  const bool has_digits = !name.empty() && k_digits.find(name.back()) != std::string_view::npos;
  const std::size_t before = name.find_last_not_of(has_digits ? k_digits : k_letters);
  std::string_view number = name.substr(before == std::string_view::npos ? 0 : before + 1);
  if (number.size() > k_part.size() && number.starts_with(k_part))
    number.remove_prefix(k_part.size());
  return number.size() <= k_longest_number ? number : std::string_view();
}

// Known are t.tar.aa, t.tar.part00, t.tar.part1, t.tar.001, t.tar-00, t.7z.001, t.z01 (of t.zip),
// and with other joints of these kinds. Empty for any other name.
std::optional<PartName> part_name(std::string_view path) {
  path.remove_prefix(path.rfind('/') + 1);
  const std::string_view number = part_number(path);
  if (number.empty() || has_suffix(path, k_zip)) return {};  // "x.zip" is none of "x"
  if (const std::string zip = whole_zip(path); !zip.empty())
    return PartName{zip, std::string(k_zip_joint), std::string(number)};
  const std::string_view before = path.substr(0, path.size() - number.size());
  const std::string_view whole = without_joints(before);
  if (whole.empty() || whole.size() == before.size()) return {};
  return PartName{std::string(whole), std::string(before.substr(whole.size())),
                  std::string(number)};
}

// "x00" and "xaa", as split(1) calls its parts without a prefix that ends in a joint.
std::optional<PartName> name_without_joint(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  std::string_view number = part_number(name);
  if (number.empty()) return {};
  if (k_letters.find(number.back()) != std::string_view::npos)
    number = name.substr(name.size() - std::min<std::size_t>(number.size(), 2));
  const std::string_view whole = name.substr(0, name.size() - number.size());
  if (whole.empty()) return {};
  return PartName{std::string(whole), "", std::string(number)};
}

// Parts of one file, by their numbers.
using Series = std::map<std::string, std::string>;  // number → path

struct SeriesName {
  std::string directory;
  PartName part;  // of any of them

  [[nodiscard]] std::string path(const std::string& number) const {
    return directory + part.start() + part.joint + number;
  }
  [[nodiscard]] std::string whole() const { return directory + part.whole; }
  bool operator<(const SeriesName& other) const {
    const bool has_digits = part.has_digits();
    const bool others = other.part.has_digits();
    return std::tie(directory, part.whole, part.joint, has_digits) <
           std::tie(other.directory, other.part.whole, other.part.joint, others);
  }
};

using AllSeries = std::map<SeriesName, Series>;

AllSeries series_among(const std::vector<std::string>& matches, auto name_of) {
  AllSeries all;
  for (const std::string& path : matches) {
    if (const auto part = name_of(path))
      all[{path.substr(0, path.rfind('/') + 1), *part}].emplace(part->number, path);
  }
  return all;
}

std::uint64_t value_of(const std::string& digits) {
  return parse_number<std::uint64_t>(digits).value_or(0);
}

// What comes before all others that are there.
Series::const_iterator least_of(const SeriesName& name, const Series& series) {
  const bool has_digits = name.part.has_digits();
  return std::min_element(
      series.begin(), series.end(), [has_digits](const auto& one, const auto& other) {
        return has_digits ? value_of(one.first) < value_of(other.first)
                          : one.first.size() < other.first.size();  // in alphabetic order otherwise
      });
}

// The first part; series.end() if it is not there.
Series::const_iterator first_of(const SeriesName& name, const Series& series) {
  if (!name.part.has_digits())
    return std::find_if(series.begin(), series.end(), [](const auto& one) {
      return one.first.find_first_not_of('a') == std::string::npos;
    });
  const auto least = least_of(name, series);
  const std::uint64_t value = value_of(least->first);
  return value == 1 || (value == 0 && !name.part.is_of_zip()) ? least : series.end();
}

// The number after this one, or "": there is none. Digits get longer, letters do not.
std::string next_number(std::string number) {
  const bool has_digits = number[0] <= '9';
  for (std::size_t i = number.size(); i-- > 0;) {
    if (number[i] != (has_digits ? '9' : 'z')) {
      ++number[i];
      return number;
    }
    number[i] = has_digits ? '0' : 'a';
  }
  return has_digits ? "1" + number : "";
}

// The same as split(1) goes on if it was told no length: "zaaa" after "yz", "9000" after "89".
std::string longer_number(const std::string& next) {
  if (next.empty()) return {};
  const bool has_digits = next[0] <= '9';
  const char last = has_digits ? '9' : 'z';
  const char first = has_digits ? '0' : 'a';
  const std::size_t zeros = std::min(next.find_first_not_of(last), next.size());
  if (zeros == 0 || next.find_first_not_of(first, zeros) != std::string::npos) return {};
  return next + first + first;
}

// Whether what follows no part can be another file.
bool is_beside(const SeriesName& name, const std::string& number, std::size_t length) {
  if (name.part.has_digits()) return false;
  const std::string path = name.path(number);
  const bool has_length = number.size() == length ||
                          (number[0] == 'z' && number.size() > length && number.size() % 2 == 0);
  const auto* known = std::find(std::begin(k_beside), std::end(k_beside), number);
  return !has_length || known != std::end(k_beside) || archive_name(path) != nullptr ||
         !compressed_suffix(path).empty();
}

Error missing(const std::string& path, const std::string& other) {
  return {
      ENOENT,
      printable(path) + ": this part is missing, and " + printable(last_part(other)) + " is there",
      "Transfer it, or correct the glob: a file is joined of all its parts"};
}

Error first_missing(const SeriesName& name, const Series& series) {
  const auto& [least, path] = *least_of(name, series);
  std::string number(least.size(), name.part.has_digits() ? '0' : 'a');
  if (name.part.has_digits()) number.back() = '1';
  return missing(name.path(number), path);
}

Result<JoinedParts> order_series(const SeriesName& name, Series series) {
  JoinedParts parts{name.whole(), {}, {}};
  const auto first = first_of(name, series);
  if (first == series.end()) return first_missing(name, series);
  std::string number = first->first;
  const std::size_t length = number.size();
  std::string next;
  for (;;) {
    const auto part = series.find(number);
    parts.paths.push_back(std::move(part->second));
    series.erase(part);
    next = next_number(number);
    const std::string longer = longer_number(next);
    number = series.contains(next) ? next : longer;
    if (!series.contains(number)) break;
  }
  std::erase_if(series, [&](const auto& one) { return is_beside(name, one.first, length); });
  if (series.empty()) return parts;
  const auto& [other, path] = *series.begin();
  if (name.part.has_digits()) {
    for (const std::string& taken : parts.paths) {
      const auto twin = part_name(taken);
      if (twin && value_of(twin->number) == value_of(other))
        return Error{EINVAL,
                     printable(taken) + " and " + printable(last_part(path)) +
                         " have the same number among the parts of " + printable(name.part.whole),
                     "Remove one of them, or write a glob that matches one of them"};
    }
  }
  return missing(name.path(next), path);
}

Error no_part(const std::vector<std::string>& matches, const std::string& source) {
  return {EINVAL,
          printable(source) + ": no match has the name of a part: " +
              printable(last_part(matches.front())) + (matches.size() > 1 ? " and others" : ""),
          "Parts are named as data.tar.part1, data.tar.part01, data.tar.aa, data.tar.001, "
          "data.7z.001, data.z01 with data.zip. Rename them, or remove join"};
}

bool has_first(const AllSeries::value_type& one) {
  return first_of(one.first, one.second) != one.second.end();
}

// Other files end in letters, too.
bool is_of_no_parts(const AllSeries::value_type& one) {
  return !one.first.part.has_digits() && !has_first(one) &&
         !is_part_name(one.second.begin()->second);
}

// The one that is meant: the largest of those that have a first part, or of all.
Result<AllSeries::iterator> chosen(AllSeries& all, const std::string& source) {
  const auto rank = [](const auto& one) { return std::pair(has_first(one), one.second.size()); };
  const auto best = std::max_element(
      all.begin(), all.end(),
      [&rank](const auto& one, const auto& other) { return rank(one) < rank(other); });
  for (auto other = all.begin(); other != all.end(); ++other) {
    const bool is_other =
        other != best && rank(*other).first && (rank(*other).second > 1 || best->second.size() < 2);
    if (is_other)
      return Error{EINVAL,
                   printable(source) + ": the matches are parts of several files, " +
                       printable(best->first.whole()) + " and " + printable(other->first.whole()),
                   "Write an option for each of them, with a glob for its parts alone"};
  }
  return best;
}

Status add_last_zip(const std::vector<std::string>& matches, JoinedParts& parts) {
  if (std::find(matches.begin(), matches.end(), parts.whole) == matches.end())
    return missing(parts.whole, parts.paths.back());
  parts.paths.push_back(parts.whole);
  return {};
}

}  // namespace

Result<JoinedParts> order_parts(const std::vector<std::string>& matches,
                                const std::string& source) {
  AllSeries all = series_among(matches, part_name);
  std::erase_if(all, is_of_no_parts);
  if (matches.size() == 1 && (all.empty() || !archive_suffix(matches.front()).empty()))
    return JoinedParts{matches.front(), matches, {}};
  if (all.empty()) {
    all = series_among(matches, name_without_joint);
    std::erase_if(all, [](const auto& one) { return !has_first(one); });
  }
  if (all.empty()) return no_part(matches, source);
  TRY_ASSIGN(const auto best, chosen(all, source));
  TRY_ASSIGN(JoinedParts parts, order_series(best->first, best->second));
  if (best->first.part.is_of_zip()) TRY(add_last_zip(matches, parts));
  if (parts.paths.size() > k_most_parts)
    return Error{
        E2BIG,
        printable(source) + ": more than " + human_count(k_most_parts) + " parts of one file",
        "Join some of them beforehand, with cat"};
  std::vector<std::string> taken = parts.paths;
  std::sort(taken.begin(), taken.end());
  for (const std::string& path : matches)
    if (!std::binary_search(taken.begin(), taken.end(), path)) parts.others.push_back(path);
  return parts;
}

std::string left_out_parts(const JoinedParts& parts) {
  if (parts.others.empty()) return {};
  std::vector<std::string> names;
  for (const std::string& path : parts.others) names.push_back(last_part(path));
  return "left out, as no part of " + printable(last_part(parts.whole)) + ": " +
         listed(names, 3, 80);
}

namespace {

constexpr std::int64_t k_order_s = 3600;  // transfers side by side may end in another order

constexpr std::size_t k_least_alike = 3;

// The one that is empty, or whose size is not that of most others: the index, or the count. Few
// parts show no rule, and what is split by lines or records follows none.
std::size_t unlike_in_size(const std::vector<PartLook>& looks) {
  const std::size_t count = looks.size();
  for (std::size_t i = 0; i < count; ++i)
    if (looks[i].size == 0) return i;
  if (count <= k_least_alike) return count;
  std::map<std::uint64_t, std::size_t> sizes;
  for (std::size_t i = 0; i + 1 < count; ++i) ++sizes[looks[i].size];
  const auto usual = std::max_element(
      sizes.begin(), sizes.end(),
      [](const auto& one, const auto& other) { return one.second < other.second; });
  if (usual->second < k_least_alike || usual->second * 2 <= count - 1) return count;
  // `split -n` gives what is left over to the last, or one byte each to some.
  for (std::size_t i = 0; i + 1 < count; ++i) {
    const std::uint64_t size = looks[i].size;
    if (size > usual->first + 1 || size + 1 < usual->first) return i;
  }
  return count;
}

// It records how many there are, and a checksum of each member.
bool is_split_by_zip(const std::vector<std::string>& paths) {
  return !paths.empty() && !whole_zip(paths.front()).empty();
}

// Of "t.tar.0*" and "t.tar.a*", but not of "t.tar.gz*".
bool is_archives_part(const PartName& part, std::string_view path) {
  return !archive_suffix(part.whole).empty() && archive_name(path) == nullptr;
}

}  // namespace

std::string doubt_of_parts(const std::vector<std::string>& paths,
                           const std::vector<PartLook>& looks) {
  std::string text;
  const std::size_t at = is_split_by_zip(paths) ? looks.size() : unlike_in_size(looks);
  if (at < looks.size()) {
    text = "the parts are of unequal size: the transfer of " + printable(last_part(paths[at])) +
           " (" + human_bytes(looks[at].size) + ") may be incomplete";
  }
  for (std::size_t i = 1; i < looks.size(); ++i) {
    const std::int64_t earlier = looks[i - 1].modified - looks[i].modified;
    if (earlier <= k_order_s) continue;
    text += (text.empty() ? "" : "; ") + printable(last_part(paths[i])) + " is " +
            human_duration(static_cast<std::uint64_t>(earlier) * 1000) + " older than " +
            printable(last_part(paths[i - 1])) +
            " before it: one of them may be of an earlier version of the file";
    break;
  }
  return text;
}

std::string whole_of_glob(const std::string& glob) {
  const std::size_t name = glob.rfind('/') + 1;
  const std::string_view last = std::string_view(glob).substr(name);
  const bool is_in_braces = start_of_glob(glob) < name && last.find('}') < last.find('{');
  if (is_in_braces) return glob;
  const std::string_view path = std::string_view(glob).substr(0, name + start_of_glob(last));
  const auto part = part_name(path);
  // The year in "backup-2024*" is no number of a part.
  const bool is_numbered =
      part && part->has_digits() &&
      (path.size() == glob.size() || lower(part->joint).find(k_part) != std::string::npos);
  if (is_numbered || (part && is_archives_part(*part, path)))
    return std::string(path.substr(0, name)) + part->whole;
  if (path.ends_with(k_zip_joint)) return std::string(path.substr(0, path.size() - 2)) + ".zip";
  const std::string_view whole = without_joints(path);
  if (whole.size() > name) return std::string(whole);
  return glob;
}

std::string how_to_join(const std::string& path) {
  const auto part = part_name(path);
  const bool is_odd = path.find_first_of("*?[]{}\\:,%") != std::string::npos;
  if (!part || is_odd || printable(path) != path) return {};
  const std::string start = path.substr(0, path.rfind('/') + 1);
  return "--stage-dataset=" + shell_word(start + part->start() + part->joint +
                                         "*:" + default_destination(part->whole) + ",join");
}

}  // namespace nodestage
