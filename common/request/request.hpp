// StageRequest: what a user asked for, and its JSON form.
//
// The plugin builds it at submit, on the login node, and encodes it into the job's environment
// (SPANK_NODESTAGE_SPEC). On a node it is untrusted: the daemon passes it on as opaque bytes, and
// only the worker, with the rights of the job's user, decodes it.
//
// JSON, version 1 (golden test: tests/unit/test_request.cpp):
//   {"version":1, "umask":18, "wait":"all", "needs_names":true,
//    "datasets":[{"source":"/abs/data.tar", "also":["/abs/more.tar"], "merge":"last",
//                 "destination":"data", "name":"DATA", "extract":"auto",
//                 "strip":0, "eof":"optional", "include":["*"], "exclude":[], "optional":false,
//                 "async":false, "shared":false, "newest":0, "links":"follow"}],
//    "outputs":[{"source":"results", "target":"/abs/out_%j", "when":"always", "pack":false,
//                "every":900, "prune":true}],
//    "venv":{"source":"/abs/requirements.txt", "destination":"env", "python":"/usr/bin/python3",
//            "modules":["python/3.11"], "wheels":"/abs/wheelhouse", "optional":false,
//            "shared":false,
//            "environment":["PATH=/usr/bin"]}}
// The tables of option_items.hpp say which keys an item has.
// "needs_names" says that a source can have %a or %A, for who does not decode the request.
// Keys with their default value are omitted, except "version" and the sources. A string that is not
// UTF-8 (a file name can be any bytes) is {"hex":"6162ff"}. An unknown key or version is refused.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/request/option_items.hpp"
#include "common/result.hpp"
#include "common/wire/status_file.hpp"

namespace nodestage {

// Whether an output is written as one archive, by its text.
bool becomes_archive(const OutputItem& item);

// Whether an output can be delivered while its job runs; otherwise the fault says why not: what
// `when` depends on is not known yet, and an archive is written once.
Status check_early(const OutputItem& item);

// The key of a dataset that cannot be used with its source or with another key of it, and why not.
struct KeyConflict {
  const char* key;
  Error error;
};
std::optional<KeyConflict> key_conflict(const DatasetItem& item);

struct StageRequest {
  std::vector<DatasetItem> datasets;
  std::vector<OutputItem> outputs;
  std::optional<VenvItem> venv;
  StageWait wait = StageWait::all;
  unsigned umask = 022;  // of the submitting process: a batch script gets the same

  bool operator==(const StageRequest&) const = default;
};

std::string encode_request(const StageRequest& request);

// Checks everything that can be checked without a file system: sizes and counts; that datasets'
// sources and outputs' targets are absolute; that destinations and outputs' sources stay below the
// job directory (relative, no "..", not empty, not "."); that no string contains a NUL. The fault
// names the item and the cause (EINVAL, or E2BIG for the size). Never throws.
Result<StageRequest> decode_request(std::string_view json);

}  // namespace nodestage
