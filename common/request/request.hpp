// StageRequest: what a user asked for, and its JSON form.
//
// The plugin builds it at submit, on the login node, and encodes it into the job's environment
// (SPANK_NODESTAGE_SPEC). On a node it is untrusted: the daemon passes it on as opaque bytes, and
// only the worker, with the rights of the job's user, decodes it.
//
// JSON, version 1 (golden test: tests/unit/test_request.cpp):
//   {"version":1, "umask":18, "wait":"all",
//    "datasets":[{"source":"/abs/data.tar", "destination":"data", "name":"DATA", "extract":"auto",
//                 "strip":0, "eof":"optional", "include":["*"], "exclude":[], "optional":false,
//                 "async":false, "shared":false, "newest":0, "links":"follow"}],
//    "outputs":[{"source":"results", "target":"/abs/out_%j", "when":"always", "pack":false,
//                "every":900}],
//    "venv":{"source":"/abs/requirements.txt", "destination":"env", "python":"/usr/bin/python3",
//            "modules":["python/3.11"], "wheels":"/abs/wheelhouse", "optional":false,
//            "shared":false,
//            "environment":["PATH=/usr/bin"]}}
// Keys with their default value are omitted, except "version" and the sources. A string that is not
// UTF-8 (a file name can be any bytes) is {"hex":"6162ff"}. An unknown key or version is refused.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"
#include "common/wire/request_limits.hpp"

namespace nodestage {

// auto: what is named as an archive and is one; yes: what is one, whatever its name.
enum class Extract { automatic, no, yes };
inline constexpr const char* k_extract_names[] = {"auto", "no", "yes"};  // in that order
enum class TarEnd { required, optional };
enum class Links { keep, follow };
enum class When { always, success, failure };
enum class StageWait { all, node, none };

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
  bool shared = false;            // read-only, and kept for further jobs (wire/shared_item.hpp)
  unsigned newest = 0;            // how many of the newest entries to take; 0: all
  Links links = Links::keep;      // of a directory: those that lead out of it

  bool operator==(const DatasetItem&) const = default;
};

struct OutputItem {
  std::string source;  // below the job directory; can be a glob
  std::string target;  // absolute path with % patterns, unexpanded
  When when = When::always;
  bool pack = false;      // into one archive
  bool optional = false;  // it need not exist
  unsigned every_s = 0;   // delivered at this interval while the job runs; 0: at its end only

  bool operator==(const OutputItem&) const = default;
};

struct VenvItem {
  std::string source;                    // absolute path
  std::string destination = "env";       // below the job directory
  std::string python;                    // absolute or a name; empty: the first in the build's PATH
  std::vector<std::string> modules;      // loaded before a build
  std::string wheels;                    // an absolute directory; empty: the user gives none
  bool optional = false;                 // its failure does not fail the job
  std::vector<std::string> environment;  // NAME=VALUE, from the submission, for a build
  bool shared = false;                   // read-only, and kept for further jobs

  bool operator==(const VenvItem&) const = default;
};

inline constexpr unsigned k_max_newest = 100'000;
inline constexpr unsigned k_max_every_s = 30 * 86'400;

// Whether an output can be delivered while its job runs; otherwise the fault says why not: what
// `when` depends on is not known yet, and an archive is written once.
Status check_early(const OutputItem& item);

// Whether newest= can choose anything of this dataset, as far as its options show.
Status check_newest(const DatasetItem& item);

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
