#include <doctest/doctest.h>

#include <asio/io_context.hpp>
#include <chrono>

#include "daemon/peer/addresses.hpp"
#include "daemon/peer/incoming.hpp"
#include "peer_run.hpp"

using namespace nodestage;
using namespace std::chrono_literals;

TEST_CASE("addresses of the settings are used as they are, in their order") {
  AddressBook book([](const std::string&) { return Error{0, "not to be asked"}; });
  REQUIRE(book.configure({"n1=10.0.0.1", "n2=fd00::2", "n1=::ffff:10.1.0.1"}));
  CHECK(address_text(*book.find("n1")) == "10.0.0.1, 10.1.0.1");
  CHECK(address_text(**book.known("n2")) == "fd00::2");
  CHECK(book.find("n3").error().what == "n3: not to be asked");
}

TEST_CASE("what is no pair of a name and an address is refused by name") {
  for (const char* bad : {"", "n1", "=10.0.0.1", "n1=", "n1=host", "n1=10.0.0.1/8", "n1=10.0.0"}) {
    AddressBook book;
    const Status status = book.configure({bad});
    REQUIRE_FALSE(status);
    CHECK(status.error().what.find("'" + std::string(bad) + "'") == 0);
  }
}

TEST_CASE("an answer is kept for a minute, a failure for five seconds") {
  int asked = 0;
  AddressBook book([&asked](const std::string& name) -> Result<Addresses> {
    ++asked;
    return resolve_loopback(name);
  });
  const auto start = Clock::time_point() + 1h;
  CHECK_FALSE(book.known("here", start));
  CHECK(book.find("here", start));
  CHECK(book.find("here", start + 59s));
  CHECK(asked == 1);
  CHECK(book.find("here", start + 60s));
  CHECK(asked == 2);
  CHECK_FALSE(book.find("gone", start));
  CHECK_FALSE(book.find("gone", start + 4s));
  CHECK(asked == 3);
  CHECK_FALSE(book.find("gone", start + 5s));
  CHECK(asked == 4);
}

TEST_CASE("the system knows localhost, and what it does not know is said so") {
  const auto found = resolve("localhost");
  REQUIRE(found);
  CHECK_FALSE(found->empty());
  for (const Address& address : *found) CHECK(address.is_loopback());
  CHECK_FALSE(AddressBook().find(""));
  CHECK_FALSE(AddressBook().find(std::string("localhost\0x", 11)));
  CHECK_FALSE(AddressBook().find(std::string(300, 'n')));
}

TEST_CASE("IPv4 inside IPv6 is IPv4, and an interface makes no other host") {
  CHECK(comparable(asio::ip::make_address("::ffff:10.0.0.1")) ==
        asio::ip::make_address("10.0.0.1"));
  CHECK(comparable(asio::ip::make_address("fe80::1%1")) == asio::ip::make_address("fe80::1"));
  CHECK(comparable(asio::ip::make_address("fd00::1")) != asio::ip::make_address("fd00::2"));
}

TEST_CASE("a port that stays in use is told; one that becomes free is taken") {
  Port port;
  asio::io_context io;
  std::string fault;
  Listener hasty(io, 0ms);
  hasty.open(port.number(), [&fault](const Status& status) {
    if (!status) fault = status.error().what;
  });
  CHECK(fault == "port " + std::to_string(port.number()) + ": Address already in use");

  Listener patient(io, 10'000ms);
  bool open = false;
  patient.open(port.number(), [&open](const Status& status) { open = static_cast<bool>(status); });
  CHECK_FALSE(open);
  port.close();
  io.run();
  CHECK(open);
}
