// Mutations: damaged copies of a good text, the same ones in every run.
#pragma once

#include <random>
#include <string>
#include <string_view>
#include <vector>

class Mutations {
 public:
  // `words` are inserted and put over other bytes: what means something to the reader under attack.
  Mutations(std::uint32_t seed, std::vector<std::string> words)
      : random_(seed), words_(std::move(words)) {}

  std::string of(std::string_view good) {
    std::string text(good);
    for (std::size_t rounds = 1 + below(4); rounds > 0; --rounds) mutate(text);
    return text;
  }

  // 0 for an empty range. Not std::uniform_int_distribution: libraries differ in it.
  std::size_t below(std::size_t end) { return end == 0 ? 0 : random_() % end; }

 private:
  void mutate(std::string& text) {
    const std::size_t at = below(text.size() + 1);
    const std::size_t length = below(16);
    switch (below(6)) {
      case 0:
        if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
        break;
      case 1:
        text.erase(at, length);
        break;
      case 2:
        text.insert(at, text.substr(below(text.size() + 1), length));
        break;
      case 3:
        text.resize(at);
        break;
      case 4:
        text.insert(at, words_[below(words_.size())]);
        break;
      default: {
        const std::string& word = words_[below(words_.size())];
        text.replace(at, word.size(), word);
      }
    }
  }

  std::mt19937 random_;
  std::vector<std::string> words_;
};
