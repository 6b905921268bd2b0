#include "common/request/request.hpp"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>
#include <variant>

#include "common/request/destinations.hpp"
#include "common/request/job_environment.hpp"
#include "common/request/source_names.hpp"
#include "common/text/archive_names.hpp"
#include "common/text/encodings.hpp"
#include "common/text/path_names.hpp"

namespace nodestage {
namespace {

using Json = nlohmann::json;

// ---- writing

bool is_utf8(const std::string& text) {
  try {
    static_cast<void>(Json(text).dump());
    return true;
  } catch (const Json::exception&) {
    return false;
  }
}

Json from_text(const std::string& text) {
  if (is_utf8(text)) return text;
  return Json{{"hex", hex_digits(text)}};
}

Json from_texts(const std::vector<std::string>& texts) {
  Json array = Json::array();
  for (const auto& text : texts) array.push_back(from_text(text));
  return array;
}

template <typename Value>
void put(Json& object, const char* key, const Value& value) {
  if (value != Value()) object[key] = value;
}

void put(Json& object, const char* key, const std::string& text) {
  if (!text.empty()) object[key] = from_text(text);
}

void put(Json& object, const char* key, const std::vector<std::string>& texts) {
  if (!texts.empty()) object[key] = from_texts(texts);
}

template <typename Item>
void put_word(Json& object, const char* key, const WordForm<Item>& form, const Item& item) {
  if (form.get(item) != form.get(Item())) object[key] = word_of(form.words, form.get(item));
}

template <typename Item>
void put_keys(Json& object, const Item& item) {
  for (const auto& row : Option<Item>::keys)
    std::visit(
        FormCases{[&](const WordForm<Item>& form) { put_word(object, row.json, form, item); },
                  [&](const auto& form) { put(object, row.json, item.*form.member); }},
        row.form);
}

Json from_dataset(const DatasetItem& item) {
  Json object{{"source", from_text(item.source)}};
  put(object, "also", item.also);
  put(object, "destination", item.destination);
  put_keys(object, item);
  return object;
}

Json from_output(const OutputItem& item) {
  Json object{{"source", from_text(item.source)}, {"target", from_text(item.target)}};
  put_keys(object, item);
  return object;
}

Json from_venv(const VenvItem& item) {
  Json object{{"source", from_text(item.source)}};
  if (item.destination != VenvItem().destination)
    object["destination"] = from_text(item.destination);
  put_keys(object, item);
  put(object, "environment", item.environment);
  return object;
}

// ---- reading

// Reads the keys of one object and remembers the first bad one. finish() refuses keys that were not
// read, so that no key of a later version is ignored silently.
class Fields {
 public:
  Fields(const Json& object, std::string place) : place_(std::move(place)) {
    if (!object.is_object()) {
      fail("is not an object");
      return;
    }
    object_ = object;
  }

  std::string text(const char* key) {
    const Json value = take(key);
    return value.is_null() ? std::string() : to_text(value, key);
  }

  std::vector<std::string> texts(const char* key, std::size_t most = k_max_request_items) {
    std::vector<std::string> result;
    for (const Json& value : array(key, most)) result.push_back(to_text(value, key));
    return result;
  }

  Json array(const char* key, std::size_t most = k_max_request_items) {
    Json value = take(key);
    if (value.is_null()) return Json::array();
    if (!value.is_array() || value.size() > most) {
      fail(std::string("\"") + key + "\" is not a list, or too long");
      return Json::array();
    }
    return value;
  }

  Json any(const char* key) { return take(key); }

  bool flag(const char* key) {
    const Json value = take(key);
    if (!value.is_null() && !value.is_boolean())
      fail(std::string("\"") + key + "\" is not a boolean");
    return value.is_boolean() && value.get<bool>();
  }

  unsigned number(const char* key, unsigned fallback, unsigned largest) {
    const Json value = take(key);
    if (value.is_null()) return fallback;
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > largest) {
      fail(std::string("\"") + key + "\" is not a number from 0 to " + std::to_string(largest));
      return fallback;
    }
    return value.get<unsigned>();
  }

  // The value of one of these words; without the key, `fallback`.
  unsigned word(const char* key, std::span<const Word> words, unsigned fallback) {
    const Json value = take(key);
    if (value.is_null()) return fallback;
    const auto* text = value.get_ptr<const std::string*>();
    if (const auto known = text ? value_of(words, *text) : std::nullopt) return *known;
    fail(std::string("\"") + key + "\" has a value that is not known");
    return fallback;
  }

  void fail(const std::string& what) {
    if (fault_.empty()) fault_ = place_ + " " + what;
  }

  Status finish() {
    if (!object_.empty()) fail("has the unknown key \"" + object_.begin().key() + "\"");
    if (fault_.empty()) return {};
    return Error{EINVAL, fault_};
  }

 private:
  Json take(const char* key) {
    const auto found = object_.find(key);
    if (found == object_.end()) return nullptr;
    Json value = std::move(*found);
    object_.erase(found);
    return value;
  }

  std::string to_text(const Json& value, const char* key) {
    std::string text;
    if (value.is_string()) {
      text = value.get<std::string>();
    } else if (!from_hex(value, text)) {
      fail(std::string("\"") + key + "\" is not a string");
    }
    if (text.find('\0') != std::string::npos) fail(std::string("\"") + key + "\" holds a NUL");
    return text;
  }

  static bool from_hex(const Json& value, std::string& text) {
    if (!value.is_object() || value.size() != 1 || !value.contains("hex")) return false;
    const auto* digits = value["hex"].get_ptr<const std::string*>();
    if (digits == nullptr) return false;
    const auto bytes = bytes_of_hex(*digits);
    text = bytes.value_or("");
    return bytes.has_value();
  }

  Json object_ = Json::object();
  std::string place_;
  std::string fault_;
};

template <typename Item>
void take_keys(Fields& fields, Item& item) {
  for (const auto& row : Option<Item>::keys)
    std::visit(
        FormCases{[&](const FlagForm<Item>& form) { item.*form.member = fields.flag(row.json); },
                  [&](const WordForm<Item>& form) {
                    form.set(item, fields.word(row.json, form.words, form.get(item)));
                  },
                  [&](const NumberForm<Item>& form) {
                    item.*form.member = fields.number(row.json, 0, form.most);
                  },
                  [&](const TextForm<Item>& form) { item.*form.member = fields.text(row.json); },
                  [&](const ListForm<Item>& form) { item.*form.member = fields.texts(row.json); }},
        row.form);
}

bool is_absolute(const std::string& path) { return path.starts_with('/'); }

Result<DatasetItem> to_dataset(const Json& json, std::size_t index) {
  Fields fields(json, "dataset " + std::to_string(index + 1));
  DatasetItem item;
  item.source = fields.text("source");
  item.also = fields.texts("also");
  item.destination = fields.text("destination");
  take_keys(fields, item);
  if (!is_absolute(item.source) || !std::all_of(item.also.begin(), item.also.end(), is_absolute))
    fields.fail("has a source that is not an absolute path");
  if (!item.also.empty() && item.merge == Merge::none)
    fields.fail("has several sources, and no \"merge\"");
  if (!item.also.empty() && item.newest != 0) fields.fail("has several sources, and \"newest\"");
  if (!item.destination.empty() && !is_path_below(item.destination)) {
    fields.fail("has a destination that does not stay below $SLURM_TMPDIR");
  }
  if (const auto conflict = key_conflict(item))
    fields.fail("cannot be staged: " + conflict->error.what);
  TRY(fields.finish());
  return item;
}

Result<OutputItem> to_output(const Json& json, std::size_t index) {
  Fields fields(json, "output " + std::to_string(index + 1));
  OutputItem item;
  item.source = fields.text("source");
  item.target = fields.text("target");
  take_keys(fields, item);
  if (!is_path_below(item.source)) {
    fields.fail("has a source that does not stay below $SLURM_TMPDIR");
  }
  if (!is_absolute(item.target)) fields.fail("has a target that is not an absolute path");
  if (const Status early = check_early(item); (item.every_s != 0 || item.prune) && !early)
    fields.fail(std::string("has ") + (item.every_s != 0 ? "an interval" : "\"prune\"") + ", but " +
                early.error().what);
  TRY(fields.finish());
  return item;
}

bool is_absolute_or_empty(const std::string& path) { return path.empty() || is_absolute(path); }

bool is_assignment(const std::string& text) {
  const std::size_t equals = text.find('=');
  return equals != std::string::npos && is_variable_name(std::string_view(text).substr(0, equals));
}

Result<VenvItem> to_venv(const Json& json) {
  Fields fields(json, "the venv");
  VenvItem item;
  item.source = fields.text("source");
  if (std::string destination = fields.text("destination"); !destination.empty())
    item.destination = std::move(destination);
  take_keys(fields, item);
  item.environment = fields.texts("environment", k_max_request_bytes);  // the shortest has 4
  if (!is_absolute(item.source)) fields.fail("has a source that is not an absolute path");
  if (!is_path_below(item.destination) || !is_venv_path(item.destination))
    fields.fail("has a destination that does not stay below $SLURM_TMPDIR");
  if (!is_absolute_or_empty(item.python) && !is_program_name(item.python))
    fields.fail("has a python that is neither an absolute path nor a name");
  if (!is_absolute_or_empty(item.wheels)) fields.fail("has wheels that are not an absolute path");
  if (!std::all_of(item.environment.begin(), item.environment.end(), is_assignment))
    fields.fail("has a variable that is not NAME=VALUE");
  TRY(fields.finish());
  return item;
}

Result<StageRequest> to_request(const Json& json) {
  Fields fields(json, "the request");
  StageRequest request;
  if (fields.number("version", 0, 1000) != 1) fields.fail("has a version that is not known here");
  request.umask = fields.number("umask", 022, 0777);
  request.wait = static_cast<StageWait>(
      fields.word("wait", k_wait_words, static_cast<unsigned>(request.wait)));
  const Json datasets = fields.array("datasets");
  const Json outputs = fields.array("outputs");
  const Json venv = fields.any("venv");
  fields.flag("needs_names");  // follows from the sources, and is for who does not decode them
  if (!venv.is_null() && datasets.size() >= k_max_request_items) fields.fail("has too many items");
  TRY(fields.finish());
  for (const Json& value : datasets) {
    TRY_ASSIGN(DatasetItem item, to_dataset(value, request.datasets.size()));
    request.datasets.push_back(std::move(item));
  }
  for (const Json& value : outputs) {
    TRY_ASSIGN(OutputItem item, to_output(value, request.outputs.size()));
    request.outputs.push_back(std::move(item));
  }
  if (!venv.is_null()) {
    TRY_ASSIGN(request.venv, to_venv(venv));
  }
  TRY(check_shared(request));
  return request;
}

}  // namespace

bool becomes_archive(const OutputItem& item) {
  return item.pack || (!archive_suffix(item.target).empty() && archive_suffix(item.source).empty());
}

Status check_early(const OutputItem& item) {
  if (item.when != When::always)
    return Error{EINVAL, std::string("when=") + word_of(k_when_words, item.when) +
                             " is decided at the end of the job"};
  if (becomes_archive(item))
    return Error{EINVAL, "its target is an archive, which is written once, at the end of the job"};
  return {};
}

namespace {

// An image is mounted as it is, so only these keys go with `mount`.
constexpr std::string_view k_keys_of_images[] = {"name",   "optional", "async",
                                                 "shared", "in",       "mount"};

// The keys in the order of their table, and the source.
std::optional<KeyConflict> conflict_of_image(const DatasetItem& item) {
  for (const auto& row : Option<DatasetItem>::keys) {
    const bool goes_with_it = std::find(std::begin(k_keys_of_images), std::end(k_keys_of_images),
                                        row.name) != std::end(k_keys_of_images);
    const bool is_copied = std::string_view(row.name) == "extract" && item.extract == Extract::no;
    if (!is_given(item, row) || goes_with_it || is_copied) continue;
    const std::string name = row.name + std::string(*row.value == '\0' ? "" : "=");
    return KeyConflict{row.name, Error{EINVAL, name + " and mount exclude each other: mount shows "
                                                      "the files of an image as they are; remove "
                                                      "one of the two"}};
  }
  if (!is_glob(item.source)) return {};
  return KeyConflict{"mount", Error{EINVAL, "mount is for one image, and '" + item.source +
                                                "' can be several files; give an option for each "
                                                "image"}};
}

}  // namespace

std::optional<KeyConflict> key_conflict(const DatasetItem& item) {
  if (item.mount) {
    if (auto refused = conflict_of_image(item)) return refused;
  }
  const auto conflict = [](const char* key, std::string why) {
    return KeyConflict{key, Error{EINVAL, std::move(why)}};
  };
  const bool is_file = !is_glob(item.source);
  if (item.storage != Storage::disk && item.shared)
    return conflict("in",
                    "in=memory and shared exclude each other: what is shared stays on the node for "
                    "further jobs, and the memory is this job's alone; remove one of the two");
  if (item.newest != 0 && item.shared)
    return conflict(
        "newest",
        "newest= and shared exclude each other: what is newest can differ from job to job, "
        "and what is shared stays the same; remove one of the two");
  if (item.newest != 0 && is_file && !archive_suffix(item.source).empty())
    return conflict("newest",
                    "newest= chooses among the entries of a directory or the matches of a glob, "
                    "and '" +
                        item.source +
                        "' is named like an archive; name the directory that holds it (write a "
                        "directory of that name with '/' at its end), or remove newest=");
  if (item.nested != 0 && item.extract == Extract::no)
    return conflict("nested",
                    "nested and extract=no exclude each other: nested extracts what is in the "
                    "archive, and extract=no copies it; remove one of the two");
  if (item.join && is_file)
    return conflict("join",
                    "join reads the matches of a glob as the parts of one file; write '*' for what "
                    "varies in their names, such as data.tar.part*");
  if (item.join && item.newest != 0)
    return conflict("join",
                    "join and newest= exclude each other: a file needs all of its parts; remove "
                    "one of the two");
  if (item.join && item.merge != Merge::none)
    return conflict("join",
                    "join and merge exclude each other: join reads the matches as one file, and "
                    "merge makes one tree of several; remove one of the two");
  if (item.merge != Merge::none && item.destination.empty())
    return conflict("merge",
                    "merge makes one tree, which needs a name: --stage-dataset=SOURCE:DEST,merge");
  if (item.writable && !item.shared)
    return conflict("writable",
                    "writable is for shared data: what is staged for this job alone can be "
                    "written in any case; remove it, or add shared");
  return {};
}

std::string encode_request(const StageRequest& request) {
  Json json{{"version", 1}};
  if (request.umask != 022) json["umask"] = request.umask;
  if (request.wait != StageWait::all) json["wait"] = word_of(k_wait_words, request.wait);
  for (const auto& item : request.datasets) json["datasets"].push_back(from_dataset(item));
  for (const auto& item : request.outputs) json["outputs"].push_back(from_output(item));
  if (request.venv) json["venv"] = from_venv(*request.venv);
  if (needs_step_names(request)) json["needs_names"] = true;
  return json.dump();
}

Result<StageRequest> decode_request(std::string_view json) {
  if (json.size() > k_max_request_bytes) {
    return Error{E2BIG,
                 "the request is larger than " + std::to_string(k_max_request_bytes) + " bytes"};
  }
  try {
    // No request is deeper, and copying a deeper value could overflow the stack.
    constexpr int k_max_depth = 8;
    bool too_deep = false;
    const auto look = [&too_deep](int depth, Json::parse_event_t, const Json&) {
      too_deep = too_deep || depth > k_max_depth;
      return !too_deep;
    };
    const Json value = Json::parse(json, look, false);
    if (too_deep) return Error{EINVAL, "the request is nested too deeply"};
    if (value.is_discarded()) return Error{EINVAL, "the request is not JSON"};
    return to_request(value);
  } catch (const std::exception& fault) {  // the library's boundary
    return Error{EINVAL, std::string("the request cannot be read: ") + fault.what()};
  }
}

}  // namespace nodestage
