#include "topology/measured_rates.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "topology/decimal_units.h"
#include "topology/settings.h"

namespace trireme {
namespace {

constexpr const char* kWorkNames[kRankWorks] = {
    "norm",    "norm_backward", "gelu",     "gelu_backward", "activation",         "activation_backward",
    "rotary",  "bias_gradient", "loss",     "embedding",     "embedding_backward", "optimizer",
    "squares", "fill",          "residual", "attention",     "attention_backward"};

struct GroupField {
  const char* name;
  RateLaw GroupRates::*member;
};
constexpr GroupField kGroupFields[] = {{"all_reduce", &GroupRates::all_reduce},
                                       {"all_gather", &GroupRates::all_gather},
                                       {"reduce_scatter", &GroupRates::reduce_scatter},
                                       {"message", &GroupRates::message}};

double NotNegative(const Settings& file, const std::string& key) {
  const double number = file.Number(key, 0);
  Require(number >= 0 && number < 1e18, "{}: '{}' = {} must be at least 0 and below 1e18", file.origin(), key, number);
  return number;
}

RateLaw ReadLaw(const Settings& file, const std::string& key) {
  return {.call = NotNegative(file, key + ".call_us") * kMicro, .rate = NotNegative(file, key + ".giga") * kGiga};
}

ProductLaw ReadProduct(const Settings& file, const std::string& key) {
  return {.call = NotNegative(file, key + ".call_us") * kMicro,
          .flops = NotNegative(file, key + ".gflops") * kGiga,
          .operands = NotNegative(file, key + ".operands_giga") * kGiga,
          .results = NotNegative(file, key + ".results_giga") * kGiga};
}

std::string LawText(const char* name, const RateLaw& law) {
  return fmt::format("{} = {{ call_us = {:.4g}, giga = {:.5g} }}\n", name, law.call / kMicro, law.rate / kGiga);
}

// Between two values on logarithmic scales; a value of 0 is none, and the other counts.
double Between(double low, double high, double share) {
  if (low <= 0 || high <= 0) {
    return share < 0.5 ? low : high;
  }
  return std::exp((1 - share) * std::log(low) + share * std::log(high));
}

RateLaw Between(const RateLaw& low, const RateLaw& high, double share) {
  return {Between(low.call, high.call, share), Between(low.rate, high.rate, share)};
}

ProductLaw Between(const ProductLaw& low, const ProductLaw& high, double share) {
  return {Between(low.call, high.call, share), Between(low.flops, high.flops, share),
          Between(low.operands, high.operands, share), Between(low.results, high.results, share)};
}

RankRates Between(const RankRates& low, const RankRates& high, double share) {
  RankRates between = low;
  for (std::size_t i = 0; i < low.products.size(); ++i) {
    between.products[i] = Between(low.products[i], high.products[i], share);
  }
  for (std::size_t i = 0; i < low.works.size(); ++i) {
    between.works[i] = Between(low.works[i], high.works[i], share);
  }
  return between;
}

GroupRates Between(const GroupRates& low, const GroupRates& high, double share) {
  GroupRates between = low;
  for (const GroupField& field : kGroupFields) {
    between.*field.member = Between(low.*field.member, high.*field.member, share);
  }
  return between;
}

// The law among `measured` (ascending in `count`) at `wanted`; nullopt where there is none.
template <typename Rates>
std::optional<Rates> Interpolate(const std::vector<const Rates*>& measured, int Rates::*count, int wanted) {
  if (measured.empty()) {
    return std::nullopt;
  }
  const auto above =
      std::find_if(measured.begin(), measured.end(), [&](const Rates* rates) { return rates->*count >= wanted; });
  if (above == measured.end()) {
    return *measured.back();
  }
  if ((*above)->*count == wanted || above == measured.begin()) {
    return **above;
  }
  const Rates& low = **std::prev(above);
  const double share = std::log(static_cast<double>(wanted) / (low.*count)) /
                       std::log(static_cast<double>((*above)->*count) / (low.*count));
  return Between(low, **above, share);
}

template <typename Rates>
void SortBy(std::vector<const Rates*>& rates, int Rates::*count) {
  std::sort(rates.begin(), rates.end(), [&](const Rates* a, const Rates* b) { return a->*count < b->*count; });
}

}  // namespace

double ProductLaw::Seconds(double m, double n, double k, double filled) const {
  double seconds = call;
  seconds += flops > 0 ? 2 * m * n * k / (flops * filled) : 0;
  seconds += operands > 0 ? (m * k + k * n) / operands : 0;
  seconds += results > 0 ? m * n / results : 0;
  return seconds;
}

const char* Name(RankWork work) { return kWorkNames[static_cast<std::size_t>(work)]; }

const char* Name(ProductPass pass) {
  constexpr const char* kNames[kProductPasses] = {"forward", "backward_input", "backward_weight"};
  return kNames[static_cast<std::size_t>(pass)];
}

const RateLaw* GroupRates::Of(CollectiveKind kind) const {
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return &all_reduce;
    case CollectiveKind::kAllGather:
    case CollectiveKind::kBroadcast:
      return &all_gather;
    case CollectiveKind::kReduceScatter:
    case CollectiveKind::kAllToAll:
      return &reduce_scatter;
    case CollectiveKind::kSend:
      return &message;
    case CollectiveKind::kReceive:
    case CollectiveKind::kBarrier:
      return nullptr;
  }
  return nullptr;
}

namespace {

// fp16 is as fast as bf16 on accelerators; on cores it multiplies in fp32 panels.
DType MeasuredLike(const MeasuredRates& measured, DType dtype) {
  const bool known = std::any_of(measured.ranks.begin(), measured.ranks.end(),
                                 [&](const RankRates& one) { return one.dtype == dtype; });
  if (known || dtype != DType::kFloat16) {
    return dtype;
  }
  return measured.cores > 0 ? DType::kFloat32 : DType::kBFloat16;
}

}  // namespace

std::optional<RankRates> MeasuredRates::Rank(DType dtype, int threads) const {
  const DType measured = MeasuredLike(*this, dtype);
  std::vector<const RankRates*> fitting;
  for (const RankRates& one : ranks) {
    if (one.dtype == measured) {
      fitting.push_back(&one);
    }
  }
  SortBy(fitting, &RankRates::threads);
  return Interpolate(fitting, &RankRates::threads, threads);
}

std::optional<GroupRates> MeasuredRates::Group(DType dtype, int wanted, int nodes) const {
  const DType sent = dtype == DType::kFloat16 ? DType::kBFloat16 : dtype;  // bytes cost what bytes cost
  std::vector<const GroupRates*> fitting;
  for (const GroupRates& one : groups) {
    if (one.dtype == sent && (one.nodes > 1) == (nodes > 1)) {
      fitting.push_back(&one);
    }
  }
  SortBy(fitting, &GroupRates::ranks);
  std::optional<GroupRates> found = Interpolate(fitting, &GroupRates::ranks, wanted);
  if (found && wanted > fitting.back()->ranks) {
    const double times = static_cast<double>(wanted) / fitting.back()->ranks;
    for (const GroupField& field : kGroupFields) {
      RateLaw& law = *found.*field.member;
      law.call *= field.member == &GroupRates::message ? 1 : times;
      law.rate /= field.member == &GroupRates::message ? 1 : times;
    }
  }
  return found;
}

std::optional<MeasuredRates> ReadMeasured(const Settings& file) {
  if (!file.HasTable("measured")) {
    return std::nullopt;
  }
  MeasuredRates measured{.date = file.Text("measured.date"),
                         .program = file.Text("measured.program", ""),
                         .machine = file.Text("measured.machine", ""),
                         .cores = file.CountOr("measured.cores", 0),
                         .spread = file.Positive("measured.spread", 0.1),
                         .step = NotNegative(file, "measured.step_us") * kMicro,
                         .others = NotNegative(file, "measured.others"),
                         .slowest = NotNegative(file, "measured.slowest"),
                         .slowest_rank = static_cast<int>(NotNegative(file, "measured.slowest_rank")),
                         .pace = NotNegative(file, "measured.pace_us") * kMicro};
  for (int i = 0; i < file.Entries("measured.rank"); ++i) {
    const std::string table = fmt::format("measured.rank[{}].", i);
    RankRates rates{.dtype = ParseDType(file.Text(table + "dtype")), .threads = file.CountOr(table + "threads", 1)};
    for (int pass = 0; pass < kProductPasses; ++pass) {
      rates.products[static_cast<std::size_t>(pass)] = ReadProduct(file, table + Name(static_cast<ProductPass>(pass)));
    }
    for (int work = 0; work < kRankWorks; ++work) {
      rates.works[static_cast<std::size_t>(work)] = ReadLaw(file, table + kWorkNames[work]);
    }
    measured.ranks.push_back(rates);
  }
  for (int i = 0; i < file.Entries("measured.group"); ++i) {
    const std::string table = fmt::format("measured.group[{}].", i);
    GroupRates rates{.dtype = ParseDType(file.Text(table + "dtype")),
                     .ranks = file.Count(table + "ranks"),
                     .nodes = file.CountOr(table + "nodes", 1)};
    for (const GroupField& field : kGroupFields) {
      rates.*field.member = ReadLaw(file, table + field.name);
    }
    measured.groups.push_back(rates);
  }
  Require(!measured.ranks.empty(), "{} has a table [measured] without [[measured.rank]]: run `trireme calibrate` again",
          file.origin());
  return measured;
}

std::string ToToml(const MeasuredRates& measured) {
  std::string text = fmt::format(
      "[measured]\ndate = \"{}\"\nprogram = \"{}\"\nmachine = \"{}\"\nspread = {:.3f}\nstep_us = {:.4g}\nothers = "
      "{:.3f}\n",
      measured.date, measured.program, measured.machine, measured.spread, measured.step / kMicro, measured.others);
  if (measured.pace > 0) {
    text += fmt::format("pace_us = {:.5g}\n", measured.pace / kMicro);
  }
  if (measured.slowest > 0) {
    text += fmt::format("slowest = {:.3f}\nslowest_rank = {}\n", measured.slowest, measured.slowest_rank);
  }
  text += measured.cores > 0 ? fmt::format("cores = {}\n", measured.cores) : "";
  for (const RankRates& rates : measured.ranks) {
    text +=
        fmt::format("\n[[measured.rank]]\ndtype = \"{}\"\nthreads = {}\n", trireme::Name(rates.dtype), rates.threads);
    for (int pass = 0; pass < kProductPasses; ++pass) {
      const ProductLaw& law = rates.products[static_cast<std::size_t>(pass)];
      text +=
          fmt::format("{} = {{ call_us = {:.4g}, gflops = {:.5g}, operands_giga = {:.5g}, results_giga = {:.5g} }}\n",
                      Name(static_cast<ProductPass>(pass)), law.call / kMicro, law.flops / kGiga, law.operands / kGiga,
                      law.results / kGiga);
    }
    for (int work = 0; work < kRankWorks; ++work) {
      text += LawText(kWorkNames[work], rates.works[static_cast<std::size_t>(work)]);
    }
  }
  for (const GroupRates& rates : measured.groups) {
    text += fmt::format("\n[[measured.group]]\ndtype = \"{}\"\nranks = {}\nnodes = {}\n", trireme::Name(rates.dtype),
                        rates.ranks, rates.nodes);
    for (const GroupField& field : kGroupFields) {
      text += LawText(field.name, rates.*field.member);
    }
  }
  return text;
}

}  // namespace trireme
