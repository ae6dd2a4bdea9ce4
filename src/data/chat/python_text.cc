#include "data/chat/python_text.h"

#include <unicode/locid.h>
#include <unicode/unistr.h>

#include <algorithm>
#include <cstring>

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

void PutQuoted(const std::string& text, std::string& out) {
  const char quote = text.find('\'') != std::string::npos && text.find('"') == std::string::npos ? '"' : '\'';
  out += quote;
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
        if (c == quote) {
          out += '\\';
        }
        out += c;
    }
  }
  out += quote;
}

// repr(value)
void PutShown(const Value& value, std::string& out) {
  if (value.is_string()) {
    PutQuoted(value.get_ref<const std::string&>(), out);
    return;
  }
  if (!value.is_array() && !value.is_object()) {
    out += PythonText(value);
    return;
  }
  out += value.is_object() ? '{' : '[';
  bool first = true;
  for (const auto& [key, item] : value.items()) {
    out += first ? "" : ", ";
    first = false;
    if (value.is_object()) {
      PutQuoted(key, out);
      out += ": ";
    }
    PutShown(item, out);
  }
  out += value.is_object() ? '}' : ']';
}

class JsonWriter {
 public:
  JsonWriter(std::optional<std::size_t> indent, Work& work) : indent_(indent), work_(work) {}

  std::string Write(const Value& value) {
    Put(value, 0);
    return std::move(out_);
  }

 private:
  void Put(const Value& value, std::size_t depth) {
    if (!(value.is_array() || value.is_object()) || value.empty()) {
      out_ += JsonText(value);
      return;
    }
    out_ += value.is_object() ? '{' : '[';
    bool first = true;
    for (const auto& [key, item] : value.items()) {
      out_ += first ? "" : indent_.has_value() ? "," : ", ";
      first = false;
      StartLine(depth + 1);
      if (value.is_object()) {
        out_ += JsonText(Value(key)) + ": ";
      }
      Put(item, depth + 1);
    }
    StartLine(depth);
    out_ += value.is_object() ? '}' : ']';
  }

  void StartLine(std::size_t depth) {
    if (indent_.has_value()) {
      work_.Take(*indent_, depth);
      out_ += '\n';
      out_.append(*indent_ * depth, ' ');
    }
  }

  std::optional<std::size_t> indent_;
  Work& work_;
  std::string out_;
};

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
    case Value::value_t::null:
    case Value::value_t::binary:
    case Value::value_t::discarded:
      return false;
  }
  return false;
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
  if (value.is_array() || value.is_object()) {
    std::string out;
    PutShown(value, out);
    return out;
  }
  return JsonText(value);
}

std::string PythonJson(const Value& value, std::optional<std::size_t> indent, Work& work) {
  return JsonWriter(indent, work).Write(value);
}

std::string_view FirstCharacter(std::string_view text) {
  return text.substr(0, std::min(LengthOf(text[0]), text.size()));
}

std::vector<std::string_view> Characters(std::string_view text) {
  std::vector<std::string_view> characters;
  while (!text.empty()) {
    characters.push_back(FirstCharacter(text));
    text.remove_prefix(characters.back().size());
  }
  return characters;
}

std::size_t CountCharacters(std::string_view text) {
  std::size_t count = 0;
  for (; !text.empty(); ++count) {
    text.remove_prefix(FirstCharacter(text).size());
  }
  return count;
}

std::string Strip(std::string_view text, Side side, const std::optional<std::string>& set) {
  const std::vector<std::string_view> own = set.has_value() ? Characters(*set) : std::vector<std::string_view>();
  const auto goes = [&](std::string_view character) {
    return set.has_value() ? std::find(own.begin(), own.end(), character) != own.end() : IsSpace(character);
  };
  while (side != Side::kRight && !text.empty() && goes(FirstCharacter(text))) {
    text.remove_prefix(FirstCharacter(text).size());
  }
  if (side != Side::kLeft) {
    std::size_t kept = 0;  // up to the last character that stays
    for (std::size_t at = 0; at < text.size();) {
      const std::string_view character = FirstCharacter(text.substr(at));
      at += character.size();
      kept = goes(character) ? kept : at;
    }
    text = text.substr(0, kept);
  }
  return std::string(text);
}

std::vector<std::string> Split(std::string_view text, const std::optional<std::string>& separator, std::int64_t most,
                               Work& work) {
  std::vector<std::string> parts;
  const auto full = [&] { return most >= 0 && static_cast<std::int64_t>(parts.size()) >= most; };
  const auto add = [&](std::string_view part) {
    work.Take(sizeof(std::string) + part.size());
    parts.emplace_back(part);
  };
  if (separator.has_value()) {
    if (separator->empty()) {
      work.Refuse("splits by an empty text");
    }
    std::size_t found = 0;
    while (!full() && (found = Find(text, *separator)) != std::string_view::npos) {
      add(text.substr(0, found));
      text.remove_prefix(found + separator->size());
    }
    add(text);
    return parts;
  }
  while (true) {
    while (!text.empty() && IsSpace(FirstCharacter(text))) {
      text.remove_prefix(FirstCharacter(text).size());
    }
    if (text.empty()) {
      return parts;
    }
    if (full()) {
      add(Strip(text, Side::kRight, std::nullopt));
      return parts;
    }
    std::size_t length = 0;
    while (length < text.size() && !IsSpace(FirstCharacter(text.substr(length)))) {
      length += FirstCharacter(text.substr(length)).size();
    }
    add(text.substr(0, length));
    text.remove_prefix(length);
  }
}

std::string Replace(std::string_view text, std::string_view from, std::string_view to, Work& work) {
  if (from.empty()) {
    work.Refuse("replaces an empty text");
  }
  std::string out;
  for (std::size_t found = 0; (found = Find(text, from)) != std::string_view::npos;) {
    work.Take(found + to.size());
    out += text.substr(0, found);
    out += to;
    text.remove_prefix(found + from.size());
  }
  work.Take(text.size());
  return out += text;
}

std::size_t Find(std::string_view text, std::string_view part, std::size_t begin) {
  const void* found = memmem(text.data() + begin, text.size() - begin, part.data(), part.size());
  return found == nullptr ? std::string_view::npos
                          : static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
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
