// `trireme plan` as a user runs it.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <tuple>

#include "apps/program.h"
#include "base/json_text.h"

namespace trireme {
namespace {

using testing::HasSubstr;

std::string Source(const std::string& path) { return std::string(TRIREME_SOURCE_DIR) + "/" + path; }

std::vector<std::string> Plan(const std::vector<std::string>& options) {
  std::vector<std::string> arguments = {"plan",           "--clusters-folder", Source("clusters"), "--stacks-folder",
                                        Source("stacks"), "--models-folder",   Source("models")};
  arguments.insert(arguments.end(), options.begin(), options.end());
  return arguments;
}

struct BadPlan {
  std::string name;
  std::vector<std::string> options;
  std::string said;
};

void PrintTo(const BadPlan& input, std::ostream* out) { *out << input.name; }

class BadPlans : public testing::TestWithParam<BadPlan> {};

TEST_P(BadPlans, GiveOneClearMessageAndCodeTwo) {
  const Workplace place;
  place.Write("no_link.toml",
              "name = \"x\"\nnodes = 2\ndevices_per_node = 1\n[device]\nname = \"d\"\nmemory_gib = 1\n"
              "memory_bandwidth_gbs = 1\npeak_tflops = { fp32 = 1 }\n");
  place.Write("broken.json", "{\"model_type\": \"llama\"");
  const Outcome outcome = place.Run(Plan(GetParam().options));
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr(GetParam().said));
  EXPECT_EQ(outcome.out, "") << "nothing is printed before a mistake is told";
}

std::vector<std::string> With(const std::vector<std::string>& more) {
  std::vector<std::string> options = {"--model", "gpt2-124m", "--cluster",      "dgx-h100",
                                      "--nodes", "1",         "--global-batch", "64"};
  options.insert(options.end(), more.begin(), more.end());
  return options;
}

const BadPlan kPlans[] = {
    {"NoCluster", {"--model", "gpt2-124m", "--global-batch", "8"}, "name a cluster"},
    {"NoModel", {"--cluster", "dgx-h100", "--nodes", "1", "--global-batch", "8"}, "name a model"},
    {"NoSizeOfTheAllocation",
     {"--cluster", "dgx-h100", "--model", "gpt2-124m", "--global-batch", "8"},
     "cluster 'dgx-h100' has 2048 nodes: give --nodes, --gpus or --phases, such as --nodes 4"},
    {"AnUnknownCluster", {"--cluster", "dgx-h10", "--model", "gpt2-124m", "--global-batch", "8"}, "did you mean"},
    {"AClusterWithoutALink",
     {"--cluster", "no_link.toml", "--model", "gpt2-124m", "--global-batch", "8"},
     "lacks the link [links.node]"},
    {"AnImpossibleModel",
     {"--cluster", "dgx-h100", "--gpus", "8", "--layers", "2", "--hidden", "100", "--heads", "3", "--global-batch",
      "8"},
     "model.heads = 3 does not divide model.hidden = 100"},
    {"ABrokenConfig",
     {"--cluster", "dgx-h100", "--gpus", "8", "--model", "broken.json", "--global-batch", "8"},
     "no JSON object"},
    {"NoNodes", With({"--gpus", "0"}), "--gpus: must be above 0"},
    {"TwoSizesOfTheAllocation", With({"--gpus", "8"}), "give one of them"},
    {"OnlySpareNodes", With({"--spare-nodes", "1"}), "1 spare nodes leave nothing of 8 devices"},
    {"AnUnknownLayoutWord", With({"--layout", "tq=3"}), "did you mean 'tp'?"},
    {"ALayoutOfAnotherSize", With({"--layout", "tp=3 pp=1 dp=3"}), "9 ranks, but 8 devices"},
    {"ALayoutThatAnotherDataDegreeWouldFit", With({"--layout", "tp=2 pp=1 dp=5"}), "dp=4 would fit"},
    {"ABatchThatTheLayoutDoesNotDivide", With({"--layout", "dp=8 mbs=3"}), "nearest that is: 48 or 72"},
    {"TwoSearchesOfShapes", With({"--max-size", "--search-shape", "3B"}), "give one of them"},
    {"AMisspeltOption", With({"--golbal-batch", "8"}), "--global-batch"},
    {"ABadRamp", With({"--ramp", "3,4"}), "--ramp '3,4'"},
    {"ARampThatMissesTheBatch", With({"--ramp", "3,4,100"}), "never meets the global batch 64"},
    {"AnUnknownOutput", With({"--emit", "poem"}), "--emit 'poem'"},
    {"AnEstimateOfNothing", With({"--estimate"}), "--estimate needs --tokens"},
    {"ATimelineOfNothing", With({"--timeline", "text"}), "--timeline needs --layout"},
    {"ATypeThatCannotTrain", With({"--dtype", "int32"}), "bf16, fp16 or fp32"},
    {"MomentsOfNoKnownType", With({"--moments", "fp16"}), "fp32 or bf16"},
    {"MomentsThatAnotherStackDoesNotHave", With({"--moments", "bf16", "--stack", "megatron-core-2024"}),
     "stack 'megatron-core-2024' only memory and time with fp32 moments"},
    {"ATimeThatIsNone", With({"--emit", "sbatch", "--time-limit", "soon"}), "--time-limit 'soon'"},
    {"AnAccountThatIsNone", With({"--emit", "sbatch", "--account", "a b"}), "--account 'a b'"},
    {"ABatchBeyondAllCounting",
     {"--model", "gpt2-124m", "--cluster", "dgx-h100", "--gpus", "8", "--global-batch", "9223372036854775807"},
     "--global-batch 9223372036854775807: a step has at least 1 sample and at most 16777216"},
    {"ASizeThatIsNone", With({"--search-shape", "big"}), "'big' is no model size"},
};

INSTANTIATE_TEST_SUITE_P(Each, BadPlans, testing::ValuesIn(kPlans),
                         [](const testing::TestParamInfo<BadPlan>& one) { return one.param.name; });

TEST(PlanProgram, TheEmittedRecipePassesADryRun) {
  const Workplace place;
  const Outcome planned = place.Run(
      Plan({"--model", "gpt2-124m", "--cluster", "dgx-h100", "--gpus", "4", "--global-batch", "64", "--tokens", "1e9",
            "--moments", "bf16", "--estimate", "--ramp", "32,16,1000", "--emit", "recipe,sbatch", "--out", "chosen"}));
  EXPECT_EQ(planned.code, 0) << planned.err;
  EXPECT_THAT(planned.out, HasSubstr("recommended "));
  EXPECT_THAT(planned.out, HasSubstr("refused:"));
  EXPECT_THAT(planned.out, HasSubstr("device-hours"));
  EXPECT_THAT(place.Read("chosen.sbatch"), HasSubstr("srun --nodes=1 --ntasks=4"));
  EXPECT_THAT(place.Read("chosen.toml"), HasSubstr("moments = \"bf16\""));
  const Outcome dry = place.Run({"train", "chosen.toml", "--dry-run", "--set", "data.source=synthetic"});
  EXPECT_EQ(dry.code, 0) << dry.err;
  EXPECT_THAT(dry.out, HasSubstr("batch.ramp_up.start"));
}

TEST(PlanProgram, AShapeFlagKeepsTheRestOfANamedModel) {
  const Workplace place;
  const auto parameters = [&](const std::vector<std::string>& more) {
    std::vector<std::string> options = {"--model",        "llama-3-8b", "--cluster", "dgx-h100", "--gpus", "8",
                                        "--global-batch", "8",          "--rows",    "1",        "--json"};
    options.insert(options.end(), more.begin(), more.end());
    return ParseJson(place.Run(Plan(options)).out)["parameters"].get<double>();
  };
  const double block = (parameters({}) - parameters({"--layers", "16"})) / 16;
  EXPECT_EQ(block, 218'112'000) << "grouped heads and feed-forward width stay";
}

TEST(PlanProgram, StagesThatDoNotDivideTheLayersAreBalancedUnlessToldOtherwise) {
  const Workplace place;
  const auto explain = [&](const std::string& layout) {
    return place.Run(Plan({"--model", "bloom-176b", "--cluster", "jean-zay-a100", "--nodes", "48", "--global-batch",
                           "2048", "--layout", layout}));
  };
  const auto layout_of = [](const Outcome& outcome) {
    const std::string lead = "layout    ";
    const std::size_t at = outcome.out.find(lead) + lead.size();
    return outcome.out.substr(at, outcome.out.find('\n', at) - at);
  };
  const Outcome chosen = explain("tp=4 pp=12 dp=8 mbs=2 recompute=full zero=1");
  EXPECT_EQ(chosen.code, 0) << chosen.err;
  EXPECT_THAT(chosen.out, HasSubstr("chosen: "));
  EXPECT_EQ(layout_of(explain(layout_of(chosen))), layout_of(chosen));
  const Outcome balanced = explain("tp=4 pp=12 dp=8 mbs=2 recompute=full zero=1 partition=balanced");
  EXPECT_THAT(layout_of(balanced), HasSubstr(" balanced "));
  EXPECT_EQ(explain("tp=4 pp=12 dp=8 mbs=2 partition=uniform").code, 2);
}

TEST(PlanProgram, ShapesAreFoundWithoutAModel) {
  const Workplace place;
  const Outcome outcome = place.Run(
      Plan({"--cluster", "dgx-h100", "--nodes", "1", "--global-batch", "64", "--search-shape", "1B", "--rows", "1"}));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("1.0B"));
}

TEST(PlanProgram, AnEmittedRecipeSavesCheckpointsOnTheWay) {
  const Workplace place;
  EXPECT_EQ(place.Run(Plan(With({"--emit", "recipe"}))).code, 0);
  EXPECT_THAT(place.Read("planned.toml"), testing::ContainsRegex("every = [1-9]"));
}

// What a shell makes of the words of an emitted job's commands, with `trireme` a function that prints them.
std::vector<std::string> WordsOfJob(const Workplace& place, const std::string& script) {
  place.Write("read_job",
              "trireme() { printf '%s\\n' \"$@\"; }\nscancel() { :; }\nsrun() { printf 'srun %s\\n' \"$@\"; }\n" +
                  place.Read(script));
  std::vector<std::string> words;
  FILE* const shell = popen(("cd '" + (place / "") + "' && /bin/bash read_job 2>&1").c_str(), "r");
  std::array<char, 4096> line{};
  while (std::fgets(line.data(), line.size(), shell) != nullptr) {
    words.emplace_back(line.data());
    words.back().pop_back();
  }
  pclose(shell);
  return words;
}

TEST(PlanProgram, WordsFromOutsideNeverBecomeCommandsOfAJob) {
  for (const std::string name : {"my run; id", "a'b", "$(id)", "`id`", "a\\b", "*"}) {
    const Workplace place;
    const Outcome planned = place.Run(Plan(With({"--emit", "sbatch", "--out", name})));
    ASSERT_EQ(planned.code, 0) << planned.err;
    EXPECT_THAT(WordsOfJob(place, name + ".sbatch"),
                testing::ElementsAre("train", name + ".toml", "--run", name, "--supervise", "--launcher",
                                     "srun --nodes=1 --ntasks=8 --kill-on-bad-exit=1"))
        << name;
  }
}

// The emitted job under a shell, with programs in the place of Slurm's that write down how they were called. The first
// srun ends as one whose node fails.
TEST(PlanProgram, AnEmittedJobHasOneSupervisorThatStartsSrun) {
  const Workplace place;
  const Outcome planned = place.Run(Plan(With({"--emit", "recipe,sbatch", "--out", "my run"})));
  ASSERT_EQ(planned.code, 0) << planned.err;
  place.Write("my run.toml", TinyRecipe());
  std::filesystem::create_directory(place / "bin");
  place.Write("bin/trireme", "#!/bin/bash\necho \"$*\" >> supervisors\nexec '" + ProgramUnderTest() + "' \"$@\"\n");
  place.Write("bin/srun",
              "#!/bin/bash\necho \"$*\" >> sruns\nwhile [[ $1 == --* ]]; do shift; done\n"
              "[[ $(wc -l < sruns) == 1 ]] && exit 137\nexec \"$@\"\n");
  place.Write("bin/scancel", "#!/bin/bash\necho \"$*\" >> cancelled\n");
  for (const char* name : {"trireme", "srun", "scancel"}) {
    std::filesystem::permissions(place / (std::string("bin/") + name), std::filesystem::perms::owner_all);
  }
  const std::string job = "PATH=$PWD/bin:$PATH SLURM_ARRAY_JOB_ID=7 exec /bin/bash 'my run.sbatch'";
  const Outcome outcome = place.End(place.Start({"-c", job}, "/bin/bash"), 0);
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_THAT(Lines(place.Read("supervisors")),
              testing::ElementsAre("train my run.toml --run my run --supervise --launcher "
                                   "srun --nodes=1 --ntasks=8 --kill-on-bad-exit=1"));
  const auto ranks =
      testing::AllOf(testing::StartsWith("--nodes=1 --ntasks=8 --kill-on-bad-exit=1 "),
                     HasSubstr(" train my run.toml --run my run"), testing::Not(HasSubstr("--supervise")));
  EXPECT_THAT(Lines(place.Read("sruns")), testing::ElementsAre(ranks, ranks));
  EXPECT_THAT(outcome.err, HasSubstr("supervisor: starting the job again"));
  EXPECT_THAT(Lines(place.Read("cancelled")), testing::ElementsAre("--state=PENDING 7"));
  EXPECT_TRUE(place.Has("my run/checkpoints/step-000004"));
}

TEST(PlanProgram, AnEmittedJobCancelsTheOthersAfterAFailedLastSave) {
  const Workplace place;
  ASSERT_EQ(place.Run(Plan(With({"--emit", "sbatch", "--out", "chosen"}))).code, 0);
  for (const auto& [ends_with, code, cancelled] :
       {std::tuple{5, 5, true}, {3, 0, false}, {4, 4, false}, {1, 1, false}}) {
    const std::string job = fmt::format(
        "rm -f cancelled; trireme() {{ return {}; }}; scancel() {{ echo \"$*\" > cancelled; }}; "
        "SLURM_ARRAY_JOB_ID=7; . ./chosen.sbatch",
        ends_with);
    EXPECT_EQ(place.End(place.Start({"-c", job}, "/bin/bash"), 0).code, code) << ends_with;
    EXPECT_EQ(place.Has("cancelled"), cancelled) << ends_with;
  }
}

TEST(PlanProgram, ControlCharactersAreRefusedInAJob) {
  const Workplace place;
  std::ifstream file(Source("clusters/dgx-h100.toml"));
  std::string cluster{std::istreambuf_iterator<char>(file), {}};
  const std::size_t description = cluster.find("description = \"");
  ASSERT_NE(description, std::string::npos);
  cluster.insert(description + 15, "a machine\\nid\\n");
  place.Write("hostile.toml", cluster);
  const std::vector<std::string> emitting = {"--model", "gpt2-124m", "--global-batch", "64",
                                             "--gpus",  "8",         "--emit",         "sbatch"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = emitting;
    all.insert(all.end(), more.begin(), more.end());
    return place.Run(Plan(all));
  };
  const Outcome newline = with({"--cluster", place / "hostile.toml"});
  EXPECT_EQ(newline.code, 2);
  EXPECT_THAT(newline.err, HasSubstr("the cluster's description has a control character"));
  const Outcome name = with({"--cluster", "dgx-h100", "--out", "run\nid"});
  EXPECT_EQ(name.code, 2);
  EXPECT_THAT(name.err, HasSubstr("--out has a control character"));
}

TEST(PlanProgram, ABatchIsChosenAndSaidWhenNoneIsGiven) {
  const Workplace place;
  const Outcome outcome = place.Run(Plan({"--model", "gpt2-124m", "--cluster", "dgx-h100", "--nodes", "1", "--json"}));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("no --global-batch given: taking 512 samples"));
}

TEST(PlanProgram, NothingThatFitsIsCodeOneAndSaysWhatWould) {
  const Workplace place;
  const Outcome outcome =
      place.Run(Plan({"--model", "bloom-176b", "--cluster", "dgx-h100", "--nodes", "1", "--global-batch", "64"}));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("no layout fits"));
  EXPECT_THAT(outcome.out, testing::ContainsRegex("devices hold it, [0-9]+ do not; try --gpus [0-9]+:"));
}

TEST(PlanProgram, ALayoutSaysTheDaysOfItsTokens) {
  const Workplace place;
  const std::vector<std::string> asked = With({"--layout", "dp=8 mbs=4", "--tokens", "1e11"});
  EXPECT_THAT(place.Run(Plan(asked)).out, HasSubstr(" GPU-hours, "));
  std::vector<std::string> as_json = asked;
  as_json.emplace_back("--json");
  EXPECT_GT(ParseJson(place.Run(Plan(as_json)).out)["days"].get<double>(), 0);
}

TEST(PlanProgram, CoresThatNoLayoutCanUseOneByOneLeadToARankWithAllOfThem) {
  const Workplace place;
  std::vector<std::string> question = Plan({"--layers", "1", "--hidden", "64", "--heads", "1", "--dtype", "fp32",
                                            "--cluster", "laptop-cpu", "--global-batch", "1", "--gpus", "4"});
  const Outcome four = place.Run(question);
  EXPECT_EQ(four.code, 1) << four.err;
  EXPECT_THAT(four.out, HasSubstr("--gpus 1 plans one rank with all of them"));
  question.back() = "1";
  EXPECT_EQ(place.Run(question).code, 0);
}

TEST(PlanProgram, ValidatesATableAndRefusesNonsense) {
  const Workplace place;
  const std::vector<std::string> folders = {"--clusters-folder", Source("clusters"), "--stacks-folder",
                                            Source("stacks")};
  const auto validate = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"plan", "validate"});
    arguments.insert(arguments.end(), folders.begin(), folders.end());
    return place.Run(arguments);
  };
  const Outcome good = validate({Source("tests/planner/own_runs.csv"), "--json"});
  EXPECT_EQ(good.code, 0) << good.err;
  EXPECT_EQ(ParseJson(good.out)["runs"].size(), 5U);
  place.Write("bad.csv", "id,layers\na,\"b");
  EXPECT_EQ(validate({"bad.csv"}).code, 2);
  EXPECT_EQ(validate({"absent.csv"}).code, 2);
  EXPECT_EQ(validate({"."}).code, 2);
}

// A program that was built without Emscripten says what to do.
TEST(PlanProgram, ThePageIsWrittenWholeOrTheProgramSaysHowToGetIt) {
  const Workplace place;
  const Outcome written = place.Run({"plan", "--page", "planner.html"});
  if (written.code == 0) {
    const std::string page = place.Read("planner.html");
    EXPECT_THAT(page, testing::StartsWith("<!doctype html>"));
    EXPECT_THAT(page, HasSubstr("AGFzbQEAAAA")) << "WebAssembly's first bytes in base64";
    EXPECT_THAT(page, HasSubstr("jean-zay-a100"));
    EXPECT_THAT(page, testing::EndsWith("</html>\n"));
    EXPECT_EQ(place.Run({"plan", "--page", "nowhere/planner.html"}).code, 2);
    // It opens at the question of the command line.
    const Outcome asked = place.Run({"plan", "--page", "planner.html", "--model", "gpt2-124m", "--cluster", "dgx-a100",
                                     "--nodes", "2", "--tokens", "300B", "--fix", "tp=1 </script>", "--gpus", "8"});
    EXPECT_EQ(asked.code, 0) << asked.err;
    EXPECT_THAT(
        place.Read("planner.html"),
        HasSubstr("'#cluster=dgx-a100&fix=tp%3D1%20%3C%2Fscript%3E&model=gpt2-124m&nodes=2&tokens=300000000000'"));
    EXPECT_THAT(asked.err, HasSubstr("without --gpus, which it has no field for"));
    EXPECT_THAT(place.Read("planner.html"), testing::EndsWith("</html>\n"));
  } else {
    EXPECT_EQ(written.code, 2);
    EXPECT_THAT(written.err, HasSubstr("not built in"));
    EXPECT_THAT(written.err, HasSubstr("build again"));
    EXPECT_FALSE(place.Has("planner.html"));
  }
}

// Without Emscripten the page holds the answers; without Node.js there is none.
TEST(PlanProgram, ThePageOfAQuestionHasItsAnswersWhereThePlannerIsNotBuiltIn) {
  const Workplace place;
  const Outcome written = place.Run({"plan", "--model", "gpt2-124m", "--cluster", "dgx-a100", "--nodes", "1",
                                     "--global-batch", "64", "--tokens", "1e9", "--page", "plan.html", "--answers"});
  if (written.code == 0) {
    const std::string page = place.Read("plan.html");
    EXPECT_THAT(page, testing::StartsWith("<!doctype html>"));
    EXPECT_THAT(page, HasSubstr(R"("model":"gpt2-124m")"));
    EXPECT_THAT(page, HasSubstr(R"("explanation")"));
  } else {
    EXPECT_EQ(written.code, 2);
    EXPECT_THAT(written.err, HasSubstr("the planner's page is not built in"));
  }
}

}  // namespace
}  // namespace trireme
