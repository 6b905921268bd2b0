#include <doctest/doctest.h>

#include "common/request/option_text.hpp"
#include "common/request/request_warnings.hpp"

using namespace nodestage;

namespace {

std::vector<OutputItem> outputs(std::initializer_list<const char*> texts) {
  std::vector<OutputItem> items;
  for (const char* text : texts) {
    const auto item = parse_output_option(text, {"/work", "/home/alice"});
    REQUIRE(item);
    items.push_back(*item);
  }
  return items;
}

}  // namespace

TEST_CASE("the tasks of an array write to one target unless it names them") {
  CHECK(tasks_of_one_target(outputs({"results:~/o"})) ==
        std::vector<std::string>{
            "every task of the array copies 'results' to /home/alice/o: of two files with the same "
            "name, only one remains; put %a (the task's index) or %j (its job ID) into the "
            "target"});
  CHECK(tasks_of_one_target(outputs({"r:/o/%A", "r:/o/%x_%u", "r:/o/%N/", "r:/o/%%a"})).size() ==
        4);
  CHECK(tasks_of_one_target(outputs({"r:/o/%a", "r:/o_%4a.tar", "r:/o/%j", "r:/o/%A/%a"})).empty());
}

TEST_CASE("the components of a heterogeneous job write to one target") {
  const auto said = [](std::initializer_list<const char*> later) {
    return components_of_one_target(outputs(later), outputs({"a:/o", "b:/p/", "c:/q,when=success"}))
        .size();
  };
  CHECK(said({"x:/o"}) == 1);
  CHECK(said({"b:/p/"}) == 1);
  CHECK(said({"c:/q"}) == 1);
  CHECK(said({"c:/q,when=failure", "a:/p/", "a:/other"}) == 0);
  const auto named = outputs({"a:/o/%j"});
  CHECK(components_of_one_target(named, named).empty());
  CHECK(components_of_one_target(named, {}).empty());
}
