#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/durable_file.h"
#include "base/error.h"
#include "base/json_text.h"
#include "checkpoint/read/checkpoint_folder.h"
#include "checkpoint/read/dropped_state.h"
#include "checkpoint/tools/reports.h"

namespace trireme {
namespace {

using nlohmann::json;

// Faults of the files as files, each shard by itself: a reader would stop at the first.
std::vector<Problem> ProblemsOfHeaders(const std::string& folder) {
  std::vector<Problem> problems;
  std::string file = folder + "/" + kManifestFile;
  try {
    const Manifest manifest = ReadManifest(folder);
    for (const ManifestShard& shard : manifest.shards) {
      file = folder + "/" + shard.file;
      try {
        const ShardBytes bytes = ReadShardBytes(file);
        if (bytes.file != shard.bytes) {
          problems.push_back({.file = file,
                              .offset = std::min(bytes.file, shard.bytes),
                              .message = fmt::format("{} bytes, {} were saved", bytes.file, shard.bytes)});
        } else if (DigestOf(bytes.header) != shard.header) {
          problems.push_back({.file = file, .offset = 0, .message = "the header is damaged: its digest differs"});
        }
      } catch (const Error& error) {
        problems.push_back({.file = file, .offset = 0, .message = error.what()});
      }
    }
  } catch (const Error& error) {
    problems.push_back({.file = file, .offset = 0, .message = error.what()});
  }
  return problems;
}

std::vector<Problem> ProblemsOf(const std::string& folder) {
  std::vector<Problem> problems = ProblemsOfHeaders(folder);
  if (!problems.empty()) {
    return problems;
  }
  const auto report = [&](const Problem& problem) { problems.push_back(problem); };
  try {
    const CheckpointReader reader(folder);
    if (!reader.index_problem().empty()) {
      report({.file = folder + "/" + kIndexFile,
              .message = reader.index_problem() + "; loading reads the headers of all shards instead (--mend makes it "
                                                  "anew)"});
    }
    reader.VerifyCoverage(report);
    reader.VerifyData(report);
  } catch (const Error& error) {
    report({.file = folder, .message = error.what()});
  }
  return problems;
}

// Makes the index anew where it is damaged or, of an earlier version, not there; the data must be good, so that no
// fault gets a digest of its own. What was done, "" when nothing was.
std::string MendIndex(const std::string& folder) {
  Manifest manifest = ReadManifest(folder);
  const CheckpointReader reader(folder);
  if (manifest.index && reader.index_problem().empty()) {
    return "";
  }
  const std::string bytes(reader.index().bytes());
  const ManifestIndex index{.bytes = static_cast<std::int64_t>(bytes.size()), .digest = DigestOf(bytes)};
  // The index first: until the manifest knows it, readers do without.
  ReplaceFile(folder + "/" + kIndexFile, bytes);
  if (!(manifest.index == index)) {
    manifest.index = index;
    ReplaceFile(folder + "/" + kManifestFile, FormatManifest(manifest));
  }
  SyncDirectory(folder);
  return "its index was made anew";
}

// Mends what can be; the problems that are left.
std::vector<Problem> MendedProblems(const std::string& folder, std::string& done) {
  std::vector<Problem> problems = ProblemsOf(folder);
  const bool only_index = std::all_of(problems.begin(), problems.end(), [&](const Problem& problem) {
    return problem.file == folder + "/" + kIndexFile;
  });
  if (!only_index) {
    return problems;
  }
  try {
    done = MendIndex(folder);
    return {};
  } catch (const Error& error) {
    problems.push_back({.file = folder + "/" + kIndexFile, .message = error.what()});
    return problems;
  }
}

json ProblemJson(const Problem& problem) {
  json value = {{"file", problem.file}, {"message", problem.message}};
  if (!problem.tensor.empty()) {
    value["tensor"] = problem.tensor;
  }
  if (problem.offset >= 0) {
    value["offset"] = problem.offset;
  }
  return value;
}

}  // namespace

Report VerifyCheckpoint(const std::string& path, bool mend) {
  Report report;
  json checkpoints = json::array();
  for (const std::string& folder : ResolveAllCheckpoints(path)) {
    std::string mended;
    const std::vector<Problem> problems = mend ? MendedProblems(folder, mended) : ProblemsOf(folder);
    json listed = json::array();
    report.text +=
        fmt::format("{}: {}{}\n", folder, problems.empty() ? "good" : "damaged", mended.empty() ? "" : ", " + mended);
    for (const Problem& problem : problems) {
      report.status = 1;
      report.text += "  " + problem.ToString() + "\n";
      listed.push_back(ProblemJson(problem));
    }
    checkpoints.push_back({{"folder", folder}, {"good", problems.empty()}, {"problems", std::move(listed)}});
    if (!mended.empty()) {
      checkpoints.back()["mended"] = mended;
    }
  }
  const json root = {{"good", report.status == 0}, {"checkpoints", std::move(checkpoints)}};
  report.json = JsonText(root, {.indent = 1});
  return report;
}

void AddDroppedState(const std::string& path, const std::string& recipe, const RunConfig& config, Report& report) {
  const std::string folder = ResolveCheckpoint(path);
  json root = ParseJson(report.json);
  json dropped = json::array();
  std::string text = "drops nothing";
  try {
    const std::vector<DroppedState> found = FindDroppedState(ReadManifest(folder), folder, config);
    if (!found.empty()) {
      report.status = 1;
      text = "drops " + ToText(found);
    }
    for (const DroppedState& each : found) {
      dropped.push_back({{"part", each.part}, {"reason", each.reason}});
    }
  } catch (const Error& error) {
    report.status = 1;
    text = fmt::format("is not possible: {}", error.what());
    root["refusal"] = error.what();
  }
  report.text += fmt::format("{}: a resume with '{}' {}\n", folder, recipe, text);
  root["dropped"] = std::move(dropped);
  report.json = JsonText(root, {.indent = 1});
}

}  // namespace trireme
