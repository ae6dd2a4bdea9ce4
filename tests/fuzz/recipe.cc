#include "fuzz/fuzz_input.h"
#include "run/run_config.h"

// The first line is an override as --set takes it, the rest the recipe.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trireme;
  return Tolerate([&] {
    const std::string text(FuzzInput(data, size).Rest());
    const std::size_t line = text.find('\n');
    std::vector<std::string> overrides;
    if (line != std::string::npos && line > 0) {
      overrides.push_back(text.substr(0, line));
    }
    // Presets would be read from a folder that is not part of the input.
    const Recipe recipe = ParseRecipe(line == std::string::npos ? text : text.substr(line + 1), "input", overrides,
                                      {.models_folder = "/nonexistent"});
    if (ParseRecipe(ToToml(recipe.config), "again", {}, {.models_folder = "/nonexistent"}).config != recipe.config) {
      __builtin_trap();
    }
    Flatten(recipe.config);
    Validate(recipe.config, 0);
  });
}
