// What a plan leaves behind: a recipe that `trireme train` takes, and a job script for Slurm.
#pragma once

#include <set>
#include <string>

#include "planner/search/search.h"
#include "run/run_config.h"

namespace trireme {

// Options of a Slurm job; empty: left to the site's default.
struct JobOptions {
  std::string time_limit;  // as sbatch --time takes it: 20:00:00, 2-12, 90
  std::string account;
  std::string partition;
  std::string constraint;
  int cpus_per_task = 0;
  std::string hint;
  std::string reservation;
  std::string qos;
};

struct EmitRequest {
  const SearchRequest& search;
  const ParallelLayout& layout;
  double tokens = 0;         // 0: 20 a parameter
  BatchConfig batch;         // with its ramp
  int checkpoint_every = 0;  // steps
  int spare_nodes = 0;
  std::string name = "planned";  // of the run's folder, and, in letters that Slurm takes, of the job
  JobOptions job = {};
  bool full = false;         // every key, not those alone that differ from the defaults
  std::string program = "";  // version of the program, for the header
  std::string stages = "";   // train.stages; its batches take the place of a ramp
};

// A job that one would submit: its length, warm-up, validation. A validated config; an Error when the trainer does not
// offer what the layout asks for.
RunConfig EmitConfig(const EmitRequest& request);
std::string EmitRecipe(const EmitRequest& request);
// An Error when a word that would be written has a control character, or an option of the job another form than
// Slurm's.
void RequireEmittable(const Cluster& cluster, const std::string& name, const JobOptions& job);
// A job script: an array of jobs that go on one from another, each one supervisor that starts the ranks with srun.
// Every word that comes from outside is quoted. An Error as of RequireEmittable.
std::string EmitSbatch(const EmitRequest& request, const std::string& recipe_path);
// A name in letters that Slurm takes; "#SBATCH" lines of a site's options; a folder that is not taken for an option.
std::string JobName(std::string name);
std::string SiteOptions(const JobOptions& job);
std::string FolderWord(const std::string& name);
// One word for a shell, whatever is in it; an Error for control characters. `what` names it there.
std::string ShellWord(const std::string& text, const std::string& what);

// "tp=4 pp=12 dp=8 mbs=2 zero=1 schedule=1f1b chunks=1 recompute=full sp partition=balanced offload=none": any order,
// commas or spaces, each once; or as ParallelLayout::ToString() writes it: "tp4 pp12 dp8 zero1 1f1b mbs2". What is not
// given is as in `base`. An Error names the nearest known word.
ParallelLayout ParseLayout(const std::string& text, const ParallelLayout& base);
// Parses a layout for one model: where the text says nothing of the partition and layers do not divide, they are spread
// as evenly as they go.
ParallelLayout ParseLayoutOf(const ModelConfig& model, const std::string& text);
// The words that such a text gives, without their values.
std::set<std::string> ParseLayoutWords(const std::string& text);

}  // namespace trireme
