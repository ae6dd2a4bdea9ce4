// GPT-2's way of writing any bytes as printable text: each byte is one character (space is 'Ġ', line feed 'Ċ', most of
// ASCII is itself), so that vocabularies are readable JSON.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace trireme {

// The character of each byte.
const std::array<char32_t, 256>& ByteCharacters();
std::string BytesToText(std::string_view bytes);
// Inverse. Text with any character outside the alphabet stays as it is, as Hugging Face's decoder has it.
std::string TextToBytes(std::string_view text);

}  // namespace trireme
