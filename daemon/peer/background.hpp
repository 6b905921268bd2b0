// Background: a few threads for calls that block (munged, the resolver). Results are handed back in
// the io_context's thread; a job must not touch anything else.
#pragma once

#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/thread_pool.hpp>
#include <utility>

namespace nodestage {

inline constexpr std::size_t k_background_threads = 4;

// Must be destroyed before the io_context. The destructor drops jobs that have not started and
// waits for those that have.
class Background {
 public:
  explicit Background(asio::io_context& io) : io_(io), threads_(k_background_threads) {}
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;
  ~Background() {
    threads_.stop();
    threads_.join();
  }

  // Runs job() in a thread, then done(result) in the io_context. The caller bounds their number.
  template <typename Job, typename Done>
  void run(Job job, Done done) {
    asio::post(threads_, [&io = io_, job = std::move(job), done = std::move(done)]() mutable {
      auto result = job();
      asio::post(io, [done = std::move(done), result = std::move(result)]() mutable {
        done(std::move(result));
      });
    });
  }

 private:
  asio::io_context& io_;
  asio::thread_pool threads_;
};

}  // namespace nodestage
