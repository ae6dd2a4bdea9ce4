// Text within HTML and SVG.
#pragma once

#include <string>
#include <string_view>

namespace trireme {

// `text` with the characters that mark up written as entities and control characters as spaces: for content and for
// values of attributes.
std::string MarkupText(std::string_view text);

}  // namespace trireme
