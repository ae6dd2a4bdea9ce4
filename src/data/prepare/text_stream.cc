#include "data/prepare/text_stream.h"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/error.h"
#include "data/files/input_file.h"

namespace trireme {
namespace {

constexpr std::size_t kChunk = 1 << 18;

class PlainStream final : public TextStream {
 public:
  explicit PlainStream(const std::string& path) : file_(path) {}
  std::size_t Read(std::span<char> out) override {
    const auto count = std::min(static_cast<std::int64_t>(out.size()), file_.size() - position_);
    file_.Read(position_, std::as_writable_bytes(out.first(static_cast<std::size_t>(count))));
    position_ += count;
    return static_cast<std::size_t>(count);
  }
  void Skip(std::int64_t bytes) override {
    Require(bytes <= file_.size() - position_, "'{}' ends at byte {}, before {}", file_.path(), file_.size(),
            position_ + bytes);
    position_ += bytes;
  }
  std::int64_t stored_position() const override { return position_; }

 private:
  InputFile file_;
  std::int64_t position_ = 0;
};

// What gzip and Zstandard have in common: stored chunks in, text out, frame after frame until the file ends.
class PackedStream : public TextStream {
 public:
  explicit PackedStream(const std::string& path) : file_(path), stored_(kChunk) {}

  std::size_t Read(std::span<char> out) final {
    std::size_t filled = 0;
    while (filled < out.size()) {
      if (pending_.empty()) {
        Refill();
      }
      if (pending_.empty() && between_frames_) {
        break;
      }
      const std::size_t pending_before = pending_.size();
      const std::size_t made = Unpack(out.subspan(filled));
      filled += made;
      Require(made > 0 || pending_.size() < pending_before || !pending_.empty() || position_ < file_.size(),
              "'{}' ends inside its compressed data, after {} bytes", file_.path(), position_);
    }
    return filled;
  }

  void Skip(std::int64_t bytes) final {
    std::vector<char> dropped(kChunk);
    while (bytes > 0) {
      const auto want = std::min<std::int64_t>(bytes, static_cast<std::int64_t>(dropped.size()));
      const std::size_t got = Read(std::span(dropped).first(static_cast<std::size_t>(want)));
      Require(static_cast<std::int64_t>(got) == want, "the text of '{}' ends {} bytes early", file_.path(),
              bytes - static_cast<std::int64_t>(got));
      bytes -= want;
    }
  }

  std::int64_t stored_position() const final { return position_ - static_cast<std::int64_t>(pending_.size()); }

 protected:
  // Unpacks from pending_ (dropping what it used) into `out`; sets between_frames_. Returns the bytes made.
  virtual std::size_t Unpack(std::span<char> out) = 0;

  InputFile file_;
  std::span<const std::byte> pending_;
  bool between_frames_ = true;

 private:
  void Refill() {
    const auto count = std::min<std::int64_t>(kChunk, file_.size() - position_);
    const auto chunk = std::span(stored_).first(static_cast<std::size_t>(count));
    file_.Read(position_, chunk);
    position_ += count;
    pending_ = chunk;
  }

  std::vector<std::byte> stored_;
  std::int64_t position_ = 0;
};

class GzipStream final : public PackedStream {
 public:
  explicit GzipStream(const std::string& path) : PackedStream(path) {
    Require(inflateInit2(&state_, 16 + MAX_WBITS) == Z_OK, "zlib cannot start on '{}'", path);
  }
  ~GzipStream() override { inflateEnd(&state_); }

 private:
  std::size_t Unpack(std::span<char> out) override {
    if (between_frames_) {
      inflateReset(&state_);
      between_frames_ = false;
    }
    state_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(pending_.data()));
    state_.avail_in = static_cast<uInt>(pending_.size());
    state_.next_out = reinterpret_cast<Bytef*>(out.data());
    state_.avail_out = static_cast<uInt>(std::min<std::size_t>(out.size(), 1U << 30));
    const uInt room = state_.avail_out;
    const int status = inflate(&state_, Z_NO_FLUSH);
    Require(status == Z_OK || status == Z_STREAM_END || status == Z_BUF_ERROR, "'{}' is damaged gzip near byte {}: {}",
            file_.path(), stored_position(), state_.msg == nullptr ? "no reason given" : state_.msg);
    pending_ = pending_.last(state_.avail_in);
    between_frames_ = status == Z_STREAM_END;
    return room - state_.avail_out;
  }

  z_stream state_{};
};

class ZstdStream final : public PackedStream {
 public:
  explicit ZstdStream(const std::string& path) : PackedStream(path), state_(ZSTD_createDStream(), ZSTD_freeDStream) {
    Require(state_ != nullptr, "Zstandard cannot start on '{}'", path);
    // Refuses frames that ask for a window beyond 128 MiB of memory.
    ZSTD_DCtx_setParameter(state_.get(), ZSTD_d_windowLogMax, 27);
  }

 private:
  std::size_t Unpack(std::span<char> out) override {
    ZSTD_inBuffer input{pending_.data(), pending_.size(), 0};
    ZSTD_outBuffer output{out.data(), out.size(), 0};
    const std::size_t status = ZSTD_decompressStream(state_.get(), &output, &input);
    Require(ZSTD_isError(status) == 0, "'{}' is damaged Zstandard near byte {}: {}", file_.path(), stored_position(),
            ZSTD_getErrorName(status));
    pending_ = pending_.subspan(input.pos);
    between_frames_ = status == 0;
    return output.pos;
  }

  std::unique_ptr<ZSTD_DStream, decltype(&ZSTD_freeDStream)> state_;
};

}  // namespace

std::unique_ptr<TextStream> OpenTextStream(const std::string& path) {
  std::array<unsigned char, 4> start{};
  {
    const InputFile file(path);
    const auto count = static_cast<std::size_t>(std::min<std::int64_t>(4, file.size()));
    file.Read(0, std::as_writable_bytes(std::span(start).first(count)));
  }
  if (start[0] == 0x1f && start[1] == 0x8b) {
    return std::make_unique<GzipStream>(path);
  }
  if (start[0] == 0x28 && start[1] == 0xb5 && start[2] == 0x2f && start[3] == 0xfd) {
    return std::make_unique<ZstdStream>(path);
  }
  return std::make_unique<PlainStream>(path);
}

}  // namespace trireme
