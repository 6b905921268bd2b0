// The format in which texts of several nodes pass through srun, which mixes the lines of its tasks
// and breaks lines of more than 1,024 bytes: each text is split into lines of its own.
//
//   nodestage-report NODE NUMBER INDEX COUNT TEXT     TEXT: part INDEX (from 0) of COUNT
//
// A node's answer ends with a text of its own, so that a node that has nothing is known to have
// answered.
//
// NUMBER tells the texts of one node from each other. The job's user can write such lines into
// srun's output, too. What is kept of them is bounded for each node that was asked.
// Pure. Test: tests/unit/test_report_pieces.cpp.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace nodestage {

// Cuts a text without newlines into lines, each with its newline.
std::string text_to_pieces(const std::string& node, std::uint32_t number, const std::string& text);

// The end of a node's answer: a text that is neither a message nor a report.
inline constexpr std::uint32_t k_end_number = std::numeric_limits<std::uint32_t>::max();
std::string end_of_pieces(const std::string& node);

// Texts by node and number. Of a text whose pieces are not all there, the rest.
using NodeTexts = std::map<std::string, std::map<std::uint32_t, std::string>>;
// Returns those of `nodes`, at most `most_texts` of each. Ignores lines that are no pieces.
NodeTexts texts_from_pieces(std::string_view output, const std::vector<std::string>& nodes,
                            std::size_t most_texts);

// The longest output that is read: enough for large texts of so many nodes.
std::size_t most_bytes_of_pieces(std::size_t nodes);

}  // namespace nodestage
