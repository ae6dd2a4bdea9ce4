// The file of a SentencePiece model, checked before the library sees it: the library follows the tables of the model's
// character map without looking where they lead.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace trireme {

// Field numbers of sentencepiece_model.proto: of a model, and of its normalizer.
inline constexpr std::uint64_t kPieceField = 1;
inline constexpr std::uint64_t kTrainerField = 2;
inline constexpr std::uint64_t kNormalizerField = 3;
inline constexpr std::uint64_t kDenormalizerField = 5;
inline constexpr std::uint64_t kCharacterMapField = 2;

// A field of a protocol buffer: a number, or bytes.
struct ProtoField {
  std::uint64_t number = 0;
  std::uint64_t value = 0;
  std::string_view bytes;
};

// Reads the fields of a message one after another. What is cut short, or a kind of field that no such model has, is an
// Error: the library might read it otherwise.
class ProtoReader {
 public:
  explicit ProtoReader(std::string_view text) : rest_(text) {}

  bool Next(ProtoField& field);

 private:
  std::uint64_t Varint();
  std::string_view Take(std::uint64_t count);

  std::string_view rest_;
};

// The last field `number` of the messages `message` of a model, or `otherwise`.
ProtoField InnerField(std::string_view model, std::uint64_t message, std::uint64_t number, ProtoField otherwise);
std::uint64_t InnerNumber(std::string_view model, std::uint64_t message, std::uint64_t number, std::uint64_t otherwise);

// An Error unless `model` is a message whose character maps (precompiled_charsmap) lead nowhere outside of themselves.
// `origin` names it.
void RequireSoundSentencePieceModel(std::string_view model, const std::string& origin);
// The text of such a file.
std::string ReadSentencePieceModel(const std::string& path);

}  // namespace trireme
