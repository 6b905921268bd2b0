// The key `mount` before a job starts: what can be an image, and what goes with the key.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "common/request/destinations.hpp"
#include "common/request/request_warnings.hpp"
#include "common/text/squashfs_image.hpp"
#include "common/wire/worker_order.hpp"
#include "image_bytes.hpp"
#include "option_items.hpp"
#include "scratch.hpp"
#include "texts.hpp"

using namespace nodestage;

namespace {

std::string at(std::size_t offset, const std::string& magic) {
  return std::string(offset, '\0') + magic;
}

}  // namespace

TEST_CASE("an image of version 4.0 with a known compression is one, also if it is padded") {
  for (const unsigned compression : {1U, 4U, 5U, 6U})
    CHECK(check_image("i", ImageStart{.compression = compression}.text(), 4096));
  CHECK(check_image("i", ImageStart{}.text(), 8192));
  for (const unsigned log : {12U, 20U})
    CHECK(check_image("i", ImageStart{.block_log = log, .block_size = 1U << log}.text(), 4096));
}

TEST_CASE("what cannot be mounted is refused with what it is and what to do") {
  struct Row {
    std::string start;
    const char* cause;
    const char* advice;
  };
  for (const Row& row : {
           Row{"", "is not a squashfs image", "nodestage pack --image"},
           Row{"PK\3\4", "is not a squashfs image", "Without mount, it is staged as usual"},
           Row{at(1080, "\x53\xef"), "is an ext4 file system, and only squashfs", "pack --image"},
           Row{at(1024, "\xe2\xe1\xf5\xe0"), "is an erofs image, and only squashfs",
               "pack --image"},
           Row{at(32769, "CD001"), "is an image of a CD (iso)", "pack --image"},
           Row{at(32, "SIF_MAGIC"), "is a SIF container", "pack --image"},
           Row{"hsqs", "cut off", "unsquashfs -lc '/a b/i.sqsh'"},
           Row{ImageStart{.used = 8192}.text(), "cut off: the image has 8.0 KiB, and the file 4.0",
               "Was its creation or transfer stopped"},
           Row{ImageStart{.major = 3}.text(), "old version", "Make the image again"},
           Row{ImageStart{.magic = "sqsh"}.text(), "another byte order", "Make the image again"},
           Row{ImageStart{.compression = 2}.text(), "compressed with lzma", "Make the image again"},
           Row{ImageStart{.compression = 3}.text(), "compressed with lzo", "Make the image again"},
           Row{ImageStart{.compression = 0}.text(), "is damaged", "unsquashfs -lc"},
           Row{ImageStart{.compression = 7}.text(), "is damaged", "unsquashfs -lc"},
           Row{ImageStart{.used = 95}.text(), "is damaged", "unsquashfs -lc"},
           Row{ImageStart{.block_log = 16}.text(), "is damaged", "unsquashfs -lc"},
           Row{ImageStart{.block_log = 21, .block_size = 1U << 21}.text(), "is damaged",
               "unsquashfs -lc"},
           Row{ImageStart{.block_log = 11, .block_size = 1U << 11}.text(), "is damaged",
               "unsquashfs -lc"},
       }) {
    const Status checked = check_image("/a b/i.sqsh", row.start, 4096);
    CAPTURE(row.cause);
    REQUIRE_FALSE(checked);
    CAPTURE(checked.error().text());
    CHECK(checked.error().what.starts_with("/a b/i.sqsh: "));
    CHECK(has(checked.error().what, row.cause));
    CHECK(has(checked.error().advice, row.advice));
  }
}

TEST_CASE("an image's destination is its name without the suffix") {
  CHECK(destination_of(dataset("/p/imagenet.sqsh,mount")) == "imagenet");
  CHECK(destination_of(dataset("/p/a.b.squashfs,mount")) == "a.b");
  CHECK(destination_of(dataset("/p/imagenet.sqsh")) == "imagenet.sqsh");
  CHECK(destination_of(dataset("/p/data.tar,mount")) == "data.tar");
  CHECK(destination_of(dataset("/p/imagenet.sqsh:data,mount")) == "data");
}

TEST_CASE("what selects or changes files is refused together with mount") {
  for (const char* key :
       {"extract=yes", "strip=1", "include=a", "exclude=a", "newest=2", "links=follow",
        "limit_files=5", "nested", "merge", "join", "shared,writable", "eof=optional"}) {
    CAPTURE(key);
    const std::string text = std::string("/p/i.sqsh:d,mount,") + key;
    const std::string name = key_name(std::string(key).substr(std::string(key).find(',') + 1));
    const std::string said = dataset_fault(text);
    CHECK(said.starts_with("--stage-dataset: " + name));
    CHECK(has(said, " and mount exclude each other"));
  }
  for (const char* key :
       {"shared", "in=memory", "in=disk", "optional", "async", "name=X", "extract=no"})
    CHECK(dataset(std::string("/p/i.sqsh,mount,") + key).mount);
  CHECK(dataset_fault("/p/*.sqsh:d,mount").starts_with("--stage-dataset: mount is for one image"));
  CHECK(dataset_fault("/p/{a,b}.sqsh:d,mount")
            .starts_with("--stage-dataset: mount is for one image"));
}

TEST_CASE("the daemon counts the images of a request in its text") {
  StageRequest request;
  CHECK(images_in(encode_request(request)) == 0);
  for (const char* text :
       {"/p/a.sqsh,mount", R"(/p/"mount"\:true,name=N)", "/p/b.sqsh,mount,shared"})
    request.datasets.push_back(dataset(text));
  const std::string json = encode_request(request);
  CHECK(images_in(json) == 2);
  CHECK(must(decode_request(json)) == request);
  CHECK_FALSE(decode_request(R"({"version":1,"datasets":[{"source":"/a","mount":1}]})"));
}

TEST_CASE("a job can mount so many images") {
  StageRequest request;
  for (std::size_t i = 0; i < k_max_images; ++i)
    request.datasets.push_back(dataset("/p/" + std::to_string(i) + ".sqsh,mount"));
  CHECK(check_together(request));
  CHECK(decode_request(encode_request(request)));
  request.datasets.push_back(dataset("/p/x.sqsh,mount"));
  CHECK(has(check_together(request).error().what, "9 times, and a job can mount 8 images"));
  CHECK_FALSE(decode_request(encode_request(request)));
}

TEST_CASE("no result can be where an image is mounted") {
  StageRequest request;
  request.datasets.push_back(dataset("/p/i.sqsh:x/data,mount"));
  const auto refused = [&request](const char* source) {
    request.outputs = {{source, "/t"}};
    const Status checked = check_together(request);
    return checked ? "" : checked.error().what;
  };
  for (const char* source : {"x/data", "x/data/results"}) {
    CHECK(has(refused(source),
              "is mounted at $SLURM_TMPDIR/x/data, and what is mounted is "
              "read-only"));
    CHECK(refused(source).ends_with("remove the key mount"));
  }
  for (const char* source : {"x", "x/data2", "results"}) CHECK(refused(source) == "");
}

TEST_CASE("at the submission, a source that cannot be mounted is warned of") {
  const Scratch scratch;
  const std::string place = scratch.path().string() + "/";
  std::ofstream(place + "good") << ImageStart{.used = 96}.text();
  std::ofstream(place + "bad") << "text";
  std::filesystem::create_directory(place + "dir");
  const auto warning = [&](const std::string& text, Start start = Start::later) {
    StageRequest request;
    request.datasets.push_back(must(parse_dataset_option(text, {scratch.path().string(), "/h"})));
    const auto warnings = look_at_request(request, start).warnings;
    return warnings.empty() ? "" : warnings.front();
  };
  CHECK(warning("good,mount") == "");
  CHECK(warning("bad") == "");
  CHECK(warning("bad,mount", Start::now) == "");  // the worker says it at once
  CHECK(warning("bad,mount").starts_with(place + "bad: is not a squashfs image, and only such"));
  CHECK(has(warning("dir,mount"), "dir is a directory, and only an image can be mounted"));
  CHECK(has(warning("later.sqsh,mount"), "does not exist yet"));
}
