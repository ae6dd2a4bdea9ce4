#include "data/chat/python_text.h"

#include <unicode/locid.h>
#include <unicode/unistr.h>

#include <algorithm>

#include "base/error.h"
#include "base/json_text.h"
#include "data/tokenizer/utf8.h"

namespace trireme::jinja {
namespace {

// Bytes of the character that starts with this byte; 1 for what is no UTF-8.
std::size_t LengthOf(char first) {
  const auto byte = static_cast<unsigned char>(first);
  if (byte < 0xc0U) {
    return 1;
  }
  return byte < 0xe0U ? 2 : byte < 0xf0U ? 3 : 4;
}

bool IsSpace(std::string_view character) {
  if (character.size() == 1) {
    const auto byte = static_cast<unsigned char>(character[0]);
    return byte == ' ' || (byte >= 9 && byte <= 13) || (byte >= 28 && byte <= 31);
  }
  static constexpr std::string_view kWide[] = {"\u0085", "\u00a0", "\u1680", "\u2000", "\u2001", "\u2002", "\u2003",
                                               "\u2004", "\u2005", "\u2006", "\u2007", "\u2008", "\u2009", "\u200a",
                                               "\u2028", "\u2029", "\u202f", "\u205f", "\u3000"};
  return std::find(std::begin(kWide), std::end(kWide), character) != std::end(kWide);
}

std::string Quoted(const std::string& text) {
  const char quote = text.find('\'') != std::string::npos && text.find('"') == std::string::npos ? '"' : '\'';
  std::string out(1, quote);
  for (const char c : text) {
    switch (c) {
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\\':
        out += "\\\\";
        break;
      default:
        out += c == quote ? std::string("\\") + c : std::string(1, c);
    }
  }
  return out + quote;
}

// repr(value)
std::string Shown(const Value& value) {
  if (value.is_string()) {
    return Quoted(value.get<std::string>());
  }
  if (value.is_array() || value.is_object()) {
    std::string out;
    for (const auto& [key, item] : value.items()) {
      out += out.empty() ? "" : ", ";
      out += value.is_object() ? Quoted(key) + ": " + Shown(item) : Shown(item);
    }
    return value.is_object() ? "{" + out + "}" : "[" + out + "]";
  }
  return PythonText(value);
}

void PutJson(const Value& value, int indent, int depth, std::string& out) {
  if (!(value.is_array() || value.is_object()) || value.empty()) {
    out += JsonText(value);
    return;
  }
  const auto line = [&](int at) {
    if (indent >= 0) {
      out += "\n" + std::string(static_cast<std::size_t>(indent * at), ' ');
    }
  };
  out += value.is_object() ? '{' : '[';
  bool first = true;
  for (const auto& [key, item] : value.items()) {
    out += first ? "" : indent >= 0 ? "," : ", ";
    first = false;
    line(depth + 1);
    if (value.is_object()) {
      out += JsonText(Value(key)) + ": ";
    }
    PutJson(item, indent, depth + 1, out);
  }
  line(depth);
  out += value.is_object() ? '}' : ']';
}

}  // namespace

bool IsTrue(const Value& value) {
  switch (value.type()) {
    case Value::value_t::boolean:
      return value.get<bool>();
    case Value::value_t::string:
      return !value.get_ref<const std::string&>().empty();
    case Value::value_t::array:
    case Value::value_t::object:
      return !value.empty();
    case Value::value_t::number_integer:
    case Value::value_t::number_unsigned:
      return value.get<std::int64_t>() != 0;
    case Value::value_t::number_float:
      return value.get<double>() != 0;
    default:
      return false;
  }
}

std::string PythonText(const Value& value) {
  if (value.is_discarded()) {
    return "";
  }
  if (value.is_string()) {
    return value.get<std::string>();
  }
  if (value.is_null()) {
    return "None";
  }
  if (value.is_boolean()) {
    return value.get<bool>() ? "True" : "False";
  }
  return value.is_array() || value.is_object() ? Shown(value) : JsonText(value);
}

std::string PythonJson(const Value& value, int indent) {
  std::string out;
  PutJson(value, indent, 0, out);
  return out;
}

std::vector<std::string> Characters(std::string_view text) {
  std::vector<std::string> characters;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = std::min(LengthOf(text[at]), text.size() - at);
    characters.emplace_back(text.substr(at, length));
    at += length;
  }
  return characters;
}

std::string Strip(std::string_view text, Side side, const std::optional<std::string>& set) {
  const std::vector<std::string> characters = Characters(text);
  const std::vector<std::string> own = set.has_value() ? Characters(*set) : std::vector<std::string>();
  const auto goes = [&](const std::string& character) {
    return set.has_value() ? std::find(own.begin(), own.end(), character) != own.end() : IsSpace(character);
  };
  auto begin = characters.begin();
  auto end = characters.end();
  while (side != Side::kRight && begin != end && goes(*begin)) {
    ++begin;
  }
  while (side != Side::kLeft && begin != end && goes(*(end - 1))) {
    --end;
  }
  std::string out;
  std::for_each(begin, end, [&](const std::string& character) { out += character; });
  return out;
}

std::vector<std::string> Split(std::string_view text, const std::optional<std::string>& separator, std::int64_t most) {
  std::vector<std::string> parts;
  if (separator.has_value()) {
    Require(!separator->empty(), "a chat template splits by an empty text");
    while (most < 0 || static_cast<std::int64_t>(parts.size()) < most) {
      const std::size_t found = text.find(*separator);
      if (found == std::string_view::npos) {
        break;
      }
      parts.emplace_back(text.substr(0, found));
      text.remove_prefix(found + separator->size());
    }
    parts.emplace_back(text);
    return parts;
  }
  std::string rest = Strip(text, Side::kLeft, std::nullopt);
  while (!rest.empty()) {
    if (most >= 0 && static_cast<std::int64_t>(parts.size()) == most) {
      parts.push_back(Strip(rest, Side::kRight, std::nullopt));
      break;
    }
    std::string word;
    for (const std::string& character : Characters(rest)) {
      if (IsSpace(character)) {
        break;
      }
      word += character;
    }
    parts.push_back(word);
    rest = Strip(std::string_view(rest).substr(word.size()), Side::kLeft, std::nullopt);
  }
  return parts;
}

std::string Replace(std::string_view text, std::string_view from, std::string_view to) {
  Require(!from.empty(), "a chat template replaces an empty text");
  return ReplaceAll(text, from, to);
}

std::string Upper(std::string_view text) {
  std::string out;
  icu::UnicodeString::fromUTF8(icu::StringPiece(text.data(), static_cast<std::int32_t>(text.size())))
      .toUpper(icu::Locale::getRoot())
      .toUTF8String(out);
  return out;
}

std::string Lower(std::string_view text) {
  std::string out;
  icu::UnicodeString::fromUTF8(icu::StringPiece(text.data(), static_cast<std::int32_t>(text.size())))
      .toLower(icu::Locale::getRoot())
      .toUTF8String(out);
  return out;
}

}  // namespace trireme::jinja
