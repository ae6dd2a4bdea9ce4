#include "data/tokenizer/text_normalizer.h"

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/uniset.h>

#include <algorithm>

#include "base/error.h"

namespace trireme {
namespace {

const icu::Normalizer2& Instance(NormalForm form) {
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* instance = nullptr;
  switch (form) {
    case NormalForm::kNfc:
      instance = icu::Normalizer2::getNFCInstance(status);
      break;
    case NormalForm::kNfd:
      instance = icu::Normalizer2::getNFDInstance(status);
      break;
    case NormalForm::kNfkc:
      instance = icu::Normalizer2::getNFKCInstance(status);
      break;
    case NormalForm::kNfkd:
      instance = icu::Normalizer2::getNFKDInstance(status);
      break;
  }
  Require(U_SUCCESS(status), "ICU has no normaliser: {}", u_errorName(status));
  return *instance;
}

icu::UnicodeSet CharactersOfUnicode9() {
  UErrorCode status = U_ZERO_ERROR;
  icu::UnicodeSet set(icu::UnicodeString(u"[:age=9.0:]"), status);
  Require(U_SUCCESS(status), "ICU does not know the age of characters: {}", u_errorName(status));
  set.freeze();
  return set;
}

}  // namespace

struct TextNormalizer::Forms {
  icu::UnicodeSet known = CharactersOfUnicode9();
  std::vector<std::unique_ptr<icu::FilteredNormalizer2>> list;
};

TextNormalizer::TextNormalizer(const std::vector<NormalForm>& forms) {
  if (!forms.empty()) {
    forms_ = std::make_unique<Forms>();
  }
  for (const NormalForm form : forms) {
    forms_->list.push_back(std::make_unique<icu::FilteredNormalizer2>(Instance(form), forms_->known));
  }
}

TextNormalizer::~TextNormalizer() = default;

bool TextNormalizer::empty() const { return forms_ == nullptr; }

std::string TextNormalizer::operator()(std::string_view text) const {
  std::string current(text);
  if (empty() || std::all_of(text.begin(), text.end(), [](char c) { return static_cast<signed char>(c) >= 0; })) {
    return current;
  }
  for (const auto& form : forms_->list) {
    std::string normal;
    icu::StringByteSink<std::string> sink(&normal);
    UErrorCode status = U_ZERO_ERROR;
    form->normalizeUTF8(0, icu::StringPiece(current.data(), static_cast<std::int32_t>(current.size())), sink, nullptr,
                        status);
    Require(U_SUCCESS(status), "cannot normalise {} bytes of text: {}", current.size(), u_errorName(status));
    current = std::move(normal);
  }
  return current;
}

}  // namespace trireme
