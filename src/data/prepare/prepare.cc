#include "data/prepare/prepare.h"

#include <sys/stat.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <thread>

#include "base/checksum.h"
#include "base/error.h"
#include "data/dataset/indexed_dataset_writer.h"
#include "data/prepare/batch_encoder.h"
#include "data/prepare/ordered_pipeline.h"
#include "data/prepare/prepare_journal.h"
#include "data/tokenizer/tokenizer_folder.h"

namespace trireme {
namespace {

std::string Fingerprint(const std::vector<std::string>& paths, const PrepareOptions& options,
                        const Tokenizer& tokenizer) {
  Hasher hasher;
  hasher.AddText(tokenizer.description());
  hasher.AddText(options.json_field);
  hasher.AddNumber(static_cast<int>(options.format));
  hasher.AddNumber(options.append_end_of_text ? 1 : 0);
  hasher.AddNumber(options.parse_special ? 1 : 0);
  if (options.skip_damaged) {  // journals of before the option stay good
    hasher.AddText("skip_damaged");
  }
  for (const std::string& path : paths) {
    struct stat status {};
    Require(::stat(path.c_str(), &status) == 0, "cannot read '{}'", path);
    hasher.AddText(path);
    hasher.AddNumber(status.st_size);
    hasher.AddNumber(status.st_mtim.tv_sec);
    hasher.AddNumber(status.st_mtim.tv_nsec);
  }
  return ToHex(hasher.digest());
}

bool IsChat(const PrepareOptions& options) { return options.format == TextFormat::kChat; }

// One preparation: where it starts, and what happens to each encoded batch.
class Preparation {
 public:
  Preparation(const PrepareOptions& options, const PrepareCallback& progress)
      : options_(options),
        report_(progress),
        tokenizer_(LoadTokenizer(options.tokenizer, {.parse_special = options.parse_special || IsChat(options)})),
        paths_(ExpandPatterns(options.inputs)),
        journal_path_(options.output + ".journal") {
    Require(!options.output.empty(), "no output: name the prefix of the .bin and .idx files");
    journal_.fingerprint = Fingerprint(paths_, options, *tokenizer_);
    rules_.json_field = !options.json_field.empty() ? options.json_field : IsChat(options) ? "messages" : "text";
    if (IsChat(options)) {
      chat_ = ChatTemplate::Load(options.tokenizer);
      rules_.chat = &*chat_;
    }
    rules_.skip_damaged = options.skip_damaged;
    if (options.append_end_of_text) {
      rules_.end_of_text = tokenizer_->end_of_text();
    }
    for (const std::string& path : paths_) {
      progress_.total_bytes += static_cast<std::int64_t>(std::filesystem::file_size(path));
    }
    progress_.total_files = static_cast<std::int64_t>(paths_.size());
    FindStart();
  }

  PrepareSummary Run() {
    const auto begin = std::chrono::steady_clock::now();
    const TokenKind kind = TokenKindFor(tokenizer_->vocabulary());
    IndexedDatasetWriter writer(options_.output, kind, journal_.extent);
    WriteJournal(journal_path_, journal_);
    BatchReader reader(paths_, options_.format, journal_.position);
    OrderedPipeline<TextBatch, EncodedBatch> pipeline({
        .produce = [&] { return reader.Next(); },
        .work = [&](const TextBatch& batch) { return EncodeBatch(batch, PathOf(batch), *tokenizer_, rules_); },
        .consume = [&](const TextBatch& batch, EncodedBatch& encoded) { Write(batch, encoded, writer); },
    });
    const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    pipeline.Run(options_.threads > 0 ? options_.threads : cores);
    summary_.documents = writer.state().documents;
    summary_.sequences = writer.state().sequences;
    summary_.tokens = writer.state().tokens;
    summary_.vocabulary = tokenizer_->vocabulary();
    CopyTokenizer(options_.tokenizer, TokenizerFolderOf(options_.output));
    writer.Finish();
    std::remove(journal_path_.c_str());
    summary_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return summary_;
  }

  // After a failure: what can be gone on from stays, anything less is of no use.
  void LeaveNothingUseless() const {
    if (journal_.extent == DatasetExtent{}) {
      IndexedDatasetWriter::RemovePartialFiles(options_.output);
      std::remove(journal_path_.c_str());
    }
  }

 private:
  const std::string& PathOf(const TextBatch& batch) const { return paths_[static_cast<std::size_t>(batch.begin.file)]; }

  void FindStart() {
    const auto earlier = options_.overwrite ? std::nullopt : ReadJournal(journal_path_);
    if (!earlier.has_value()) {
      Require(options_.overwrite || !std::filesystem::exists(options_.output + ".idx"),
              "'{}.idx' exists: choose another --output, or replace it with --overwrite", options_.output);
      return;
    }
    if (earlier->extent == DatasetExtent{}) {
      return;  // nothing is lost by beginning again, whatever it was
    }
    Require(earlier->fingerprint == journal_.fingerprint,
            "'{}' is of a preparation of other inputs, options or tokenizer: finish that one, or replace it with "
            "--overwrite",
            journal_path_);
    Require(earlier->position.file <= static_cast<std::int64_t>(paths_.size()), "'{}' is beyond the {} input files",
            journal_path_, paths_.size());
    // The partial files go away between the last batch and the removal of the journal: then all is done again.
    if (std::filesystem::exists(options_.output + ".bin.partial")) {
      journal_ = *earlier;
      summary_.resumed = true;
    }
  }

  void Write(const TextBatch& batch, EncodedBatch& encoded, IndexedDatasetWriter& writer) {
    std::span<const std::int32_t> rest = encoded.tokens;
    std::size_t ended = 0;
    const auto end_documents = [&](std::size_t sequences) {
      while (ended < encoded.document_ends.size() &&
             encoded.document_ends[ended] == static_cast<std::int64_t>(sequences)) {
        writer.EndDocument();
        ++ended;
      }
    };
    end_documents(0);
    for (std::size_t i = 0; i < encoded.lengths.size(); ++i) {
      writer.AddSequence(rest.first(static_cast<std::size_t>(encoded.lengths[i])));
      rest = rest.subspan(static_cast<std::size_t>(encoded.lengths[i]));
      end_documents(i + 1);
    }
    summary_.text_bytes += encoded.text_bytes;
    summary_.damaged.Add(encoded.damaged);
    since_checkpoint_ += encoded.text_bytes;
    if (since_checkpoint_ >= options_.checkpoint_bytes) {
      journal_.extent = writer.Checkpoint();
      journal_.position = batch.end;
      WriteJournal(journal_path_, journal_);
      since_checkpoint_ = 0;
    }
    progress_.stored_bytes = batch.stored_bytes;
    progress_.files = batch.end.file;
    progress_.documents = writer.state().documents;
    progress_.tokens = writer.state().tokens;
    if (report_) {
      report_(progress_);
    }
  }

  const PrepareOptions& options_;
  const PrepareCallback& report_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::vector<std::string> paths_;
  std::string journal_path_;
  PrepareJournal journal_;
  std::optional<ChatTemplate> chat_;
  EncodeRules rules_;
  PrepareProgress progress_;
  PrepareSummary summary_;
  std::int64_t since_checkpoint_ = 0;
};

}  // namespace

PrepareSummary PrepareDataset(const PrepareOptions& options, const PrepareCallback& progress) {
  Preparation preparation(options, progress);
  try {
    return preparation.Run();
  } catch (const std::exception&) {
    preparation.LeaveNothingUseless();
    throw;
  }
}

}  // namespace trireme
