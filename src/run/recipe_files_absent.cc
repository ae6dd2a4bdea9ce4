// In place of recipe_files.cc in the planner's page, which has no file system.
#include "base/error.h"
#include "run/recipe_settings.h"

namespace trireme {

ModelFile ReadPreset(const Setting& preset, const std::string& /*models_folder*/, const std::string& /*origin*/) {
  Fail("{}: model.preset names a file, which this page cannot read; choose the model from the page's list",
       preset.place);
}

}  // namespace trireme
