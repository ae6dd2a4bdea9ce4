#include "planner/queries/model_listing.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <utility>

#include "cost/step_cost.h"

namespace trireme {
namespace {

std::string_view NameOf(Owner owner) {
  switch (owner) {
    case Owner::kBuffer:
      return "buffer";
    case Owner::kParameter:
      return "parameter";
    case Owner::kGradient:
      return "gradient";
    case Owner::kBatch:
      return "batch";
  }
  return "";
}

std::string_view NameOf(Access access) {
  switch (access) {
    case Access::kRead:
      return "read";
    case Access::kWrite:
      return "write";
    case Access::kUpdate:
      return "update";
  }
  return "";
}

std::int64_t BytesOf(const Traffic& traffic) {
  return std::accumulate(traffic.bytes.begin(), traffic.bytes.end(), std::int64_t{0});
}

// "1.6 M"
std::string Scaled(std::int64_t count) {
  static constexpr std::array kUnits = {"", " k", " M", " G", " T", " P", " E"};
  auto value = static_cast<double>(count);
  std::size_t unit = 0;
  while (value >= 999.95 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  return fmt::format("{:.{}f}{}", value, unit == 0 ? 0 : 1, kUnits[unit]);
}

std::string ScaledBytes(std::int64_t count) {
  const std::string scaled = Scaled(count);
  return scaled + (scaled.find(' ') == std::string::npos ? " B" : "B");
}

// One module of a stage and its program.
class ModuleLister {
 public:
  ModuleLister(const StageOfRun& stage, const LocalSizes& sizes, const ModuleProgram& program, std::int64_t module)
      : table_(stage.table()),
        sizes_(sizes),
        program_(program),
        rows_(RowsOf(stage.table(), program, module)),
        prefix_(module > 0 && module < stage.table().config().modules() - 1 ? PrefixOf(rows_.front()) : 0) {}

  std::vector<ListedPart> Parts() const {
    std::vector<ListedPart> parts;
    for (const auto& [name, steps] : {std::pair{"forward", &program_.forward},
                                      {"evaluation", &program_.evaluation},
                                      {"backward", &program_.backward},
                                      {"backward_weight", &program_.backward_weight}}) {
      if (!steps->empty()) {
        ListedPart& part = parts.emplace_back();
        part.name = name;
        std::transform(steps->begin(), steps->end(), std::back_inserter(part.steps),
                       [this](const ProgramStep& step) { return List(step); });
      }
    }
    return parts;
  }

  std::int64_t Parameters() const {
    std::int64_t count = 0;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const bool counted_before = static_cast<int>(i) == program_.tied && i > 0;  // with the embedding
      count += counted_before ? 0 : LocalShape(Row(i), sizes_.tensor).count();
    }
    return count;
  }

 private:
  ListedStep List(const ProgramStep& step) const {
    const WorkCost cost = CostOfWork(sizes_, program_, step);
    ListedStep listed{.name = std::string(NameOf(step.work)),
                      .recomputed = step.recomputed,
                      .chunked = step.chunked,
                      .flops = cost.flops.total(),
                      .sent = BytesOf(cost.tensor) + BytesOf(cost.context)};
    const bool rows_alone =
        std::holds_alternative<LookupStep>(step.work) || std::holds_alternative<LookupBackwardStep>(step.work);
    for (const Operand& operand : OperandsOf(step.work)) {
      const ListedOperand& each = listed.operands.emplace_back(List(operand));
      std::int64_t once = each.shape.count() * SizeOf(each.dtype);
      if (rows_alone && each.shape.rank() == 2) {  // of a table: those of the tokens
        once = std::min(once, sizes_.tokens * each.shape[1] * SizeOf(each.dtype));
      }
      const bool every_chunk = step.chunked && (each.shape[0] == program_.chunk || !operand.is_buffer());
      listed.bytes += once * (operand.access == Access::kUpdate ? 2 : 1) * (every_chunk ? Chunks(operand) : 1);
    }
    return listed;
  }

  // A parameter is read for every chunk; the micro batch's tensors have all rows.
  std::int64_t Chunks(const Operand& operand) const {
    return operand.owner == Owner::kBatch ? 1 : CeilDiv(program_.rows, program_.chunk);
  }

  ListedOperand List(const Operand& operand) const {
    ListedOperand listed{.role = operand.name, .owner = operand.owner, .access = operand.access};
    const auto id = static_cast<std::size_t>(operand.id);
    switch (operand.owner) {
      case Owner::kBuffer:
        listed.dtype = program_.buffers[id].dtype;
        listed.shape = program_.buffers[id].shape;
        break;
      case Owner::kParameter:
      case Owner::kGradient:
        listed.of = Row(id).name.substr(prefix_);
        listed.dtype = operand.owner == Owner::kGradient ? DType::kFloat32 : sizes_.dtype;
        listed.shape = LocalShape(Row(id), sizes_.tensor);
        break;
      case Owner::kBatch:
        SetBatch(static_cast<BatchTensor>(operand.id), listed);
        break;
    }
    return listed;
  }

  void SetBatch(BatchTensor tensor, ListedOperand& listed) const {
    listed.of = "batch";
    listed.shape = {tensor == BatchTensor::kPositions ? sizes_.outside : sizes_.tokens};
    listed.dtype = DType::kInt32;
    if (tensor == BatchTensor::kWeights || tensor == BatchTensor::kLossSums) {
      listed.dtype = DType::kFloat32;
    }
    if (tensor == BatchTensor::kLossSums) {
      listed.shape = {2};
    }
  }

  const Parameter& Row(std::size_t i) const { return table_.rows()[static_cast<std::size_t>(rows_[i])]; }
  // The letters of "blocks.3.", which blocks that are listed together do not share.
  std::size_t PrefixOf(int row) const {
    const std::string& name = table_.rows()[static_cast<std::size_t>(row)].name;
    return name.find('.', name.find('.') + 1) + 1;
  }

  const ParameterTable& table_;
  const LocalSizes& sizes_;
  const ModuleProgram& program_;
  std::vector<int> rows_;
  std::size_t prefix_;
};

struct SizedProgram {
  std::string kind;
  LocalSizes sizes;
  ModuleProgram program;
};

SizedProgram ProgramOf(const StageDescription& stage, const ModuleRange& range, std::int64_t module) {
  const ModelConfig& model = stage.model;
  if (module == 0) {
    return {"embedding", stage.sizes, PlanEmbedding(model, stage.sizes)};
  }
  if (module == model.modules() - 1) {
    const std::int64_t chunk = HeadChunkWithin(stage.sizes, stage.head_chunk, ScratchBytes(stage));
    return {"head", stage.sizes, PlanHead(model, stage.sizes, chunk)};
  }
  const std::int64_t index = module - std::max<std::int64_t>(range.first, 1);
  const LocalSizes sizes = BlockSizes(stage.sizes, stage.layout, index).ForLayer(model, module - 1);
  return {"block", sizes, PlanBlock(model, sizes)};
}

void AddModule(const StageOfRun& stage, const SizedProgram& of, std::int64_t module, ModelListing& listing) {
  const ModuleLister lister(stage, of.sizes, of.program, module);
  listing.modules.push_back({.kind = of.kind,
                             .first = module,
                             .stage = stage.description().pipeline,
                             .parameters = lister.Parameters(),
                             .kept_bytes = of.program.kept_bytes,
                             .scratch_bytes = of.program.scratch_bytes,
                             .parts = lister.Parts()});
}

void AddUp(const ListedModule& module, ModelListing& listing) {
  listing.parameters += module.count * module.parameters;
  listing.kept_bytes += module.count * module.kept_bytes;
  for (const ListedPart& part : module.parts) {
    if (part.name == "evaluation") {
      continue;
    }
    for (const ListedStep& step : part.steps) {
      (step.recomputed ? listing.recomputed_flops : listing.flops) += module.count * step.flops;
      listing.bytes += module.count * step.bytes;
      listing.sent += module.count * step.sent;
    }
  }
}

std::vector<std::int64_t> Extents(const Shape& shape) {
  std::vector<std::int64_t> extents;
  for (int dim = 0; dim < shape.rank(); ++dim) {
    extents.push_back(shape[dim]);
  }
  return extents;
}

std::string TextOf(const ListedOperand& operand) {
  const std::string_view mark = operand.access == Access::kUpdate ? "+=" : "";
  const std::string of = operand.of.empty() ? "" : fmt::format(" {}", operand.of);
  return fmt::format("{}{}{} {}{}", operand.role, mark, of, Name(operand.dtype), operand.shape.ToString());
}

std::string TextOf(const ListedStep& step) {
  std::string read;
  std::string written;
  for (const ListedOperand& operand : step.operands) {
    std::string& to = operand.access == Access::kRead ? read : written;
    to += (to.empty() ? "" : ", ") + TextOf(operand);
  }
  return fmt::format("{:>10} {:>10} {:>10}  {}{}{}: {}{}{}\n", Scaled(step.flops), Scaled(step.bytes),
                     Scaled(step.sent), step.name, step.recomputed ? " (recomputed)" : "",
                     step.chunked ? " (in chunks)" : "", read, read.empty() || written.empty() ? "" : " -> ", written);
}

}  // namespace

ModelListing ListModel(const RunConfig& config) {
  ModelListing listing;
  for (int pipeline = 0; pipeline < config.layout.pipeline; ++pipeline) {
    const StageOfRun stage(config, pipeline, config.batch.global);
    for (int chunk = 0; chunk < config.layout.chunks; ++chunk) {
      const ModuleRange& range = stage.description().Range(chunk);
      std::optional<LocalSizes> before;
      for (std::int64_t module = range.first; module < range.last; ++module) {
        const SizedProgram of = ProgramOf(stage.description(), range, module);
        if (of.kind == "block" && before == of.sizes) {
          ++listing.modules.back().count;
          continue;
        }
        AddModule(stage, of, module, listing);
        before = of.kind == "block" ? std::optional(of.sizes) : std::nullopt;
      }
    }
  }
  for (const ListedModule& module : listing.modules) {
    AddUp(module, listing);
  }
  return listing;
}

std::string ToText(const ModelListing& listing, const RunConfig& config) {
  const ModelConfig& model = config.model;
  const ParallelLayout& layout = config.layout;
  std::string text = fmt::format(
      "{}: {} blocks, hidden {}, {} heads, {} parameters\nOne micro batch of {} x {} tokens in {} on one rank; tensor "
      "{}, context {}, pipeline {}, data {}, ZeRO {}\n",
      model.family, model.layers, model.hidden, model.heads, Scaled(ParameterCount(model)), layout.micro_batch,
      model.sequence, config.train.dtype, layout.tensor, layout.context, layout.pipeline, layout.data, layout.zero);
  for (const ListedModule& module : listing.modules) {
    text += fmt::format("\n{}", module.kind);
    if (module.kind == "block") {
      text += module.count == 1 ? fmt::format(" {}", module.first - 1)
                                : fmt::format("s {} to {}", module.first - 1, module.first + module.count - 2);
    }
    text += layout.pipeline > 1 ? fmt::format(" on stage {}", module.stage) : "";
    text +=
        fmt::format(": {} parameters, keeps {}, scratch {}{}\n", Scaled(module.parameters),
                    ScaledBytes(module.kept_bytes), ScaledBytes(module.scratch_bytes), module.count > 1 ? " each" : "");
    for (const ListedPart& part : module.parts) {
      text += fmt::format("{:>10} {:>10} {:>10}  {}\n", "FLOPs", "bytes", "sent", part.name);
      for (const ListedStep& step : part.steps) {
        text += TextOf(step);
      }
    }
  }
  text += fmt::format(
      "\nTotal: {} parameters, {} kept; {} FLOPs and {} recomputed, {} touched, {} sent between tensor and context "
      "ranks\n",
      Scaled(listing.parameters), ScaledBytes(listing.kept_bytes), Scaled(listing.flops),
      Scaled(listing.recomputed_flops), ScaledBytes(listing.bytes), ScaledBytes(listing.sent));
  return text;
}

nlohmann::json ToJsonValue(const ModelListing& listing, const RunConfig& config) {
  using nlohmann::json;
  json modules = json::array();
  for (const ListedModule& module : listing.modules) {
    json parts = json::object();
    for (const ListedPart& part : module.parts) {
      json& steps = parts[part.name] = json::array();
      for (const ListedStep& step : part.steps) {
        json operands = json::array();
        for (const ListedOperand& operand : step.operands) {
          operands.push_back({{"role", operand.role},
                              {"of", operand.of},
                              {"owner", NameOf(operand.owner)},
                              {"access", NameOf(operand.access)},
                              {"dtype", Name(operand.dtype)},
                              {"shape", Extents(operand.shape)}});
        }
        steps.push_back({{"step", step.name},
                         {"operands", operands},
                         {"recomputed", step.recomputed},
                         {"chunked", step.chunked},
                         {"flops", step.flops},
                         {"bytes", step.bytes},
                         {"sent_bytes", step.sent}});
      }
    }
    modules.push_back({{"kind", module.kind},
                       {"first", module.first},
                       {"count", module.count},
                       {"stage", module.stage},
                       {"parameters", module.parameters},
                       {"kept_bytes", module.kept_bytes},
                       {"scratch_bytes", module.scratch_bytes},
                       {"parts", parts}});
  }
  return {{"family", config.model.family},
          {"parameters", ParameterCount(config.model)},
          {"micro_batch", config.layout.micro_batch},
          {"sequence", config.model.sequence},
          {"dtype", config.train.dtype},
          {"modules", modules},
          {"totals",
           {{"parameters", listing.parameters},
            {"kept_bytes", listing.kept_bytes},
            {"flops", listing.flops},
            {"recomputed_flops", listing.recomputed_flops},
            {"bytes", listing.bytes},
            {"sent_bytes", listing.sent}}}};
}

}  // namespace trireme
