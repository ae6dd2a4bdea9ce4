#include "oracle/fixture.h"

#include <cmath>
#include <fstream>
#include <sstream>

#include "base/error.h"

namespace trireme::oracle {
namespace {

constexpr std::int64_t kSampleStride = 100;  // between the indices of two samples' numbers
constexpr int kSamples = 3;

std::vector<Case> ReadCases(const std::string& path) {
  std::ifstream file(path);
  Require(file.good(), "{}: cannot be read", path);
  std::vector<Case> cases;
  std::vector<std::string> settings;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string kind;
    words >> kind;
    if (kind == "case") {
      settings = {"train.device=\"cpu\"", "layout.micro_batch=1"};
      words >> cases.emplace_back().name;
    } else if (kind == "data") {
      std::string documents;
      words >> cases.back().weights >> documents;
      cases.back().documents = documents == "documents";
    } else if (kind == "set") {
      settings.push_back(line.substr(4));
    } else if (kind == "step") {
      int number = 0;
      StepNumbers& step = cases.back().steps.emplace_back();
      words >> number >> step.loss >> step.gradient_norm >> step.learning_rate;
    } else if (kind == "gradient" || kind == "moved") {
      std::string name;
      Summary summary;
      words >> name >> summary.norm >> summary.projection;
      for (double value = 0; words >> value;) {
        summary.samples.push_back(value);
      }
      (kind == "moved" ? cases.back().moved : cases.back().gradients)[name] = summary;
    } else if (kind == "end") {
      cases.back().config = ParseRecipe("", path, settings).config;
      cases.back().config.data.document_masks = cases.back().documents;
    }
  }
  return cases;
}

}  // namespace

std::uint32_t Number(const std::string& name, std::int64_t index) {
  std::uint32_t h = 2166136261U;
  for (const char byte : name + ":" + std::to_string(index)) {
    h = (h ^ static_cast<unsigned char>(byte)) * 16777619U;
  }
  h ^= h >> 15;
  h *= 0x2C1B3C6DU;
  h ^= h >> 12;
  h *= 0x297A2D39U;
  return h ^ (h >> 15);
}

float Centred(const std::string& name, std::int64_t index) {
  return static_cast<float>(static_cast<int>(Number(name, index) % 257) - 128) / 512;
}

float FirstValue(const std::string& name, std::int64_t index) {
  return Centred(name, index) + (name.ends_with(".gain") ? 1.0F : 0.0F);
}

Summary SummaryOf(const std::string& name, const std::vector<float>& values) {
  Summary summary;
  for (std::size_t i = 0; i < values.size(); ++i) {
    summary.norm += static_cast<double>(values[i]) * values[i];
    summary.projection += static_cast<double>(values[i]) * Centred("direction", static_cast<std::int64_t>(i));
  }
  summary.norm = std::sqrt(summary.norm);
  for (int i = 0; i < kSamples; ++i) {
    summary.samples.push_back(values[Number(name, -1 - i) % values.size()]);
  }
  return summary;
}

const std::vector<Case>& Cases() {
  static const std::vector<Case> cases = ReadCases(TRIREME_SOURCE_DIR "/tests/oracle/pytorch_fixture.txt");
  return cases;
}

Sample FixtureSource::Get(std::int64_t index) const {
  Sample sample;
  const std::int64_t length = case_.config.model.sequence;
  const auto vocabulary = static_cast<std::uint32_t>(case_.config.model.vocabulary);
  for (std::int64_t t = 0; t <= length; ++t) {
    sample.tokens.push_back(static_cast<std::int32_t>(Number("token", index * kSampleStride + t) % vocabulary));
  }
  std::int32_t first = 0;
  for (std::int64_t t = 0; t < length; ++t) {
    const std::uint32_t bits = Number("weight", index * kSampleStride + t);
    if (case_.weights == "ones") {
      sample.weights.push_back(1);
    } else if (case_.weights == "masked") {
      sample.weights.push_back(bits % static_cast<std::uint32_t>(2 + index % 3) == 0 ? 1.0F : 0.0F);
    } else {
      sample.weights.push_back(static_cast<float>(bits % 5) / 4);
    }
    if (case_.documents && Number("document", index * kSampleStride + t) % 4 == 0) {
      first = static_cast<std::int32_t>(t);
    }
    sample.document_starts.push_back(first);
  }
  return sample;
}

}  // namespace trireme::oracle
