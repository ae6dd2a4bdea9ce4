// Many questions at once: cases that differ in some settings, each priced as one row of a table.
#pragma once

#include <string>
#include <vector>

#include "planner/queries/plan_answer.h"
#include "planner/queries/run_table.h"
#include "run/case_list.h"

namespace trireme {

// What a case is asked with: options of `trireme plan` by their names, and the files that it names.
struct CaseQuestion {
  std::string model, cluster, stack;
  ShapeOptions shape;
  PlanOptions options;
};

// `base` with the settings of a case: options of `plan` by name (nodes, global-batch or batch, tokens, layout, fix …),
// model, cluster and stack, and words of a layout (mbs, tp, zero …), which are added to the layout, or held where there
// is none. "label" is for people. An Error names the nearest known setting.
CaseQuestion WithSettings(const CaseQuestion& base, const CaseSettings& settings);

// The layout that is asked for, or the fastest, or with max_size the largest model: what it takes, or why there is
// none. A layout without dp has as many replicas as the devices hold.
RunRow PlanCase(const PlanSubject& subject, const PlanOptions& options);

}  // namespace trireme
