// The share key of a dataset without its sources.
#include <doctest/doctest.h>

#include "daemon/worker/share/dataset_key.hpp"
#include "key_values.hpp"

using namespace nodestage;

namespace {

std::string key_of(const DatasetItem& item) {
  IdentifyOrder order;
  order.cache = "/cache";
  order.uid = 1000;
  return dataset_key(item, false, "/p/data.tar", {order}).identity().key;
}

}  // namespace

TEST_CASE("the keys of shared datasets do not change") {
  DatasetItem item;
  CHECK(key_of(item) == "16ec4b65b3ca7c95f113591d2610a4c0");
  item.extract = Extract::no;
  CHECK(key_of(item) == "3638fcc999201e28dffc355c19bebf92");
  item.extract = Extract::yes;
  item.strip = 2;
  item.include = {"*.png", "b/*"};
  item.exclude = {"*.tmp"};
  item.eof = TarEnd::optional;
  item.links = Links::follow;
  CHECK(key_of(item) == "5060b22973d354fb8818ee460eee4132");
}

TEST_CASE("a key that changes the tree changes the key of the dataset, and no other does") {
  const std::string plain = key_of({});
  for (const auto& row : Option<DatasetItem>::keys) {
    CAPTURE(row.name);
    DatasetItem item;
    set_other(item, row);
    CHECK((key_of(item) != plain) == (row.tree == TreeEffect::changes));
  }
}
