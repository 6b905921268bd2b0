#include <doctest/doctest.h>

#include "cli/base/listing.hpp"
#include "cli/base/node_jobs.hpp"
#include "common/text/encodings.hpp"

using namespace nodestage;

namespace {

HeldRow held_row(std::uint32_t job) {
  HeldRow row;
  row.job = job;
  row.node = "n1";
  row.path = "/hold/" + std::string(2000, 'x');
  row.reasons = {"why\n"};
  return row;
}

std::string pieces(const std::string& node, std::uint32_t number, const Message& row) {
  return text_to_pieces(node, number, hex_digits(encode_message(row)));
}

}  // namespace

TEST_CASE("rows of nodes come back as they were, by node") {
  const std::string output = pieces("n2", 0, held_row(7)) + "noise\n" +
                             pieces("n1", 1, held_row(2)) + pieces("n1", 0, held_row(1));
  const auto nodes = rows_in(output, {"n1", "n2", "n3"});
  REQUIRE(nodes.size() == 2);
  CHECK(nodes[0].node == "n1");
  REQUIRE(nodes[0].rows.size() == 2);
  const auto& first = std::get<HeldRow>(nodes[0].rows[0]);
  CHECK(first.job == 1);
  CHECK(first.path == held_row(1).path);
  CHECK(first.reasons == held_row(1).reasons);
  CHECK(std::get<HeldRow>(nodes[0].rows[1]).job == 2);
  CHECK(nodes[1].node == "n2");
}

TEST_CASE("a node that has nothing has answered, one without any text has not") {
  const auto nodes = rows_in(
      end_of_pieces("n1") + pieces("n2", 0, held_row(7)) + end_of_pieces("n2"), {"n1", "n2", "n3"});
  REQUIRE(nodes.size() == 2);
  CHECK(nodes[0].node == "n1");
  CHECK(nodes[0].rows.empty());
  CHECK(nodes[1].node == "n2");
  CHECK(nodes[1].rows.size() == 1);
}

TEST_CASE("rows that are cut off, no hexadecimal digits or no message are left out") {
  const std::string whole = pieces("n1", 0, held_row(1));
  const auto rows = [](const std::string& output) {
    const auto nodes = rows_in(output, {"n1"});
    return nodes.size() == 1 ? nodes[0].rows.size() : 99;
  };
  CHECK(rows(whole) == 1);
  CHECK(rows(whole.substr(whole.find('\n') + 1)) == 0);
  CHECK(rows_in(whole, {"n2"}).empty());
  for (const char* text : {"xyz!", "00", "0", "ffffffffffffffff"})
    CHECK(rows(text_to_pieces("n1", 0, text)) == 0);
}
