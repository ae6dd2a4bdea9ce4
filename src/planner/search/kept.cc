#include "planner/search/kept.h"

#include <algorithm>

namespace trireme {

bool Before(const Candidate& a, const Candidate& b) {
  return a.seconds != b.seconds ? a.seconds < b.seconds : a.layout.ToString() < b.layout.ToString();
}

bool Kept::Matters(double seconds, double peak) const {
  if (seconds >= most_seconds_) {
    return false;
  }
  if (ranked_.size() < keep_ || seconds < ranked_.back().seconds) {
    return true;
  }
  if (most_seconds_ < kEndless) {
    return false;
  }
  for (const Candidate& one : front_) {
    if (one.peak <= peak && one.seconds <= seconds) {
      return false;
    }
  }
  return true;
}

double Kept::TooSlow() const {
  if (most_seconds_ == kEndless || tie_ > 0) {
    return kEndless;
  }
  return ranked_.size() < keep_ ? most_seconds_ : ranked_.back().seconds;
}

bool Kept::CanTie(double seconds) const {
  return tie_ > 0 && seconds < most_seconds_ && (ranked_.empty() || seconds <= ranked_.front().seconds * (1 + tie_));
}

bool Kept::MayBePreferred(double seconds, const Preference& preference) const {
  return std::none_of(ties_.begin(), ties_.end(), [&](const Tied& one) {
    return one.candidate.seconds < seconds && !(preference < one.preference);
  });
}

void Kept::AddTie(const Candidate& candidate, const Preference& preference) {
  const auto dominates = [](const Tied& a, const Tied& b) {
    return !(b.preference < a.preference) && !Before(b.candidate, a.candidate);
  };
  const Tied added{candidate, preference};
  if (std::any_of(ties_.begin(), ties_.end(), [&](const Tied& one) { return dominates(one, added); })) {
    return;
  }
  std::erase_if(ties_, [&](const Tied& one) { return dominates(added, one); });
  ties_.push_back(added);
}

const Candidate& Kept::Recommended() const {
  const Tied* best = nullptr;
  for (const Tied& one : ties_) {
    const bool ties = one.candidate.seconds <= ranked_.front().seconds * (1 + tie_);
    const bool ahead = best == nullptr || one.preference < best->preference ||
                       (!(best->preference < one.preference) && Before(one.candidate, best->candidate));
    best = ties && ahead ? &one : best;
  }
  return best == nullptr ? ranked_.front() : best->candidate;
}

void Kept::Add(const Candidate& candidate) {
  if (candidate.seconds >= most_seconds_) {
    return;
  }
  const bool known =
      std::any_of(ranked_.begin(), ranked_.end(), [&](const Candidate& one) { return one.layout == candidate.layout; });
  if (known) {
    return;
  }
  if (ranked_.size() < keep_ || Before(candidate, ranked_.back())) {
    ranked_.insert(std::upper_bound(ranked_.begin(), ranked_.end(), candidate, Before), candidate);
    if (ranked_.size() > keep_) {
      ranked_.pop_back();
    }
  }
  const auto dominates = [](const Candidate& a, const Candidate& b) {
    return a.peak <= b.peak && (a.seconds < b.seconds || (a.seconds == b.seconds && !Before(b, a)));
  };
  for (const Candidate& one : front_) {
    if (dominates(one, candidate)) {
      return;
    }
  }
  std::erase_if(front_, [&](const Candidate& one) { return dominates(candidate, one); });
  front_.push_back(candidate);
}

void Kept::Merge(const Kept& other) {
  for (const Candidate& one : other.front_) {
    Add(one);
  }
  for (const Candidate& one : other.ranked_) {
    Add(one);
  }
  for (const Tied& one : other.ties_) {
    AddTie(one.candidate, one.preference);
  }
}

}  // namespace trireme
