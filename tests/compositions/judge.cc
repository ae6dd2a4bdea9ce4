#include "compositions/judge.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <csignal>
#include <set>

#include "base/random.h"
#include "compositions/sandbox.h"
#include "data/dataset/indexed_dataset_writer.h"
#include "run/step_list.h"

namespace trireme::compositions {
namespace {

constexpr char kWhole[] = "whole";

// The end of what a start said.
std::string Tail(const Start& start) {
  constexpr std::size_t kMost = 600;
  return start.output.substr(start.output.size() - std::min(start.output.size(), kMost));
}

std::string Ending(const Start& start) {
  return start.hung          ? "did not end"
         : start.signal != 0 ? fmt::format("ended by signal {}", start.signal)
                             : fmt::format("exit code {}", start.code);
}

class Trial {
 public:
  Trial(const Composition& composition, const Places& places)
      : composition_(composition),
        sandbox_(fmt::format("{}/{}-{}", places.scratch, composition.seed, ++count), places.program, places.shim,
                 places.keeps) {}

  Verdict Run() {
    const Start whole = sandbox_.Train(kWhole, composition_.config);
    if (!Finished(kWhole, whole)) {
      return verdict_;
    }
    digest_ = sandbox_.Digest(kWhole);
    calls_ = whole.calls;
    Require(sandbox_.NewestStep(kWhole) == kSteps,
            fmt::format("the newest checkpoint is of step {}, not of {}", sandbox_.NewestStep(kWhole), kSteps));
    RequireRows(kWhole, "the whole run");
    CompareWithOneRank();
    GoOnUnderTheSameLayout();
    GoOnUnderAnotherLayout();
    composition_.fault.kind == FaultKind::kDamage ? DamageTheNewest() : Strike();
    return verdict_;
  }

 private:
  void Require(bool holds, const std::string& otherwise) {
    if (!holds) {
      verdict_.wrong.push_back(otherwise);
    }
  }

  bool Finished(const std::string& what, const Start& start) {
    Require(start.code == 0, fmt::format("{}: {}: {}", what, Ending(start), Tail(start)));
    return start.code == 0;
  }

  // Every step that was trained has one row, in order.
  bool RowsAreWhole(const std::string& name, std::int64_t first = 1) const {
    const StepList skipped(composition_.config.train.skip_steps);
    std::vector<std::int64_t> expected;
    std::vector<std::int64_t> found;
    for (std::int64_t step = first; step <= kSteps; ++step) {
      if (!skipped.Has(step)) {
        expected.push_back(step);
      }
    }
    for (const Row& row : sandbox_.Metrics(name)) {
      found.push_back(row.step);
    }
    return found == expected && sandbox_.TornLines(name) == 0;
  }

  void RequireRows(const std::string& name, const std::string& what, std::int64_t first = 1) {
    Require(RowsAreWhole(name, first), fmt::format("{}: metrics.jsonl has not one row for each step", what));
  }

  void RequireDigest(const std::string& name, const std::string& what) {
    const std::string digest = sandbox_.Digest(name);
    Require(digest == digest_, fmt::format("{}: digest {}, of the whole run {}", what, digest, digest_));
  }

  // Losses of the steps that both runs have, and weights.
  void RequireSame(const std::string& name, const std::string& what) {
    const Tolerance tolerance = ToleranceOf(composition_.config);
    const std::vector<Row> expected = sandbox_.Metrics(kWhole);
    for (const Row& row : sandbox_.Metrics(name)) {
      const auto other =
          std::find_if(expected.begin(), expected.end(), [&](const Row& r) { return r.step == row.step; });
      Require(other != expected.end() && std::abs(row.loss - other->loss) <= tolerance.loss * std::abs(other->loss),
              fmt::format("{}: loss of step {} is {:.9g}, of the whole run {:.9g}", what, row.step, row.loss,
                          other == expected.end() ? 0 : other->loss));
    }
    const auto weights = sandbox_.Weights(kWhole);
    const auto others = sandbox_.Weights(name);
    Require(weights.size() == others.size() && !weights.empty(), what + ": other parameters");
    for (const auto& [parameter, values] : weights) {
      const auto found = others.find(parameter);
      if (found == others.end() || found->second.size() != values.size()) {
        Require(false, fmt::format("{}: {} is missing", what, parameter));
        continue;
      }
      double square = 0;
      double difference = 0;
      for (std::size_t i = 0; i < values.size(); ++i) {
        square += static_cast<double>(values[i]) * values[i];
        difference += std::pow(static_cast<double>(values[i]) - found->second[i], 2);
      }
      // Gains are near one; some families keep the distance from one, whose own size says nothing.
      const double least = parameter.ends_with(".gain") ? std::sqrt(static_cast<double>(values.size())) : 1e-3;
      Require(
          std::sqrt(difference) <= tolerance.weights * std::max(std::sqrt(square), least),
          fmt::format("{}: {} differs by {:.3g} of {:.3g}", what, parameter, std::sqrt(difference), std::sqrt(square)));
    }
  }

  void CompareWithOneRank() {
    if (Finished("one rank", sandbox_.Train("one", OnOneRank(composition_.config)))) {
      RequireSame("one", "one rank");
    }
  }

  void GoOnUnderTheSameLayout() {
    sandbox_.CopyCheckpoint(kWhole, kEvery, "same");
    if (Finished("resumed under the same layout", sandbox_.Train("same", composition_.config))) {
      RequireDigest("same", "resumed under the same layout");
      RequireRows("same", "resumed under the same layout", kEvery + 1);
    }
  }

  void GoOnUnderAnotherLayout() {
    RunConfig config = composition_.config;
    config.layout = composition_.other;
    config.train.stages.clear();
    sandbox_.CopyCheckpoint(kWhole, kEvery, "other");
    const std::string what = "resumed under " + config.layout.ToString();
    if (Finished(what, sandbox_.Train("other", config))) {
      RequireSame("other", what);
    }
  }

  void DamageTheNewest() {
    sandbox_.CopyRun(kWhole, "damaged");
    verdict_.fault = sandbox_.Damage("damaged", composition_.fault);
    verdict_.struck = true;
    const Start start = sandbox_.Train("damaged", composition_.config);
    const std::string what = "resumed after " + verdict_.fault;
    if (Finished(what, start)) {
      RequireDigest("damaged", what);
      RequireRows("damaged", what);
      Require(
          start.output.find("step-00000") != std::string::npos || start.output.find("is not used") != std::string::npos,
          what + ": nothing was said of the damage: " + Tail(start));
    }
  }

  // Whether a run that ended with 0 has all it should, or said what it has not.
  void RequireNothingSilent(const Start& start, const std::string& what) {
    RequireDigest("struck", what + ", exit code 0");
    const bool said_of_rows = start.output.find("metrics.jsonl") != std::string::npos;
    Require(said_of_rows || RowsAreWhole("struck"), what + ": rows of metrics.jsonl are lost without a word");
  }

  void Strike() {
    const Fault& fault = composition_.fault;
    const auto strike = 1 + static_cast<std::int64_t>(fault.moment * static_cast<double>(calls_));
    const Start start = sandbox_.Train("struck", composition_.config, &fault, strike);
    verdict_.struck = !start.struck.empty();
    verdict_.fault = fmt::format(
        "{} at call {} of {}{}", Name(fault.kind), strike, calls_,
        verdict_.struck ? fmt::format(", {} struck, first {}", start.struck.size(), start.struck.front()) : "");
    const std::string what = verdict_.fault;
    const bool killed = fault.kind == FaultKind::kKill && start.signal == SIGKILL;
    const std::set<int> codes = {0, 1, 2, 5};
    Require(!start.hung && (killed || (start.signal == 0 && codes.count(start.code) > 0)),
            fmt::format("{}: {}: {}", what, Ending(start), Tail(start)));
    if (start.code == 0) {
      RequireNothingSilent(start, what);
    } else if (!killed) {
      Require(!start.output.empty(), what + ": nothing was said");
    }
    const bool said_of_rows = start.output.find("metrics.jsonl") != std::string::npos;
    if (Finished("again after " + what, sandbox_.Train("struck", composition_.config))) {
      RequireDigest("struck", "again after " + what);
      Require(said_of_rows || RowsAreWhole("struck"), "again after " + what + ": rows of metrics.jsonl are lost");
    }
  }

  static std::atomic<int> count;

  Composition composition_;
  Sandbox sandbox_;
  Verdict verdict_;
  std::string digest_;
  std::int64_t calls_ = 0;
};

std::atomic<int> Trial::count = 0;

}  // namespace

void WriteDocuments(const std::string& folder) {
  IndexedDatasetWriter writer(folder + "/documents", TokenKind::kUInt16);
  constexpr std::int32_t kDocuments = 100;
  constexpr std::uint64_t kTokens = 70;  // every composition's vocabulary has these
  for (std::int32_t document = 0; document < kDocuments; ++document) {
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(1 + document * 5 % 9));
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = static_cast<std::int32_t>(RandomBelow(3, static_cast<std::uint64_t>(document) * 16 + i, kTokens));
    }
    writer.AddSequence(tokens);
    writer.EndDocument();
  }
  writer.Finish();
}

Verdict Judge(const Composition& composition, const Places& places) { return Trial(composition, places).Run(); }

}  // namespace trireme::compositions
