// What a plan leaves behind: a recipe that `trireme train` takes, and a job script for Slurm.
#pragma once

#include <string>

#include "planner/queries/layout_words.h"
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
// Why our trainer cannot train on the machine's devices; "" when it can.
std::string TrainerAbsence(const Cluster& cluster);
// An Error that says it.
void RequireTrainable(const Cluster& cluster);
// A job script: an array of jobs that go on one from another, each one supervisor that starts the ranks with srun.
// Every word that comes from outside is quoted. An Error as of RequireEmittable.
std::string EmitSbatch(const EmitRequest& request, const std::string& recipe_path);
// A name in letters that Slurm takes; "#SBATCH" lines of a site's options; a folder that is not taken for an option.
std::string JobName(std::string name);
std::string SiteOptions(const JobOptions& job);
std::string FolderWord(const std::string& name);
// One word for a shell, whatever is in it; an Error for control characters. `what` names it there.
std::string ShellWord(const std::string& text, const std::string& what);

}  // namespace trireme
