// The files of a tokenizer, as a set that travels with datasets, runs and models.
#pragma once

#include <string>

namespace trireme {

// The file in `folder` that LoadTokenizer would read; empty when there is none.
std::string FindTokenizer(const std::string& folder);

// Whether a tokenizer may be copied through symbolic links. A folder that came from elsewhere, such as a run, could
// name any file of the machine by them.
enum class Links { kFollowed, kRefused };

// Copies the tokenizer at `path` (a file or a directory, as LoadTokenizer takes it) and the files that belong to it
// into `folder`, which is made, under the names that LoadTokenizer looks for. Nothing happens for "bytes", or when it
// lies there already. An Error names a link that is refused.
void CopyTokenizer(const std::string& path, const std::string& folder, Links links = Links::kFollowed);

// Whether two folders hold the same tokenizer, file by file.
bool SameTokenizer(const std::string& folder, const std::string& other);

// The folder that goes with the dataset PREFIX.bin: PREFIX.tokenizer.
std::string TokenizerFolderOf(const std::string& prefix);

}  // namespace trireme
