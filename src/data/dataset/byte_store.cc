#include <algorithm>
#include <array>

#include "base/error.h"
#include "data/dataset/token_store.h"
#include "data/files/input_file.h"

namespace trireme {
namespace {

class ByteStore final : public TokenStore {
 public:
  explicit ByteStore(const std::string& path) : file_(path) { Require(file_.size() > 0, "'{}' is empty", path); }

  const std::string& path() const override { return file_.path(); }
  std::int64_t tokens() const override { return file_.size(); }
  std::int64_t documents() const override { return 1; }
  std::int64_t token_limit() const override { return 256; }

  void Read(std::int64_t first, std::span<std::int32_t> out) const override {
    std::array<std::byte, 4096> buffer;
    for (std::size_t done = 0; done < out.size();) {
      const std::size_t count = std::min(buffer.size(), out.size() - done);
      file_.Read(first + static_cast<std::int64_t>(done), std::span(buffer).first(count));
      std::transform(buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(count),
                     out.begin() + static_cast<std::ptrdiff_t>(done),
                     [](std::byte value) { return static_cast<std::int32_t>(value); });
      done += count;
    }
  }

  std::int64_t DocumentStart(std::int64_t) const override { return 0; }
  std::vector<std::int64_t> DocumentStartsBetween(std::int64_t, std::int64_t) const override { return {}; }

 private:
  InputFile file_;
};

}  // namespace

std::unique_ptr<TokenStore> OpenByteStore(const std::string& path) { return std::make_unique<ByteStore>(path); }

}  // namespace trireme
