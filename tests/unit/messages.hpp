// A message of each kind, for golden bytes and for damage.
#pragma once

#include <vector>

#include "common/wire/protocol.hpp"

namespace nodestage {

inline std::vector<Message> one_of_each() {
  return {Begin{1,
                2,
                3,
                4,
                "u",
                "n1",
                3,
                0,
                "n1",
                {"n1", "n2"},
                1,
                8,
                "/w",
                "/o",
                std::string("\0\xff", 2),
                12},
          End{1, 2, 256, 30},
          Wait{1, 0xfffffffb, 1, 1, WaitScope::node, 250, 40, 7, "name"},
          Exited{1, 0, 768},
          StatusQuery{9},
          HeldQuery{},
          Recover{1, k_no_number, "/d"},
          Await{1, 250, {"A", "b/c"}},
          ReportQuery{12},
          Accepted{},
          Refused{RefusalReason::unknown_job, "why"},
          Progress{ProgressPhase::staging, 1, 2, 3, 4, 5, 6, 7, 8, "x.tar", "/d", "n2"},
          Ready{{"A=1", "B="}, {"line"}},
          Failed{"cause\nmore", {}},
          Ended{EndOutcome::held, "kept"},
          StatusRow{1, 2, 3, "alice", "n1", "staging", 1ULL << 33, "why", "n2", "/hold/1.2"},
          HeldRow{1, 2, 3, "n1", 1ULL << 33, 5, 6, 1, 7, 8, "/hold/1.2", {"why"}},
          Recovered{{"line"}},
          StatusItem{ItemKind::venv, ItemState::failed, 5, 1, 2, 3, 4, 5, "A", "tar", "/s", "/d",
                     "why"},
          ReportRow{"{}"},
          CacheQuery{},
          CacheDrop{{"1000.ab"}},
          CacheRow{"1000.ab", 1000, "alice", "tar", "/s", "/c", 7, 8, 9, 10, 11, 12, 13, 14, "f",
                   15, 16, 17},
          Push{1, 250, 0, {"results", "a b"}},
          PlaceQuery{1, 2},
          PlaceRow{"/r", {"d"}, "h", {"t", "c"}, {"12"}},
          ImagesMounted{1, 2, "x"}};
}

}  // namespace nodestage
