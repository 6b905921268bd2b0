// Background: a few threads for calls that block (munged, the resolver). What they return comes
// back to the io_context's thread; nothing else may be touched by a job.
#pragma once

#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/thread_pool.hpp>
#include <utility>

namespace nodestage {

inline constexpr std::size_t k_background_threads = 4;

// Must be destroyed before the io_context. The destructor drops the jobs that have not begun and
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

  // job() in a thread, then done(what it returned) in the io_context. Bounded by the caller.
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
