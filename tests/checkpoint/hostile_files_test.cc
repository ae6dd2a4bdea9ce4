// Files made to break the reader: digests fit, contents lie.
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/durable_file.h"
#include "base/error.h"
#include "base/json_text.h"
#include "checkpoint/format/bounded_json.h"
#include "checkpoint/hugging_face/safetensors.h"
#include "checkpoint/saved_world.h"

namespace trireme {
namespace {

using nlohmann::json;
using testing::HasSubstr;

// A manifest whose digest is right, whatever it says.
std::string Signed(const json& root) {
  std::string text = JsonText(root, {.indent = 1});
  text.resize(text.size() - 2);
  return text + ",\n \"digest\":\"" + ToHex(DigestOf(text)) + "\"}\n";
}

std::string Container(const std::string& header, std::int64_t data) {
  const std::uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + std::string(static_cast<std::size_t>(data), '\0');
}

class HostileCheckpoint : public testing::Test {
 protected:
  HostileCheckpoint() : table_(TinyModel("gpt2")) {
    SaveWorld(folder_.path(), table_, {}, 1);
    root_ = ParseJson(ReadBytes(Manifest()));
    root_.erase("digest");
    const InputFile file(Shard());
    const std::string bytes = ReadSafetensorsHeaderBytes(file);
    header_ = ParseJson(bytes.substr(8));
    slices_ = ParseJson(header_["__metadata__"]["trireme"].get<std::string>());
    data_bytes_ = file.size() - static_cast<std::int64_t>(bytes.size());
  }

  std::string Manifest() const { return folder_ / "step-000001/manifest.json"; }
  std::string Shard() const { return folder_ / "step-000001/shard-00000.safetensors"; }

  // Opens the checkpoint after `change` to its manifest.
  void RefuseManifest(const std::string& name, const std::function<void(json&)>& change) {
    json root = root_;
    change(root);
    WriteBytes(Manifest(), Signed(root));
    ExpectRefused(name);
    WriteBytes(Manifest(), Signed(root_));
  }

  // Opens the checkpoint after `change` to a shard's header, with sizes and digests made to fit.
  void RefuseShard(const std::string& name, const std::function<void(json& header, json& slices)>& change) {
    json header = header_;
    json slices = slices_;
    change(header, slices);
    if (header.is_object() && header.contains("__metadata__")) {
      header["__metadata__"]["trireme"] = JsonText(slices);
    }
    RefuseShardBytes(name, JsonText(header));
  }

  void RefuseShardBytes(const std::string& name, const std::string& header_text) {
    const std::string good = ReadBytes(Shard());
    const std::string bytes = Container(header_text, data_bytes_);
    WriteBytes(Shard(), bytes);
    json root = root_;
    root["shards"][0]["bytes"] = bytes.size();
    root["shards"][0]["header"] =
        ToHex(DigestOf(std::string_view(bytes).substr(0, bytes.size() - static_cast<std::size_t>(data_bytes_))));
    WriteBytes(Manifest(), Signed(root));
    ExpectRefused(name);
    WriteBytes(Shard(), good);
    WriteBytes(Manifest(), Signed(root_));
  }

  void ExpectRefused(const std::string& name) {
    EXPECT_THROW(CheckpointReader(folder_ / "step-000001"), Error) << name;
    ++refused_;
  }

  ParameterTable table_;
  TestFolder folder_;
  json root_;
  json header_;
  json slices_;
  std::int64_t data_bytes_ = 0;
  int refused_ = 0;
};

TEST_F(HostileCheckpoint, TheHelpersMakeGoodFilesWhenNothingIsChanged) {
  WriteBytes(Manifest(), Signed(root_));
  EXPECT_NO_THROW(CheckpointReader(folder_ / "step-000001"));
  header_["__metadata__"]["trireme"] = JsonText(slices_);
  const std::string bytes = Container(JsonText(header_), data_bytes_);
  WriteBytes(Shard(), bytes);
  root_["shards"][0]["bytes"] = bytes.size();
  root_["shards"][0]["header"] =
      ToHex(DigestOf(std::string_view(bytes).substr(0, bytes.size() - static_cast<std::size_t>(data_bytes_))));
  WriteBytes(Manifest(), Signed(root_));
  EXPECT_NO_THROW(CheckpointReader(folder_ / "step-000001"));
}

TEST_F(HostileCheckpoint, LyingManifestsAreRefused) {
  for (const char* key : {"format", "version", "state", "tensors", "shards"}) {
    RefuseManifest(std::string("without ") + key, [&](json& root) { root.erase(key); });
    RefuseManifest(std::string("null ") + key, [&](json& root) { root[key] = nullptr; });
  }
  for (const char* key : {"step", "consumed_samples", "updates", "loss_scale", "seed", "model", "recipe", "keys"}) {
    RefuseManifest(std::string("without ") + key, [&](json& root) { root["state"].erase(key); });
  }
  RefuseManifest("another version", [](json& root) { root["version"] = 4; });
  RefuseManifest("negative step", [](json& root) { root["state"]["step"] = -1; });
  RefuseManifest("fractional step", [](json& root) { root["state"]["step"] = 1.5; });
  RefuseManifest("huge step", [](json& root) { root["state"]["step"] = 18446744073709551615ULL; });
  RefuseManifest("another step", [](json& root) { root["state"]["step"] = 2; });
  RefuseManifest("text as number", [](json& root) { root["state"]["consumed_samples"] = "8"; });
  RefuseManifest("unknown family", [](json& root) { root["state"]["model"]["family"] = "gpt9"; });
  RefuseManifest("impossible model", [](json& root) { root["state"]["model"]["heads"] = 0; });
  RefuseManifest("number as key's value", [](json& root) { root["state"]["keys"]["train.seed"] = 7; });
  RefuseManifest("tensor twice", [](json& root) { root["tensors"].push_back(root["tensors"][0]); });
  RefuseManifest("tensors out of order", [](json& root) { std::swap(root["tensors"][0], root["tensors"][1]); });
  RefuseManifest("tensor that no shard has", [](json& root) {
    json tensor = root["tensors"].back();
    tensor["name"] = "zz";
    root["tensors"].push_back(tensor);
  });
  RefuseManifest("tensor missing", [](json& root) { root["tensors"].erase(3); });
  RefuseManifest("shape with zero", [](json& root) { root["tensors"][0]["shape"] = {0}; });
  RefuseManifest("shape that wraps to 0", [](json& root) {
    root["tensors"][0]["shape"] = {1LL << 32, 1LL << 32, 1LL << 32};
  });
  RefuseManifest("five dims", [](json& root) { root["tensors"][0]["shape"] = {1, 1, 1, 1, 32}; });
  RefuseManifest("another shape of equal count", [](json& root) {
    for (json& tensor : root["tensors"]) {
      if (tensor["shape"].size() == 2) {
        std::swap(tensor["shape"][0], tensor["shape"][1]);
      }
    }
  });
  RefuseManifest("another dtype", [](json& root) { root["tensors"][0]["dtype"] = "bf16"; });
  RefuseManifest("control character", [](json& root) { root["tensors"][0]["name"] = "a\nb"; });
  RefuseManifest("no shards", [](json& root) { root["shards"] = json::array(); });
  RefuseManifest("shard twice", [](json& root) { root["shards"].push_back(root["shards"][0]); });
  RefuseManifest("shard in another folder", [](json& root) { root["shards"][0]["file"] = "../x.safetensors"; });
  RefuseManifest("shard by absolute path", [](json& root) { root["shards"][0]["file"] = "/etc/passwd"; });
  RefuseManifest("hidden shard", [](json& root) { root["shards"][0]["file"] = ".x"; });
  RefuseManifest("empty shard name", [](json& root) { root["shards"][0]["file"] = ""; });
  RefuseManifest("folder as shard", [](json& root) { root["shards"][0]["file"] = "manifest.json"; });
  RefuseManifest("another size", [](json& root) { root["shards"][0]["bytes"] = 1; });
  RefuseManifest("short digest", [](json& root) { root["shards"][0]["header"] = "00"; });
  RefuseManifest("another digest", [](json& root) { root["shards"][0]["header"] = std::string(32, '0'); });
  RefuseManifest("deep nesting", [](json& root) {
    json deep = 1;
    for (int i = 0; i < 100; ++i) {
      deep = json::array({deep});
    }
    root["deep"] = deep;
  });
  EXPECT_GE(refused_, 25);
}

TEST_F(HostileCheckpoint, TornAndForeignManifestsAreRefused) {
  const std::string good = Signed(root_);
  for (const std::string& text : {std::string(), std::string("{}"), std::string(1000, '\0'), std::string(1000, '['),
                                  good + " ", good.substr(1), "\xef\xbb\xbf" + good, good.substr(0, good.size() - 1)}) {
    WriteBytes(Manifest(), text);
    ExpectRefused(text.substr(0, 10));
  }
  std::string twice = JsonText(root_, {.indent = 1});
  twice.resize(twice.size() - 2);
  twice += ",\n \"version\": 1";
  WriteBytes(Manifest(), twice + ",\n \"digest\":\"" + ToHex(DigestOf(twice)) + "\"}\n");
  try {
    CheckpointReader reader(folder_ / "step-000001");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("stands twice"));
  }
}

TEST_F(HostileCheckpoint, LyingShardsAreRefused) {
  const std::string name = slices_["slices"].begin().key();
  const std::string matrix = "master.block.0.attention.qkv.weight";
  RefuseShard("no metadata", [](json& header, json&) { header.erase("__metadata__"); });
  RefuseShard("metadata without ours", [](json&, json& slices) { slices = json::object(); });
  RefuseShard("another format", [](json&, json& slices) { slices["format"] = "x"; });
  RefuseShard("another version", [](json&, json& slices) { slices["version"] = 2; });
  RefuseShard("another chunk size", [](json&, json& slices) { slices["chunk_bytes"] = 1; });
  RefuseShard("another step", [](json&, json& slices) { slices["step"] = 2; });
  RefuseShard("another rank", [](json&, json& slices) { slices["rank"] = 1; });
  RefuseShard("slice missing", [&](json&, json& slices) { slices["slices"].erase(name); });
  RefuseShard("slice too many", [&](json&, json& slices) { slices["slices"]["x"] = slices["slices"][name]; });
  RefuseShard("no pieces", [&](json&, json& slices) { slices["slices"][name]["pieces"] = json::array(); });
  RefuseShard("piece of three", [&](json&, json& slices) { slices["slices"][name]["pieces"] = {{0, 1, 2}}; });
  RefuseShard("piece of none", [&](json&, json& slices) { slices["slices"][name]["pieces"] = {{0, 0, 0, 1}}; });
  RefuseShard("piece beyond the end", [&](json&, json& slices) { slices["slices"][matrix]["pieces"][0][0] = 1; });
  RefuseShard("piece that wraps", [&](json&, json& slices) {
    slices["slices"][matrix]["pieces"] = {{0, 1LL << 52, 1LL << 52, 1LL << 52}};
  });
  RefuseShard("negative piece", [&](json&, json& slices) { slices["slices"][matrix]["pieces"][0][0] = -1; });
  RefuseShard("no chunks", [&](json&, json& slices) { slices["slices"][name]["chunks"] = json::array(); });
  RefuseShard("chunk without digest", [&](json&, json& slices) { slices["slices"][name]["chunks"] = {7}; });
  RefuseShard("slice of an unknown tensor", [&](json&, json& slices) { slices["slices"][name]["tensor"] = "x"; });
  RefuseShard("slice of another tensor",
              [&](json&, json& slices) { slices["slices"][name]["tensor"] = "block.1.mlp.out.bias"; });
  RefuseShard("unknown kind", [&](json&, json& slices) { slices["slices"][name]["kind"] = "third"; });
  RefuseShard("another global shape", [&](json&, json& slices) { slices["slices"][matrix]["shape"] = {1, 3072}; });
  RefuseShard("bf16 values", [&](json& header, json&) { header[name]["dtype"] = "BF16"; });
  RefuseShard("unknown dtype", [&](json& header, json&) { header[name]["dtype"] = "F4"; });
  RefuseShard("offsets against the shape", [&](json& header, json&) { header[name]["shape"][0] = 1; });
  RefuseShard("one offset", [&](json& header, json&) { header[name]["data_offsets"] = {0}; });
  RefuseShard("offsets reversed", [&](json& header, json&) {
    std::swap(header[matrix]["data_offsets"][0], header[matrix]["data_offsets"][1]);
  });
  RefuseShard("shape that wraps to 0", [&](json& header, json&) {
    header[name]["shape"] = {1LL << 32, 1LL << 32};
    header[name]["data_offsets"] = {0, 0};
  });
  RefuseShard("a fourth member", [&](json& header, json&) { header[name]["more"] = 1; });
  RefuseShard("overlap", [&](json& header, json&) {
    const std::int64_t end = header[matrix]["data_offsets"][1];
    const std::int64_t begin = header[matrix]["data_offsets"][0];
    header[matrix]["data_offsets"] = {begin - 4, end - 4};
  });
  RefuseShard("header is an array", [](json& header, json&) { header = json::array(); });
  RefuseShardBytes("no JSON", "{\"a\": }");
  RefuseShardBytes("a tensor twice", R"({"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},)"
                                     R"("a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})");
  RefuseShardBytes("bad UTF-8", "{\"\xff\xfe\": 1}");
  RefuseShardBytes("deep", std::string(10'000, '['));
  EXPECT_GE(refused_, 25);
}

TEST_F(HostileCheckpoint, PiecesThatOverlapAndLeaveAHoleAreFoundWhenRead) {
  // Two slices of equal size that both claim the first half: counts fit, elements do not.
  json slices = slices_;
  const TestFolder folder;
  ParallelLayout layout;
  layout.data = 2;
  SaveTask task{.folder = folder.path(), .step = 1, .ranks = 2};
  std::vector<float> values(8, 1.0F);
  for (task.rank = 0; task.rank < 2; ++task.rank) {
    WriteShard(task, std::vector<SaveSlice>{{.tensor = "t",
                                             .kind = kMasterKind,
                                             .shape = {16},
                                             .pieces = {{.first = 0, .count = 8}},
                                             .values = values}});
  }
  task.rank = 0;
  CommitCheckpoint(task, StateAt(table_.config(), 1), {.seconds = 0});
  const CheckpointReader reader(folder / "step-000001");
  std::vector<float> out(16);
  EXPECT_THROW(reader.Read(reader.tensors()[0], 0, out), Error);
  EXPECT_THROW(reader.Read(reader.tensors()[0], 0, std::span(out).first(8)), Error);
  EXPECT_THROW(reader.Read(reader.tensors()[0], 8, std::span(out).first(8)), Error);
  int problems = 0;
  reader.VerifyCoverage([&](const Problem&) { ++problems; });
  EXPECT_EQ(problems, 1);
}

TEST(HostileSafetensors, LengthsThatLieAreRefused) {
  const std::string origin = "x";
  const auto refuse = [&](std::string bytes, std::int64_t size) {
    EXPECT_THROW(ParseSafetensorsHeader(bytes, size, origin), Error);
  };
  refuse("", 0);
  refuse(std::string(8, '\0'), 8);
  refuse(std::string(8, '\xff') + "{}", 10);
  refuse(Container("{}", 0), 9);
  refuse(Container("{}", 0), 11);
  refuse(Container(" {}", 0), 11);
  refuse(Container("{\"__metadata__\":{\"a\":1}}", 0), 32);
  EXPECT_NO_THROW(ParseSafetensorsHeader(Container("{}", 0), 10, origin));
}

TEST(HostileSafetensors, AFileThatIsNotRegularIsRefused) {
  const TestFolder folder;
  EXPECT_THROW(InputFile{folder.path()}, Error);
  EXPECT_THROW(ReadWholeFile("/dev/zero", 10), Error);
}

TEST(BoundedJson, CountsValuesAndDepth) {
  EXPECT_NO_THROW(ParseBoundedJson("[[1,2],[3]]", "x", {.depth = 2, .values = 20}));
  EXPECT_THROW(ParseBoundedJson("[[1,2],[3]]", "x", {.depth = 1, .values = 20}), Error);
  EXPECT_THROW(ParseBoundedJson("[[1,2],[3]]", "x", {.depth = 2, .values = 3}), Error);
  EXPECT_THROW(ParseBoundedJson(R"({"a":1,"b":{"a":2,"a":3}})", "x"), Error);
  EXPECT_NO_THROW(ParseBoundedJson(R"({"a":1,"b":{"a":2},"c":{"a":3}})", "x"));
  EXPECT_THROW(ParseBoundedJson("{} x", "x"), Error);
  EXPECT_THROW(ParseBoundedJson("NaN", "x"), Error);
}

}  // namespace
}  // namespace trireme
