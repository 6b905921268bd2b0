// bench-nodes nodes --job N --nodes N --first NAME --address A [--net 10.78] [--key FILE]
// bench-nodes first --job N --nodes N --first NAME --uid UID [--request JSON]
//
// The barrier of a job of N nodes, of which the first one is real (played_nodes.hpp). Needs root.
//
// `nodes` plays the others, which are c0001, c0002, … It takes lines from stdin, prints one line
// for each when it has come about, and exits when stdin ends. FIRST and LAST are numbers of nodes:
//
//   begun FIRST LAST     each reports that its prolog has run        until all are taken
//   relay FIRST LAST     … and joins the relay                       until all have answers
//   ready FIRST LAST     each is ready, and a step waits there       until all are taken
//   failed FIRST LAST    each has failed, with 4,000 bytes of cause  until all are taken
//   verdicts FIRST LAST  sends nothing                               until all have the verdict
//
// `first` runs on the first node. It begins the job as a prolog does, waits for all nodes as a step
// does, and ends the job as an epilog does. It prints `begun`, and then what the wait has given.
#include <grp.h>
#include <pwd.h>
#include <sys/resource.h>

#include <asio/post.hpp>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <map>
#include <sstream>
#include <thread>

#include "common/wire/daemon_client.hpp"
#include "tests/bench/played_nodes.hpp"

namespace nodestage {
namespace {

using Options = std::map<std::string, std::string>;
using std::chrono::steady_clock;

constexpr char k_socket[] = "/run/nodestage/nodestaged.sock";
constexpr std::chrono::milliseconds k_look{2};
constexpr std::chrono::seconds k_patience{900};

int fail(const std::string& what) {
  std::fprintf(stderr, "bench-nodes: %s\n", what.c_str());
  return 1;
}

void say(const std::string& line) { std::cout << line << std::endl; }

std::uint32_t number(const Options& options, const std::string& name) {
  return static_cast<std::uint32_t>(std::stoul(options.at(name)));
}

std::string node_name(std::size_t index) {
  std::string digits = std::to_string(index);
  if (digits.size() < 4) digits.insert(0, 4 - digits.size(), '0');
  return "c" + digits;
}

double seconds(steady_clock::duration time) { return std::chrono::duration<double>(time).count(); }

// The commands, one after another.
class Player {
 public:
  Player(asio::io_context& io, PlayedNodes& nodes) : io_(io), nodes_(nodes), timer_(io) {}

  void read_next() {
    std::string line;
    if (!std::getline(std::cin, line)) return io_.stop();
    std::istringstream words(line);
    words >> verb_ >> first_ >> last_;
    since_ = steady_clock::now();
    if (verb_ != "verdicts") before_ = nodes_.counts();
    if (const Status begun = begin(); !begun) {
      status_ = fail(line + ": " + begun.error().what);
      return io_.stop();
    }
    look();
  }
  [[nodiscard]] int status() const { return status_; }

 private:
  Status begin() {
    NodeNote note;
    auto joins = PlayedNodes::Joins::no;
    if (verb_ == "verdicts") return {};
    if (verb_ == "relay") {
      note.waits = k_relays;
      joins = PlayedNodes::Joins::yes;
    } else if (verb_ == "ready") {
      note.state = NodeState::ready;
      note.waits = k_listens;
    } else if (verb_ == "failed") {
      note.state = NodeState::failed;
      note.cause = std::string(4000, 'x');
    } else if (verb_ != "begun") {
      return Error{EINVAL, "not a command"};
    }
    return nodes_.report(first_, last_, note, joins);
  }

  [[nodiscard]] bool is_done() const {
    if (verb_ == "verdicts") return nodes_.have_verdicts(first_, last_);
    if (verb_ == "relay") return nodes_.have_answers(first_, last_);
    return nodes_.are_taken(first_, last_);
  }

  // From a thread of its own: reading stdin blocks.
  void look() {
    if (is_done()) {
      tell();
      std::thread([this] { wait_for_line(); }).detach();
      return;
    }
    if (steady_clock::now() - since_ > k_patience) {
      status_ = fail(verb_ + ": not so in time");
      return io_.stop();
    }
    timer_.expires_after(k_look);
    timer_.async_wait([this](const std::error_code& fault) {
      if (!fault) look();
    });
  }

  void wait_for_line() {
    std::cin.peek();
    asio::post(io_, [this] { read_next(); });
  }

  void tell() const {
    const PlayedNodes::Counts& now = nodes_.counts();
    std::ostringstream line;
    line << verb_ << " nodes=" << last_ - first_ + 1;
    if (verb_ == "verdicts") {
      line << " after_sent=" << seconds(nodes_.last_verdict() - nodes_.sent())
           << " after_taken=" << seconds(nodes_.last_verdict() - nodes_.taken())
           << " first_to_last=" << seconds(nodes_.last_verdict() - nodes_.first_verdict());
    } else {
      line << " seconds="
           << seconds((verb_ == "relay" ? nodes_.last_answer() : nodes_.taken()) - nodes_.sent());
    }
    line << " sent=" << now.sent - before_.sent
         << " not_taken=" << now.not_taken - before_.not_taken
         << " open_notes=" << now.open_notes - before_.open_notes
         << " verdicts=" << now.verdicts - before_.verdicts
         << " credentials=" << now.credentials - before_.credentials;
    if (verb_ == "verdicts") line << " verdict=" << nodes_.words(first_).substr(0, 100);
    say(line.str());
  }

  asio::io_context& io_;
  PlayedNodes& nodes_;
  asio::steady_timer timer_;
  std::string verb_;
  std::size_t first_ = 1;
  std::size_t last_ = 0;
  steady_clock::time_point since_{};
  PlayedNodes::Counts before_;
  int status_ = 0;
};

int play_nodes(const Options& options) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  const auto key = options.find("key");
  auto credentials = PlayedCredentials::by(key == options.end() ? "" : key->second);
  if (!credentials) return fail(credentials.error().what);
  asio::io_context io;
  PlayedNodes::Job job;
  job.number = number(options, "job");
  job.first_name = options.at("first");
  job.first = asio::ip::make_address(options.at("address"));
  job.count = number(options, "nodes") - 1;
  if (const auto net = options.find("net"); net != options.end()) job.net = net->second;
  PlayedNodes nodes(io, std::move(job), std::move(*credentials));
  if (const Status listens = nodes.listen(); !listens) return fail(listens.error().what);
  Player player(io, nodes);
  asio::post(io, [&player] { player.read_next(); });
  io.run();
  std::fflush(nullptr);
  std::_Exit(player.status());  // a thread may read from stdin
}

Begin begin_of(const Options& options) {
  Begin begin;
  begin.job = number(options, "job");
  begin.uid = number(options, "uid");
  const passwd* entry = ::getpwuid(begin.uid);
  begin.gid = entry == nullptr ? begin.uid : entry->pw_gid;
  begin.user = entry == nullptr ? "" : entry->pw_name;
  begin.node = begin.first_node = options.at("first");
  begin.node_count = number(options, "nodes");
  begin.node_index = 0;
  begin.nodes = {begin.node};
  for (std::size_t index = 1; index < begin.node_count; ++index)
    begin.nodes.push_back(node_name(index));
  begin.work_dir = "/tmp";
  const auto request = options.find("request");
  begin.request = request == options.end() ? R"({"version":1})" : request->second;
  return begin;
}

// Again, when the daemon is started anew.
Result<Message> wait_for_all(const Wait& wait) {
  const auto end = steady_clock::now() + k_patience;
  for (;;) {
    TRY_ASSIGN(DaemonConnection daemon, reach_daemon(k_socket, end));
    TRY(daemon.send(wait, end));
    for (;;) {
      auto reply = daemon.receive(end);
      if (!reply && is_daemon_away(reply.error())) break;
      if (!reply || !std::holds_alternative<Progress>(*reply)) return reply;
    }
  }
}

int play_first(const Options& options) {
  const Begin begin = begin_of(options);
  const auto soon = [] { return steady_clock::now() + std::chrono::seconds(120); };
  const auto begun = ask_daemon(k_socket, begin, soon(), soon());
  if (!begun) return fail("begin: " + begun.error().what);
  if (const auto* refused = std::get_if<Refused>(&*begun)) return fail("begin: " + refused->what);
  say("begun");
  Wait wait;
  wait.job = begin.job;
  wait.speaks = 1;
  const auto reply = wait_for_all(wait);
  if (!reply) return fail("wait: " + reply.error().what);
  if (std::holds_alternative<Ready>(*reply)) say("ready");
  if (const auto* failed = std::get_if<Failed>(&*reply)) say("failed: " + failed->cause);
  if (const auto* refused = std::get_if<Refused>(&*reply)) say("refused: " + refused->what);
  End end;
  end.job = begin.job;
  end.restart = 0;
  end.limit_s = 30;
  const auto ended = ask_daemon(k_socket, end, soon(), soon());
  return ended ? 0 : fail("end: " + ended.error().what);
}

int run(int argc, char** argv) {
  Options options;
  for (int at = 2; at + 1 < argc; at += 2) options[std::string(argv[at]).substr(2)] = argv[at + 1];
  static_cast<void>(std::signal(SIGPIPE, SIG_IGN));
  const std::string role = argc > 1 ? argv[1] : "";
  if (role == "nodes") return play_nodes(options);
  if (role == "first") return play_first(options);
  return fail("nodes or first; see tests/bench/play_nodes.cpp");
}

}  // namespace
}  // namespace nodestage

int main(int argc, char** argv) {
  try {
    return nodestage::run(argc, argv);
  } catch (const std::exception& error) {
    return nodestage::fail(std::string("an option is missing or wrong: ") + error.what());
  }
}
