// Text for a terminal. What files, folders and other machines say may hold sequences that move the cursor, colour, or
// hide what follows; every Error and every report of the program is cleaned here before it is printed.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace trireme {

// `text` with control characters (but for line ends and tabs) and marks that turn the direction of writing as \u001b,
// which leaves JSON what it is, and with bytes that are no UTF-8 as \x9b.
std::string PlainText(std::string_view text);
// Also writes out line ends and tabs: for a name or a value within a line.
std::string PlainLine(std::string_view text);
// Prints PlainText(text).
void Print(std::FILE* stream, std::string_view text);

}  // namespace trireme
