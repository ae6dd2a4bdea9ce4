// Parts of a block's and the head's seconds by the rates of a cluster file and a stack's efficiencies: what
// CountedPrices and PublishedPrices share.
#pragma once

#include "planner/pricing/context_time.h"
#include "planner/pricing/module_time.h"

namespace trireme {

// Seconds of kernels that only move data.
double MemorySeconds(const PlanPoint& point, double bytes);
// Seconds of collectives within a layer: in any group, and in the tensor group.
double GroupSeconds(const PlanPoint& point, const Traffic& traffic, const GroupPlacement& group);
double TensorSeconds(const PlanPoint& point, const Traffic& traffic);
// Whether a program's fused softmax takes the layout. Megatron's needs heads of a rank times micro batch to be a
// multiple of four, and falls back to separate kernels (is_kernel_available of its fused_softmax.py).
bool FusesSoftmax(const PlanPoint& point);
// Fused attention skips what the mask hides and pays half a forward more in backward; unfused attention computes all
// pairs and moves every score through memory. exchange: of keys and values, hidden behind fused attention.
AttentionSeconds TimeOfAttention(const PlanPoint& point, const LocalSizes& sizes, double exchange);

// Added to `time`: the products of each pass, recomputation left out and, unless `with_experts`, those of experts
// (returns the seconds of forward's last one); casts
// of what enters them to 8 bits or fewer; collectives of the tensor group; what the host's launches show of themselves.
// cost: of the block. second_forward: whether backward issues the collectives of forward's last product once more.
double AddProducts(const PlanPoint& point, const ModuleProgram& program, bool with_experts, ModuleTime& time);
void AddCasts(const PlanPoint& point, const LocalSizes& sizes, ModuleTime& time);
void AddTensor(const PlanPoint& point, const ModuleCost& cost, ModuleTime& time);
void AddHost(const PlanPoint& point, const LocalSizes& sizes, const ModuleCost& cost, bool second_forward,
             ModuleTime& time);

// Seconds per micro batch for so many parameters: gradients are added up on the device, or go to the host where the
// program keeps its optimizer there.
double AddedGradients(const PlanPoint& point, double parameters);
double HostGradients(const PlanPoint& point, double parameters);

// Products of the head in forward, and of both gradients.
struct HeadProducts {
  double forward = 0;
  double backward = 0;
};
HeadProducts ProductsOfHead(const PlanPoint& point, const LocalSizes& sizes);

}  // namespace trireme
