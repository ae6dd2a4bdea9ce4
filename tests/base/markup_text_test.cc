#include "base/markup_text.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(MarkupText, NothingOfItMarksUp) {
  EXPECT_EQ(MarkupText("a <b x='1' y=\"2\"> & \n c"), "a &lt;b x=&#39;1&#39; y=&quot;2&quot;&gt; &amp;   c");
}

}  // namespace
}  // namespace trireme
