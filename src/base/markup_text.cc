#include "base/markup_text.h"

namespace trireme {

std::string MarkupText(std::string_view text) {
  std::string safe;
  for (const char letter : text) {
    switch (letter) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      case '\'':
        safe += "&#39;";
        break;
      default:
        safe += static_cast<unsigned char>(letter) < 32 ? ' ' : letter;
    }
  }
  return safe;
}

}  // namespace trireme
