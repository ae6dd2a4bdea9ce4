#include "operate/watched_run.h"

#include <filesystem>
#include <fstream>
#include <mutex>

#include "base/checksum.h"
#include "base/durable_file.h"
#include "base/error.h"
#include "checkpoint/read/checkpoint_folder.h"
#include "checkpoint/tools/reports.h"

namespace trireme {
namespace {

class Recorder : public TrainingObserver {
 public:
  // Asks for a stop after `stop_after` steps of this session; 0: never.
  Recorder(Watched& watched, std::string folder, std::int64_t stop_after)
      : watched_(watched), folder_(std::move(folder)), stop_after_(stop_after) {}
  void Started(const Trainer& /*trainer*/, std::int64_t /*resumed_step*/) override {
    if (stop_after_ == 1) {
      RequestStop();
    }
  }
  void StepDone(const StepFacts& facts) override {
    watched_.steps.push_back(facts.result);
    watched_.total_steps = facts.total_steps;
    watched_.last = facts;
    if (static_cast<std::int64_t>(watched_.steps.size()) == stop_after_ - 1) {
      RequestStop();
    }
  }
  void Validated(std::int64_t /*step*/, double loss) override { watched_.validations.push_back(loss); }
  void Note(const std::string& message) override {
    const std::scoped_lock lock(mutex_);
    watched_.notes.push_back(message);
  }

 private:
  // The file is found before the next step and obeyed after it.
  void RequestStop() { std::ofstream(folder_ + "/stop") << ""; }

  Watched& watched_;
  std::string folder_;
  std::int64_t stop_after_;
  std::mutex mutex_;
};

class RecordingSource : public SampleSource {
 public:
  RecordingSource(const RunConfig& config, const Session& session)
      : source_(OpenRunSource(config, "train")), session_(session) {}
  std::int64_t vocabulary() const override { return source_->vocabulary(); }
  std::string description() const override { return source_->description(); }
  Sample Get(std::int64_t index) const override {
    {
      const std::scoped_lock lock(mutex_);
      read_.insert(index);
    }
    Sample sample = source_->Get(index);
    if (session_.change) {
      session_.change(index, sample);
    }
    return sample;
  }
  const std::set<std::int64_t>& read() const { return read_; }

 private:
  std::unique_ptr<SampleSource> source_;
  const Session& session_;
  mutable std::mutex mutex_;
  mutable std::set<std::int64_t> read_;
};

std::string Newest(const std::string& folder) {
  const std::vector<StepFolder> all = ListCheckpoints(folder + "/checkpoints");
  Require(!all.empty(), "'{}' has no checkpoint", folder);
  return all.front().path;
}

}  // namespace

RunConfig TinyRun(const std::vector<std::string>& keys) {
  std::vector<std::string> all = {"model.layers=2",      "model.hidden=8",    "model.heads=2",
                                  "model.vocabulary=16", "model.sequence=4",  "layout.micro_batch=1",
                                  "train.steps=100",     "checkpoint.keep=1", "train.loss_spike=0"};
  all.insert(all.end(), keys.begin(), keys.end());
  RunConfig config = ParseRecipe("", "test.toml", all).config;
  Validate(config, 0);
  return config;
}

Watched RunOn(const RunConfig& config, const std::string& folder, const Session& session) {
  Watched watched;
  std::filesystem::create_directories(folder);
  RecordingSource source(config, session);
  Recorder recorder(watched, folder, session.stop_after);
  const Trainer::Sources sources{.train = &source, .validation = config.validation.every > 0 ? &source : nullptr};
  const LoopOptions options{.run_folder = folder, .drop_state = session.drop_state};
  RunThreadRanks(config.layout.ranks(), {.kind = "cpu"}, [&](RankContext& context) {
    const LoopResult result = RunTraining(config, context, sources, options, &recorder);
    if (context.world.rank() == 0) {
      watched.end = result.end;
    }
  });
  watched.samples = source.read();
  return watched;
}

std::string DigestIn(const std::string& folder) { return ToHex(DigestOfState(CheckpointReader(Newest(folder)))); }

void EditManifest(const std::string& folder, const std::function<void(std::string& text)>& edit) {
  const std::string path = Newest(folder) + "/manifest.json";
  std::string text = ReadWholeFile(path, 1 << 20);
  text.resize(text.rfind(",\n \"digest\""));
  edit(text);
  const std::string digest = ToHex(DigestOf(text));
  std::ofstream(path) << text << ",\n \"digest\":\"" << digest << "\"}\n";
}

}  // namespace trireme
