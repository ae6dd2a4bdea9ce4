// Files that must survive a kill and a power cut: written once, synced, given their final name by rename. Every failure
// is an Error with the path and the system's reason. Nothing here keeps state beyond the objects themselves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace trireme {

// A new file, written from its start without a buffer: hand over large pieces. The descriptor is closed with the
// object; only Close() says that everything reached the disk.
class DurableFile {
 public:
  // The file must not exist; symbolic links are not followed.
  explicit DurableFile(std::string path);
  ~DurableFile();
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;

  const std::string& path() const { return path_; }
  // Bytes appended so far.
  std::int64_t size() const { return size_; }
  void Append(std::span<const std::byte> bytes);
  void Append(std::string_view text) { Append(std::as_bytes(std::span(text))); }
  // Replaces bytes that were appended before.
  void Overwrite(std::int64_t offset, std::string_view text);
  // What was written so far survives a power cut once this returns (its name may still not: SyncDirectory).
  void Sync();
  // Sync() and close. Also asks the system to forget its cached pages of the file, so that reading it back asks the
  // disk and writing it has not driven other pages out.
  void Close();

 private:
  void WriteAt(std::int64_t offset, std::span<const std::byte> bytes);

  std::string path_;
  int descriptor_ = -1;
  std::int64_t size_ = 0;
};

// Names created, renamed or removed in the directory survive a power cut once this returns.
void SyncDirectory(const std::string& path);
// Makes the directory and its parents; nothing happens when it is there.
void MakeDirectories(const std::string& path);
// An Error when a symbolic link has this name: what is written to a folder of a run goes nowhere else.
void RefuseLink(const std::string& path);
// What a directory is called while another takes its name, where the file system cannot exchange names in one step: a
// crash between the two renames leaves the directory so. Its owner looks for that name when it starts.
inline constexpr char kReplacedSuffix[] = ".replaced.tmp";
// Gives a synced file or directory its final name and syncs the directory that holds it: in one step, or, where a
// directory has the name and the file system cannot exchange names, in two (see above). A directory that has the name
// already is replaced and removed.
void MoveIntoPlace(const std::string& from, const std::string& to);
// Moves to a name that must be free: what has it already is an Error and stays as it is.
void MoveToFreeName(const std::string& from, const std::string& to);
// A new, empty folder beside `path`: `path` + ".tmp-" and letters that no other name has. It belongs to this call
// alone.
std::string MakeTemporaryFolder(const std::string& path);
// Gives `path` this content in one step: a reader sees the old one or the new one. A symbolic link of that name is
// replaced, not followed; the temporary name is this call's alone. New files and folders are as the umask says.
void ReplaceFile(const std::string& path, std::string_view content);
// Removes a file or a tree, as far as it can; false when something is left. Symbolic links are removed, not followed.
bool RemoveTree(const std::string& path);
// A whole regular file that is no symbolic link; longer than `most` bytes is an Error.
std::string ReadWholeFile(const std::string& path, std::int64_t most);
// Whether nothing has this name. False where the file system does not answer: it has lost nothing.
bool IsGone(const std::string& path);
// Bytes that this user may still write on the file system of `path`, or of the nearest folder above that is there; -1
// when it does not say.
std::int64_t FreeBytes(const std::string& path);

}  // namespace trireme
