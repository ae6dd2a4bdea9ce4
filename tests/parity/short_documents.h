// A dataset of short documents for laws about masks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/random.h"
#include "data/dataset/indexed_dataset_writer.h"
#include "scratch_directory.h"

namespace trireme::parity {

// Documents of 1 to 9 tokens: every sample holds several, most of them across chunks of the context axis; the last
// window is short. The path of the dataset, in `folder`.
inline std::string ShortDocuments(const ScratchDirectory& folder, std::int32_t documents = 100) {
  IndexedDatasetWriter writer(folder / "documents", TokenKind::kUInt16);
  for (std::int32_t document = 0; document < documents; ++document) {
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(1 + document * 5 % 9));
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = static_cast<std::int32_t>(RandomBelow(3, static_cast<std::uint64_t>(document) * 16 + i, 90));
    }
    writer.AddSequence(tokens);
    writer.EndDocument();
  }
  writer.Finish();
  return folder / "documents.bin";
}

}  // namespace trireme::parity
