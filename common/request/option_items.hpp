// What one option of a job asks for: an item, and below it the table of the option's keys.
//
// Another key costs a member and a row here, its use, and its sentence in the manual: a member
// without a row does not compile, and tests/unit/test_option_keys.cpp finds what is not documented.
#pragma once

#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "common/reflection.hpp"
#include "common/result.hpp"
#include "common/text/parsing.hpp"

namespace nodestage {

// OptionKey: the row of one key of an option, such as strip= of --stage-dataset. The
// tables are below. Parsing and its messages (option_text.hpp), the request's JSON (request.hpp),
// the keys of shared datasets (daemon/worker/share/dataset_key.hpp) and the shells' completion
// (conf/completion) are made from the rows. Tests compare the manual and the cheat sheet with them.

// What a key does to the tree that is staged.
enum class TreeEffect {
  none,
  changes,  // It is a part of the key of a shared item.
  adds,     // It changes the tree, too. It is a part of the key only where it is given: so the keys
            // of what nodes keep stay the same with a release that adds it.
  unshared,  // It changes the tree, and is refused together with `shared`.
};

// What reads the values (option_parts.cpp).
struct KeyText;
struct SubmitContext;
Result<unsigned> read_count(const KeyText& entry, unsigned least, unsigned most);
Result<unsigned> read_seconds(const KeyText& entry, unsigned least, unsigned most);
Result<std::string> read_variable(const std::string& value, const SubmitContext& place);
Result<std::string> read_program(const std::string& value, const SubmitContext& place);
// Makes a path absolute by text only: expands "~" and prepends the start directory; keeps "."
// and double slashes.
Result<std::string> absolute_path(const std::string& path, const SubmitContext& place);
Status add_globs(const KeyText& entry, std::vector<std::string>& globs);
Status add_modules(const KeyText& entry, std::vector<std::string>& modules);

constexpr bool changes_tree(TreeEffect effect) {
  return effect == TreeEffect::changes || effect == TreeEffect::adds;
}

// How a key is written, and which member of the item it sets. An item that does not have the key
// has the default value of the member: false, 0, or empty.
template <typename Item>
struct FlagForm {  // It has no value.
  bool Item::*member;
};

template <typename Item>
struct WordForm {  // made by word_form()
  std::span<const Word> words;
  unsigned (*get)(const Item&);
  void (*set)(Item&, unsigned);
};

template <typename Item>
struct NumberForm {
  unsigned Item::*member;
  unsigned least;
  unsigned most;
  Result<unsigned> (*read)(const KeyText& entry, unsigned least, unsigned most) = read_count;
};

template <typename Item>
struct TextForm {
  std::string Item::*member;
  Result<std::string> (*read)(const std::string& value, const SubmitContext& place);
  const char* completed_as = "";  // by shells; "": they do not know such values
};

template <typename Item>
struct ListForm {  // The key can be repeated.
  std::vector<std::string> Item::*member;
  Status (*add)(const KeyText& entry, std::vector<std::string>& list);
};

template <typename Item>
struct OptionKey {
  const char* name;
  const char* value;  // as messages show it, such as "N"; "": the key has none
  std::variant<FlagForm<Item>, WordForm<Item>, NumberForm<Item>, TextForm<Item>, ListForm<Item>>
      form;
  TreeEffect tree;
  const char* help;  // a few words, without '|' and quotes
  const char* json = name;
  std::string_view bare = {};  // the value that the key alone stands for; "": it needs one
};

template <typename Item, auto member>
constexpr WordForm<Item> word_form(std::span<const Word> words) {
  return {words, [](const Item& item) { return static_cast<unsigned>(item.*member); },
          [](Item& item, unsigned value) {
            item.*member = static_cast<std::remove_reference_t<decltype(item.*member)>>(value);
          }};
}

// For std::visit on a form.
template <typename... Cases>
struct FormCases : Cases... {
  using Cases::operator()...;
};
template <typename... Cases>
FormCases(Cases...) -> FormCases<Cases...>;

// Calls use() with the value of a key: a bool, a number, a text, or a list of texts.
template <typename Item>
void with_value(const Item& item, const OptionKey<Item>& row, const auto& use) {
  std::visit(FormCases{[&](const WordForm<Item>& form) { use(form.get(item)); },
                       [&](const auto& form) { use(item.*form.member); }},
             row.form);
}

// Whether the item has another value of the key than without it.
template <typename Item>
bool is_given(const Item& item, const OptionKey<Item>& row) {
  const Item none;
  return std::visit(
      FormCases{[&](const WordForm<Item>& form) { return form.get(item) != form.get(none); },
                [&](const auto& form) { return item.*form.member != none.*form.member; }},
      row.form);
}

// auto: what is named as an archive and is one; yes: what is one, whatever its name.
enum class Extract { automatic, no, yes };
enum class TarEnd { required, optional };
enum class Links { keep, follow };
enum class Storage { disk, memory };     // of the node
enum class Merge { none, equal, last };  // of a file that two sources have: equal ones, or the last
enum class When { always, success, failure };
enum class StageWait { all, node, none };

// The words in the order in which messages and shells show them.
inline constexpr Word k_extract_words[] = {
    {"auto", Extract::automatic}, {"yes", Extract::yes}, {"no", Extract::no}};
inline constexpr Word k_eof_words[] = {{"optional", TarEnd::optional}};
inline constexpr Word k_links_words[] = {{"keep", Links::keep}, {"follow", Links::follow}};
inline constexpr Word k_storage_words[] = {{"disk", Storage::disk}, {"memory", Storage::memory}};
inline constexpr Word k_merge_words[] = {{"equal", Merge::equal}, {"last", Merge::last}};
inline constexpr Word k_when_words[] = {
    {"always", When::always}, {"success", When::success}, {"failure", When::failure}};
inline constexpr Word k_wait_words[] = {  // of --stage-wait
    {"all", StageWait::all},
    {"node", StageWait::node},
    {"none", StageWait::none}};

inline constexpr unsigned k_max_strip = 1000;
inline constexpr unsigned k_max_nested = 4;
inline constexpr unsigned k_max_newest = 100'000;
inline constexpr unsigned k_max_limit_files = 1'000'000'000;
inline constexpr unsigned k_max_every_s = 30 * 86'400;

// Option<Item>: the option that asks for an item.
template <typename Item>
struct Option;

struct DatasetItem {
  std::string source;       // absolute path or glob
  std::string destination;  // below the job directory; empty: from the source's name
  std::string name;         // of NODESTAGE_DATASET_<name>; empty: from the destination
  Extract extract = Extract::automatic;
  unsigned strip = 0;                // leading components of each entry's name to drop
  std::vector<std::string> include;  // globs on entry names; empty: everything
  std::vector<std::string> exclude;
  bool optional = false;          // its failure does not fail the job
  bool async = false;             // the job does not wait for it
  TarEnd eof = TarEnd::required;  // the blocks of zeros after a tar's last member
  bool shared = false;            // read-only, and kept for further jobs (worker_order.hpp)
  unsigned newest = 0;            // how many of the newest entries to take; 0: all
  Links links = Links::keep;      // of a directory: those that lead out of it
  unsigned limit_files = 0;       // with more files, its staging fails; 0: any number
  Storage storage = Storage::disk;
  unsigned nested = 0;                 // levels of archives in archives that are extracted
  Merge merge = Merge::none;           // its sources become one tree
  bool join = false;                   // the matches are parts of one file
  bool writable = false;               // shared data are in real directories of the job
  bool mount = false;                  // it is an image, which is mounted
  std::vector<std::string> also = {};  // further sources, of other options with `merge`
  bool names_node = false;  // its source had %n or %N (source_names.hpp); never in a request's text

  bool operator==(const DatasetItem&) const = default;
};

// In the order of the options.
inline std::vector<std::string> all_sources(const DatasetItem& item) {
  std::vector<std::string> sources = item.also;
  sources.insert(sources.begin(), item.source);
  return sources;
}

template <>
struct Option<DatasetItem> {
  using Item = DatasetItem;
  static constexpr const char* name = "stage-dataset";
  static constexpr const char* example =
      "--stage-dataset=SOURCE[:DEST][,key[=value]]..., for example "
      "--stage-dataset=~/projects/data.tar:data,strip=1";
  static constexpr OptionKey<Item> keys[] = {
      {"extract", "auto|yes|no", word_form<Item, &Item::extract>(k_extract_words),
       TreeEffect::changes, "auto, yes or no"},
      {"strip", "N", NumberForm<Item>{&Item::strip, 0, k_max_strip}, TreeEffect::changes,
       "number of leading components to remove"},
      {"newest", "N", NumberForm<Item>{&Item::newest, 1, k_max_newest}, TreeEffect::unshared,
       "number of the entries that were modified last"},
      {"include", "GLOB", ListForm<Item>{&Item::include, add_globs}, TreeEffect::changes,
       "glob of what is staged"},
      {"exclude", "GLOB", ListForm<Item>{&Item::exclude, add_globs}, TreeEffect::changes,
       "glob of what is not staged"},
      {"name", "NAME", TextForm<Item>{&Item::name, read_variable}, TreeEffect::none,
       "name of the variable"},
      {"optional", "", FlagForm<Item>{&Item::optional}, TreeEffect::none,
       "start the job without it if necessary"},
      {"async", "", FlagForm<Item>{&Item::async}, TreeEffect::none, "do not wait for it"},
      {"shared", "", FlagForm<Item>{&Item::shared}, TreeEffect::none,
       "keep it on the node for further jobs"},
      {"eof", "optional", word_form<Item, &Item::eof>(k_eof_words), TreeEffect::changes,
       "accept a tar without its end"},
      {"links", "follow", word_form<Item, &Item::links>(k_links_words), TreeEffect::changes,
       "keep or follow those that lead out"},
      {"limit_files", "N", NumberForm<Item>{&Item::limit_files, 1, k_max_limit_files},
       TreeEffect::none, "fail if it has more files"},
      {"in", "disk|memory", word_form<Item, &Item::storage>(k_storage_words), TreeEffect::unshared,
       "disk, or memory of the job"},
      {"nested", "N", NumberForm<Item>{&Item::nested, 1, k_max_nested}, TreeEffect::adds,
       "extract the archives in it", "nested", "1"},
      {"merge", "equal|last", word_form<Item, &Item::merge>(k_merge_words), TreeEffect::adds,
       "make one tree of all sources", "merge", "equal"},
      {"join", "", FlagForm<Item>{&Item::join}, TreeEffect::adds,
       "read the matches as parts of one file"},
      {"writable", "", FlagForm<Item>{&Item::writable}, TreeEffect::none,
       "allow new files beside shared data"},
      {"mount", "", FlagForm<Item>{&Item::mount}, TreeEffect::none,
       "mount the image instead of copying its files"},
  };
  // source, also, destination, names_node
  static_assert(members_of<Item>() == 4 + std::size(keys), "a member has no row");
};

struct OutputItem {
  std::string source;  // below the job directory; can be a glob
  std::string target;  // absolute path with % patterns, unexpanded
  When when = When::always;
  bool pack = false;      // into one archive
  bool optional = false;  // it need not exist
  unsigned every_s = 0;   // delivered at this interval while the job runs; 0: at its end only
  bool prune = false;     // what the job removes after its delivery is removed in the target, too

  bool operator==(const OutputItem&) const = default;
};

template <>
struct Option<OutputItem> {
  using Item = OutputItem;
  static constexpr const char* name = "stage-out";
  static constexpr const char* example =
      "--stage-out=SOURCE:TARGET[,key[=value]]..., for example "
      "--stage-out=results:~/scratch/out_%j,when=success";
  static constexpr OptionKey<Item> keys[] = {
      {"when", "always|success|failure", word_form<Item, &Item::when>(k_when_words),
       TreeEffect::none, "always, success or failure"},
      {"every", "TIME", NumberForm<Item>{&Item::every_s, 1, k_max_every_s, read_seconds},
       TreeEffect::none, "interval, such as 15m"},
      {"pack", "", FlagForm<Item>{&Item::pack}, TreeEffect::none, "one archive"},
      {"optional", "", FlagForm<Item>{&Item::optional}, TreeEffect::none,
       "report no result that does not exist"},
      {"prune", "", FlagForm<Item>{&Item::prune}, TreeEffect::none,
       "remove in the target what the job removes"},
  };
  // source, target
  static_assert(members_of<Item>() == 2 + std::size(keys), "a member has no row");
};

// python=keep: the interpreter, which is the first in the build's PATH, stays where it is.
inline constexpr std::string_view k_keep_python = "keep";

struct VenvItem {
  std::string source;               // absolute path
  std::string destination = "env";  // below the job directory
  std::string python;  // absolute, a name, or k_keep_python; empty: the first in the build's PATH
  std::vector<std::string> modules;      // loaded before a build
  std::string wheels;                    // an absolute directory; empty: the user gives none
  bool optional = false;                 // its failure does not fail the job
  std::vector<std::string> environment;  // NAME=VALUE, from the submission, for a build
  bool shared = false;                   // read-only, and kept for further jobs

  bool operator==(const VenvItem&) const = default;
};

template <>
struct Option<VenvItem> {
  using Item = VenvItem;
  static constexpr const char* name = "stage-venv";
  static constexpr const char* example =
      "--stage-venv=SOURCE[:DEST][,key[=value]]..., for example "
      "--stage-venv=~/projects/requirements.txt,module=python/3.11";
  static constexpr OptionKey<Item> keys[] = {
      {"python", "PATH, NAME or keep", TextForm<Item>{&Item::python, read_program, "<file>"},
       TreeEffect::changes, "the interpreter"},
      {"module", "NAME[+NAME]...", ListForm<Item>{&Item::modules, add_modules}, TreeEffect::changes,
       "modules to load first", "modules"},
      {"wheels", "DIR", TextForm<Item>{&Item::wheels, absolute_path, "<directory>"},
       TreeEffect::changes, "directory of wheels"},
      {"optional", "", FlagForm<Item>{&Item::optional}, TreeEffect::none,
       "start the job without it if necessary"},
      {"shared", "", FlagForm<Item>{&Item::shared}, TreeEffect::none,
       "keep it on the node for further jobs"},
  };
  // source, destination, environment
  static_assert(members_of<Item>() == 3 + std::size(keys), "a member has no row");
};

}  // namespace nodestage
