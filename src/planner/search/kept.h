// What a search keeps of the layouts that it has priced.
#pragma once

#include <algorithm>
#include <limits>
#include <vector>

#include "planner/search/preference.h"
#include "planner/search/search.h"

namespace trireme {

// Faster; of equal seconds the one whose text comes first.
bool Before(const Candidate& a, const Candidate& b);

// The fastest so far, the front of speed and memory, and what may be recommended among ties.
class Kept {
 public:
  explicit Kept(const SearchRequest& request)
      : keep_(static_cast<std::size_t>(std::max(request.keep, 1))),
        most_seconds_(request.most_seconds),
        tie_(request.tie) {}

  // Whether something that takes at least `seconds` and `peak` can still matter.
  bool Matters(double seconds, double peak) const;

  // Where the time alone decides, without front and ties: the seconds from which on nothing matters. Else infinity.
  double TooSlow() const;

  // Whether something that takes at least `seconds` can tie with the fastest.
  bool CanTie(double seconds) const;

  // Whether something that can tie may be recommended.
  bool MayBePreferred(double seconds, const Preference& preference) const;

  // A candidate that Add has taken.
  void AddTie(const Candidate& candidate, const Preference& preference);

  // The most preferred one of the ties; the fastest where there are none. Requires a ranked one.
  const Candidate& Recommended() const;

  void Add(const Candidate& candidate);

  void Merge(const Kept& other);

  std::vector<Candidate> ranked_;
  std::vector<Candidate> front_;

 private:
  static constexpr double kEndless = std::numeric_limits<double>::infinity();
  struct Tied {
    Candidate candidate;
    Preference preference;
  };

  std::size_t keep_;
  double most_seconds_;
  double tie_;
  std::vector<Tied> ties_;  // none is both faster and preferred
};

}  // namespace trireme
