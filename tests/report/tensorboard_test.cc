#include "report/tensorboard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "scratch_directory.h"

namespace trireme {
namespace {

// The check values of RFC 3720, B.4, and of the catalogue of CRCs.
TEST(Crc32c, OfKnownBytes) {
  EXPECT_EQ(Crc32c("123456789"), 0xE3069283U);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8A9136AAU);
  EXPECT_EQ(Crc32c(std::string(32, '\xFF')), 0x62A8AB43U);
  EXPECT_EQ(Crc32c(""), 0U);
}

// tests/report/decode_events.py decodes protocol buffers and computes checksums on its own.
TEST(TensorBoardFile, AnIndependentDecoderReadsWhatWasWritten) {
  const ScratchDirectory scratch;
  const std::string folder = scratch.path().string();
  {
    TensorBoardFile file(folder, 7);
    file.AddHyperParameters("a run", {{"layout.tensor", "2"}, {"train.dtype", "\"bf16\""}, {"train.graphs", "true"}});
    file.AddScalars(7, {{"loss/training", 2.5}, {"speed/seconds", 0.125}});
    Histogram histogram;
    histogram.Add(std::vector<float>{-2, 0, 0, 0.5F, std::nanf("")}, 2);
    file.AddHistograms(7, {{"weights/one", histogram}});
    file.AddText(8, "events/spike", "a <b>spike</b>, µ");
  }
  const std::string command =
      std::string("python3 " TRIREME_SOURCE_DIR "/tests/report/decode_events.py ") + folder + "/tensorboard/*";
  std::string decoded;
  std::FILE* const output = popen(command.c_str(), "r");
  ASSERT_NE(output, nullptr);
  for (int letter = std::fgetc(output); letter != EOF; letter = std::fgetc(output)) {
    decoded += static_cast<char>(letter);
  }
  EXPECT_EQ(pclose(output), 0) << decoded;
  EXPECT_EQ(decoded,
            "step 0: version brain.Event:2\n"
            "step 7: session start\n"
            "step 0: hparams 'a run': layout.tensor=2.0 train.dtype='bf16' train.graphs=True\n"
            "step 7: loss/training=2.5\n"
            "step 7: speed/seconds=0.125\n"
            "step 7: histogram weights/one: 4 from -4 to 1, sum -3, squares 17: <-3.97:1 <1e-12:2 <1.04:1\n"
            "step 8: text events/spike/text_summary='a <b>spike</b>, µ'\n");
}

}  // namespace
}  // namespace trireme
