#include <doctest/doctest.h>

#include "common/request/destinations.hpp"
#include "common/request/request.hpp"
#include "common/text/path_names.hpp"
#include "option_items.hpp"
#include "texts.hpp"

using namespace nodestage;

TEST_CASE("sources become absolute by text") {
  CHECK(dataset("/p/data.tar").source == "/p/data.tar");
  CHECK(dataset("data.tar").source == "/work dir/data.tar");
  CHECK(dataset("../x.tar").source == "/work dir/../x.tar");
  CHECK(dataset("~/data.tar").source == "/home/alice/data.tar");
  CHECK(dataset("~:d").source == "/home/alice");
  CHECK(dataset("~root/x").source == "/root/x");
  CHECK(has(dataset_fault("~no-such-user-here/x"), "no such user"));
}

TEST_CASE("destination and keys") {
  const auto item = dataset(
      "/p/a.tar:./in//put/,strip=2,include=*.png,include=b/*,exclude=*.tmp,"
      "name=train-set,optional,async,shared,extract=no,links=follow");
  CHECK(item.destination == "in/put");
  CHECK(item.strip == 2);
  CHECK(item.include == std::vector<std::string>{"*.png", "b/*"});
  CHECK(item.exclude == std::vector<std::string>{"*.tmp"});
  CHECK(item.name == "TRAIN_SET");
  CHECK(item.optional);
  CHECK(item.async);
  CHECK(item.shared);
  CHECK_FALSE(dataset("/p/a.tar,async,optional").shared);
  CHECK(item.extract == Extract::no);
  CHECK(item.links == Links::follow);
  CHECK(dataset("/p/a,links=keep").links == Links::keep);
}

TEST_CASE("newest") {
  CHECK(dataset("/p/run").newest == 0);
  CHECK(dataset("/p/run:start,newest=1,optional").newest == 1);
  CHECK(dataset("/p/*.tar,newest=100000").newest == 100000);
  CHECK(dataset("/p/x.tar/,newest=2").newest == 2);
  for (const char* wrong : {"0", "-1", "100001", "x", "1x", "99999999999999999999"})
    CHECK_MESSAGE(has(dataset_fault(std::string("/p/run,newest=") + wrong),
                      "a number from 1 to 100,000 is needed"),
                  wrong);
}

TEST_CASE("newest of what never has entries, or must stay the same") {
  CHECK(has(dataset_fault("/p/x.tar.gz,newest=1"), "'/p/x.tar.gz' is named like an archive"));
  CHECK(has(dataset_fault("/p/x.tar.gz,newest=1"), "write a directory of that name with '/'"));
  const std::string shared = dataset_fault("/p/run,newest=1,shared");
  check_has(shared, {"newest= and shared exclude each other",
                     "\n  --stage-dataset=/p/run,newest=1,shared\n"
                     "                         ^~~~~~~~"});
}

TEST_CASE("escapes: colon, comma, backslash, and every other byte as it is") {
  const auto item = dataset("/p/a\\:b\\,c\\\\d e\"f\n\xc3\xa9.tar:x\\:y");
  CHECK(item.source == "/p/a:b,c\\d e\"f\n\xc3\xa9.tar");
  CHECK(item.destination == "x:y");
  CHECK(dataset("/p/a\\*b").source == "/p/a\\*b");
}

TEST_CASE("braces: their commas and colons separate nothing of the option") {
  const auto item = dataset("/p/{a,b}-{000..002}.tar:d,strip=1,exclude=*.{tmp,log},include=x");
  CHECK(item.source == "/p/{a,b}-{000..002}.tar");
  CHECK(item.destination == "d");
  CHECK(item.strip == 1);
  CHECK(item.exclude == std::vector<std::string>{"*.tmp", "*.log"});
  CHECK(item.include == std::vector<std::string>{"x"});
  CHECK(dataset("/p/{a\\,b}.tar").source == "/p/{a,b}.tar");
  CHECK(dataset("/p/{a\\,b,c}.tar").source == "/p/{a\\,b,c}.tar");
  CHECK(dataset("/p/{1:2,3}").source == "/p/{1:2,3}");
  CHECK(dataset("/p/{a}:d,strip=1").source == "/p/{a}");
  CHECK(dataset("/p/{a:d,strip=1").source == "/p/{a");
  CHECK(has(dataset_fault("/p/\\{a,b}"), "unknown key 'b}'"));
  CHECK(output("r/{a,b/**}:/t,pack").source == "r/{a,b/**}");
  CHECK(is_glob(output("r/{a,b}:/t").source));
}

TEST_CASE("braces that are refused") {
  const std::string fault = dataset_fault("/p/x{1..20000},optional");
  CHECK(has(fault, "its braces stand for more than 10,000 names; write '*' for what varies"));
  CHECK(has(fault, "\n                  ^~~~~~~~~~~~~~"));
  CHECK(has(output_fault("x{1..20000}:/t"), "more than 10,000 names"));
  CHECK(has(dataset_fault("{~/a,~/b}:d"), "write ~/{a,b} instead of {~/a,~/b}"));
  CHECK(has(dataset_fault("{/p/a,b}:d"), "braces cannot hold the start of a path"));
  CHECK(has(output_fault("r/{a,../b}:/t"), "below $SLURM_TMPDIR"));
  CHECK(has(output_fault("{../a,b}:/t"), "below $SLURM_TMPDIR"));
  CHECK(has(output_fault("{.nodestage-x,b}:/t"), "below $SLURM_TMPDIR"));
  CHECK(has(dataset_fault("/p,include={1..65}"), "include= has more than 64 globs"));
}

TEST_CASE("bad syntax says what and shows the form") {
  CHECK(has(dataset_fault(""), "no source"));
  CHECK(has(dataset_fault(":x"), "no source"));
  CHECK(has(dataset_fault("/a:b:c"), "too many ':'"));
  CHECK(has(dataset_fault("/a,"), "a key is missing after a comma: remove the comma"));
  CHECK(has(dataset_fault("/a,when=always"), "unknown key 'when': it is a key of --stage-out\n"));
  CHECK(has(output_fault("r:/t,shared"), "it is a key of --stage-dataset and --stage-venv\n"));
  CHECK(has(output_fault("a,b.txt:/t"),
            "before the first comma; write \\, for a comma inside a path"));
  CHECK(has(output_fault("/r:/t"),
            "if it was $SLURM_TMPDIR/r, that variable is empty in your shell"));
  CHECK_FALSE(has(output_fault("/home/a/data:results"), "variable is empty"));
  CHECK(has(dataset_fault("/a,strip=x"), "a number"));
  CHECK(has(dataset_fault("/a,strip=-1"), "a number"));
  CHECK(parse_dataset_option("/a,extract=yes", k_place)->extract == Extract::yes);
  CHECK(has(dataset_fault("/a,links=folow"), "(did you mean 'follow'?): only keep or follow"));
  CHECK(has(dataset_fault("/a:/abs"), "below $SLURM_TMPDIR"));
  CHECK(has(dataset_fault("/a:../x"), "below $SLURM_TMPDIR"));
  CHECK(has(dataset_fault("/a:x/../../y"), "below $SLURM_TMPDIR"));
  CHECK(has(dataset_fault("/a:"), "below $SLURM_TMPDIR"));
  CHECK(has(dataset_fault("/a:.nodestage-partial/x"), "below $SLURM_TMPDIR"));
  CHECK(has(dataset_fault("/"), "no name for the destination can be made"));
  CHECK(has(dataset_fault("/a\\"), "backslash"));
  CHECK(has(dataset_fault("/a:b:c"), "\nthe form is --stage-dataset=SOURCE"));
}

TEST_CASE("a path or a name that no call of the system takes") {
  std::string deep = "/p";
  for (int i = 0; i < 2500; ++i) deep += "/a";
  for (const std::string& path : {deep, deep + "/*.tar", "/p/" + std::string(256, 'a')}) {
    CHECK(has(dataset_fault(path), " is too long: "));
    CHECK(has(output_fault("r:" + path), " is too long: "));
  }
  CHECK(has(dataset_fault("/p/" + std::string(256, 'a')),
            "a name of 256 bytes in a path is too long: a file system takes at most 255"));
  CHECK(parse_dataset_option("/p/" + std::string(255, 'a') + ":d", k_place));
  CHECK(has(dataset_fault(deep),
            "a path of 5,002 bytes is too long: the system takes at most 4,095"));
  CHECK(has(venv_fault("r.txt,wheels=" + deep), "a path of 5,002 bytes is too long"));
}

TEST_CASE("a misspelt key or value: what was meant") {
  CHECK(has(dataset_fault("/a,Optional"), "did you mean 'optional'?"));
  CHECK(has(dataset_fault("/a,opt"), "did you mean 'optional'?"));
  CHECK(has(dataset_fault("/a,share"), "did you mean 'shared'?"));
  CHECK_FALSE(has(dataset_fault("/a,b"), "did you mean"));
  CHECK_FALSE(has(dataset_fault("/a,"), "did you mean"));
  CHECK_FALSE(has(dataset_fault("/a,compression=9"), "did you mean"));
  CHECK(has(output_fault("r:/t,wehn=always"), "unknown key 'wehn' (did you mean 'when'?)\n"));
  CHECK_FALSE(has(output_fault("r:/t,when=later"), "did you mean"));
  CHECK(has(venv_fault("/v,moduel=gcc"), "unknown key 'moduel' (did you mean 'module'?)\n"));
  CHECK(has(venv_fault("/v,shard"), "unknown key 'shard' (did you mean 'shared'?)\n"));
  const Error wait = must_fail(parse_wait_option("nod"));
  CHECK(has(wait.text(), "'nod' (did you mean 'node'?): only all, node or none"));
  CHECK(*parse_wait_option("none") == StageWait::none);
}

TEST_CASE("the place of a fault is marked") {
  // The second and the third line.
  const auto lines = [](const std::string& fault) {
    const std::size_t first = fault.find('\n') + 1;
    const std::size_t mark = fault.find('\n', first) + 1;
    return fault.substr(first, fault.find('\n', mark) - first);
  };
  CHECK(lines(output_fault("r:/t,pack,when=never,pack")) ==
        "  --stage-out=r:/t,pack,when=never,pack\n"
        "                        ^~~~~~~~~~");
  CHECK(lines(dataset_fault("/a:../up,strip=1")) ==
        "  --stage-dataset=/a:../up,strip=1\n"
        "                     ^~~~~");
  CHECK(lines(dataset_fault("/a:b:c")) ==
        "  --stage-dataset=/a:b:c\n"
        "                      ^");
  CHECK(lines(dataset_fault("/a,b\\")) ==
        "  --stage-dataset=/a,b\\\n"
        "                      ^");
  CHECK(lines(dataset_fault("/a,strip=x,")) ==
        "  --stage-dataset=/a,strip=x,\n"
        "                     ^~~~~~~");
  CHECK(lines(dataset_fault("/a,strip=1,")) ==
        "  --stage-dataset=/a,strip=1,\n"
        "                             ^");
  CHECK(lines(dataset_fault("")) == "  --stage-dataset=\n                  ^");
  CHECK(lines(output_fault("results")) ==
        "  --stage-out=results\n"
        "                     ^");
  const Error wait = must_fail(parse_wait_option("some"));
  CHECK(lines(wait.text()) == "  --stage-wait=some\n               ^~~~");
}

TEST_CASE("stage-out") {
  const auto item = output("results:~/out_%j,when=success,pack");
  CHECK(item == OutputItem{"results", "/home/alice/out_%j", When::success, true});
  CHECK(output("$SLURM_TMPDIR/r/:/t/").source == "r");
  CHECK(output("r:/t/").target == "/t/");
  CHECK(output("r:out").target == "/work dir/out");
  CHECK(has(output_fault("results"), "a source and a target"));
  CHECK(has(output_fault("r:"), "a source and a target"));
  CHECK(has(output_fault("/abs:/t"), "below $SLURM_TMPDIR"));
  CHECK(has(output_fault("..:/t"), "below $SLURM_TMPDIR"));
  CHECK(has(output_fault(".:/t"), "below $SLURM_TMPDIR"));
  CHECK(has(output_fault("r:/t/%z"), "unknown pattern %z"));
}

TEST_CASE("source and target of an output that are swapped") {
  CHECK(has(output_fault("~/scratch/in:results"),
            "the source '~/scratch/in' must be a path below $SLURM_TMPDIR: relative, without '..', "
            "and not starting with .nodestage; the source comes first, and then the target: "
            "--stage-out=results:~/scratch/in"));
  CHECK(has(output_fault("/scratch/in:results"), "--stage-out=results:/scratch/in"));
  CHECK(has(output_fault("~bob/in:results"), "--stage-out=results:~bob/in"));
  CHECK_FALSE(has(output_fault("~:/t"), "comes first"));
  CHECK_FALSE(has(output_fault("~/in:~/out"), "comes first"));
  // What is called so in the job directory can still be named, and so can a backup.
  CHECK(output("./~/in:/t").source == "~/in");
  CHECK(output("$SLURM_TMPDIR/~/in:/t").source == "~/in");
  CHECK(output("~notes.txt:/t").source == "~notes.txt");
}

TEST_CASE("every") {
  CHECK(output("r:/t").every_s == 0);
  CHECK(output("r:/t,every=1").every_s == 1);
  CHECK(output("r:/t,every=90s,optional").every_s == 90);
  CHECK(output("r:/t,every=15m,when=always").every_s == 900);
  CHECK(output("r:/t,every=1h").every_s == 3600);
  CHECK(output("r:/t,every=30d").every_s == k_max_every_s);
  CHECK(output("r.tar:/t.tar,every=1h").every_s == 3600);  // a file that is an archive already
  for (const char* wrong : {"0", "0s", "31d", "2592001", "1w", "m", "-5", "1.5h", "1h30m", "soon",
                            "5124095576030432h", "99999999999999999999"})
    CHECK_MESSAGE(has(output_fault(std::string("r:/t,every=") + wrong),
                      "a time from 1 second to 30 days is needed, such as 900, 90s, 15m, 1h or 2d"),
                  wrong);
}

TEST_CASE("every for what can only be delivered at the end") {
  CHECK(has(output_fault("r:/t,every=1h,when=success"),
            "this output can only be delivered at its end: when=success is decided at the end of "
            "the job; remove every="));
  CHECK(has(output_fault("r:/t,when=failure,every=1h"), "when=failure is decided at the end"));
  CHECK(has(output_fault("r:/t,pack,every=1h"), "its target is an archive"));
  CHECK(output("r:/t,prune").prune);
  CHECK(
      has(output_fault("r:/t,prune,when=success"),
          "prune compares deliveries while the job runs, and this output can only be delivered at "
          "its end: when=success is decided at the end of the job; remove prune"));
  CHECK(has(output_fault("r:/t.zip,prune"), "its target is an archive"));
  CHECK(has(output_fault("r:/t.tar.zst,every=1h,optional"), "its target is an archive"));
  CHECK(has(output_fault("r:/t,every=1h,when=success"),
            "\n  --stage-out=r:/t,every=1h,when=success\n"
            "                   ^~~~~~~~"));
}

TEST_CASE("stage-venv") {
  const auto venv = [](std::string_view text) {
    auto item = parse_venv_option(text, k_place);
    REQUIRE_MESSAGE(item, (item ? "" : item.error().text()));
    return *item;
  };
  CHECK(venv("~/env") == VenvItem{"/home/alice/env", "env", "", {}, "", false, {}});
  const auto full = venv(
      "r.txt:py/env/,python=~/py/bin/python3,wheels=w,module=python/"
      "3.11+gcc,module=cuda,optional,shared");
  CHECK(full == VenvItem{"/work dir/r.txt",
                         "py/env",
                         "/home/alice/py/bin/python3",
                         {"python/3.11", "gcc", "cuda"},
                         "/work dir/w",
                         true,
                         {},
                         true});
  CHECK(has(venv_fault(""), "no source"));
  CHECK(has(venv_fault("x:../y"), "below $SLURM_TMPDIR"));
  CHECK(has(venv_fault("x:a\\:b"), "cannot hold quotes"));
  CHECK(has(venv_fault("x:a'b"), "cannot hold quotes"));
  CHECK(has(venv_fault("x,strip=1"), "unknown key 'strip'"));
  CHECK(has(venv_fault("x,async"), "unknown key 'async'"));
  CHECK(has(venv_fault("x,module=-a"), "a module is missing"));
  CHECK(has(venv_fault("x,python"), "--stage-venv=SOURCE"));
  CHECK(venv("r.txt,python=python3.11").python == "python3.11");
  CHECK(venv("r.txt,python=3.10").python == "python3.10");
  CHECK(venv("r.txt,python=3").python == "python3");
  CHECK(venv("r.txt,python=./python3").python.ends_with("/python3"));
  CHECK(venv("r.txt,python=~").python == "/home/alice");
}

TEST_CASE("default destinations") {
  CHECK(default_destination("/p/data.tar") == "data");
  CHECK(default_destination("/p/data.tar.zst") == "data");
  CHECK(default_destination("/p/x.tgz") == "x");
  CHECK(default_destination("/p/dir/") == "dir");
  CHECK(default_destination("/p/x.h5") == "x.h5");
  CHECK(default_destination("/p/x.csv.gz") == "x.csv.gz");
  const DatasetItem extracted{.extract = Extract::yes};
  CHECK(default_name("/p/x.csv.gz/", {}) == "x.csv.gz");
  CHECK(default_name("/p/x.csv.GZ", extracted) == "x.csv");
  CHECK(default_name("/p/x.zstd", extracted) == "x");
  CHECK(default_name("/p/x.tar.Z", extracted) == "x");
  CHECK(default_name("/p/.gz", extracted) == ".gz");
  CHECK(default_name("/p/x.cpio.gz", extracted) == "x");
  CHECK(default_name("/p/x.tar/", {.extract = Extract::no}) == "x.tar");
  const DatasetItem mounted{.extract = Extract::no, .mount = true};
  CHECK(default_name("/p/x.sqsh", mounted) == "x");
  CHECK(default_name("/p/x.y.SquashFS/", mounted) == "x.y");
  CHECK(default_name("/p/x.sqfs", mounted) == "x");
  CHECK(default_name("/p/.sqsh", mounted) == ".sqsh");
  CHECK(default_name("/p/x.img", mounted) == "x.img");
  CHECK(default_name("/p/x.sqsh", {}) == "x.sqsh");
  CHECK(default_destination("/p/.tar") == ".tar");
  CHECK(default_destination("/") == "");
  CHECK(default_destination("/p/DATA.ZIP") == "DATA");
}

TEST_CASE("dataset names become valid names of variables") {
  CHECK(variable_name("train-set.v2") == "TRAIN_SET_V2");
  CHECK(variable_name("2021") == "_2021");
  CHECK(variable_name("\xc3\xa9") == "__");
}

TEST_CASE("variables that nobody expands are refused, with what to write; \\$ is a dollar sign") {
  for (const char* text : {"$DATA", "$DATA/x.tar", "${DATA}/x", "/p/$USER.tar", "/p/x:$NAME"})
    CHECK(has(dataset_fault(text), "is not expanded here"));
  CHECK(has(dataset_fault("$DATA/x"), "--stage-dataset: $DATA is not expanded"));
  CHECK(has(dataset_fault("a/${DATA}/x"), "${DATA} is not expanded"));
  CHECK(has(output_fault("results:$SCRATCH/out"), "$SCRATCH is not expanded"));
  CHECK(has(output_fault("$NAME:/p/out"), "$NAME is not expanded"));
  CHECK(output("$SLURM_TMPDIR/res:/p/out").source == "res");
  for (const char* all : {"$SLURM_TMPDIR:/p/out", "${SLURM_TMPDIR}/:/p/out"})
    CHECK(
        has(output_fault(all), "for all that the job has made, write '*': --stage-out='*:/p/out'"));
  CHECK(dataset("/p/x.tar:$SLURM_TMPDIR/d/e").destination == "d/e");
  CHECK(dataset("/p/x.tar:${SLURM_TMPDIR}/~x").destination == "~x");
  CHECK(parse_venv_option("/v:$SLURM_TMPDIR/e", k_place)->destination == "e");
  CHECK(has(dataset_fault("/p/x.tar:$SLURM_TMPDIR"), "it cannot be $SLURM_TMPDIR itself"));
  CHECK(has(dataset_fault("/p/x.tar:$SLURM_TMPDIRS/d"), "$SLURM_TMPDIRS is not expanded here"));
  CHECK(output("res\\$x:/p/a\\$b").target == "/p/a$b");
  CHECK(dataset("/p/\\$x.tar").source == "/p/$x.tar");
  CHECK(dataset("/p/a$.tar").source == "/p/a$.tar");
  CHECK(dataset("/p/a,include=$x").include == std::vector<std::string>{"$x"});
  CHECK(has(venv_fault("/p/r.txt,python=$HOME/python"), "$HOME is not expanded"));
}

TEST_CASE("an output of the whole job directory: what to write") {
  for (const char* source : {".", "./"})
    CHECK_MESSAGE(
        has(output_fault(std::string(source) + ":/p/out"), "write '*': --stage-out='*:/p/out'"),
        source);
  CHECK_FALSE(has(output_fault("../x:/p/out"), "write '*'"));
  CHECK_FALSE(has(output_fault("/:/p/out"), "write '*'"));
}

TEST_CASE("a destination that is not below the job directory: what to write") {
  for (const char* destination : {".", "./", ""}) {
    CAPTURE(destination);
    const std::string fault = dataset_fault(std::string("~/d.tar:") + destination);
    CHECK(has(fault,
              "without a destination, it is d; if the archive holds one directory, "
              "~/d.tar:d,strip=1 has what is in that one at $SLURM_TMPDIR/d"));
  }
  CHECK_FALSE(has(dataset_fault("~/d:."), "strip="));
  for (const char* text : {"d.tar:/dev/shm/x", "~/d:/dev/shm/x", "d:/dev/shm/x/", "/p/d:/tmp/x"}) {
    CAPTURE(text);
    const std::string fault = dataset_fault(text);
    CHECK(has(fault, "below $SLURM_TMPDIR"));
    CHECK(has(fault, ", such as 'x'; data go to the node's local disk"));
    CHECK_FALSE(has(fault, "colon"));
    CHECK_FALSE(has(fault, "HOST"));
  }
  CHECK_FALSE(has(dataset_fault("/p/d:../x"), "such as"));
}

TEST_CASE("addresses and other machines' paths are refused with the reason") {
  CHECK(has(dataset_fault("https://host/data.tar"), "a URL cannot be given"));
  CHECK(has(output_fault("results:s3://bucket/x"), "a URL cannot be given"));
  CHECK(has(dataset_fault("host:/p/data.tar"), "HOST:PATH cannot be staged"));
  CHECK(has(dataset_fault("host:~/data.tar"), "HOST:PATH cannot be staged"));
  CHECK(has(dataset_fault("alice@host.org:/p/data.tar"), "HOST:PATH cannot be staged"));
}

TEST_CASE("in=memory is refused with shared, and for what results are delivered from") {
  const auto item = must(parse_dataset_option("/p/data.tar,in=memory", k_place));
  CHECK(item.storage == Storage::memory);
  CHECK(parse_dataset_option("/p/data.tar,in=disk,shared", k_place)->storage == Storage::disk);
  const Error both = must_fail(parse_dataset_option("/p/data.tar,shared,in=memory", k_place));
  CHECK(has(both.text(), "in=memory and shared exclude each other"));
  CHECK(has(both.text(), "  --stage-dataset=/p/data.tar,shared,in=memory\n"));
  StageRequest request;
  request.datasets.push_back(item);
  CHECK(has(encode_request(request), R"("in":"memory")"));
  request.outputs.push_back({"data/x", "/t"});
  const Error refused = must_fail(decode_request(encode_request(request)));
  CHECK(has(refused.text(), "no result can be delivered from $SLURM_TMPDIR/data/x"));
  request.outputs.front().source = "data2";
  CHECK(decode_request(encode_request(request)));
}
