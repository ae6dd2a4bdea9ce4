// The documents as pages: how many words each may have, and that every link leads to a file and a heading.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "layers/source_tree.h"

namespace trireme {
namespace {

// Guides and explanations together, and a page of them unless it is named below. A page that needs more is two pages.
constexpr std::size_t kGuides = 25'000;
constexpr std::size_t kPage = 1'500;

// Pages with limits of their own. ARCHITECTURE.md is counted without tables, which layers_test.cc reads.
const std::map<std::string, std::size_t>& PageLimits() {
  static const std::map<std::string, std::size_t> limits = {
      {"README.md", 900}, {"CONTRIBUTING.md", 700}, {"ARCHITECTURE.md", 1'500}, {"docs/performance.md", 1'100}};
  return limits;
}

std::size_t WordCount(const std::string& text) {
  std::istringstream stream(text);
  std::size_t count = 0;
  for (std::string word; stream >> word;) {
    ++count;
  }
  return count;
}

std::string WithoutTables(const std::string& text) {
  std::string left;
  for (const std::string& line : LinesOf(text)) {
    left += line.starts_with("|") ? "" : line + "\n";
  }
  return left;
}

std::vector<std::string> PagesOf(const std::string& folder) {
  std::vector<std::string> pages;
  for (const auto& entry : fs::directory_iterator(kRoot / folder)) {
    if (entry.path().extension() == ".md") {
      pages.push_back(fs::relative(entry.path(), kRoot).generic_string());
    }
  }
  std::sort(pages.begin(), pages.end());
  return pages;
}

std::vector<std::string> AllPages() {
  std::vector<std::string> pages = PagesOf(".");
  for (const char* folder : {"docs", "docs/reference", "docs/evidence"}) {
    const std::vector<std::string> more = PagesOf(folder);
    pages.insert(pages.end(), more.begin(), more.end());
  }
  return pages;
}

std::size_t LimitOf(const std::string& page) {
  const auto own = PageLimits().find(page);
  return own == PageLimits().end() ? kPage : own->second;
}

TEST(Documents, PagesHaveALengthThatIsRead) {
  std::vector<std::string> limited = PagesOf("docs");
  std::size_t together = 0;
  for (const std::string& page : limited) {
    together += WordCount(ReadText(kRoot / page));
  }
  EXPECT_LE(together, kGuides)
      << "words of docs/*.md; tables to look up belong in docs/reference, measurements of a day "
         "in docs/evidence";
  limited.insert(limited.end(), {"README.md", "CONTRIBUTING.md", "ARCHITECTURE.md"});
  for (const std::string& page : limited) {
    const std::string text = ReadText(kRoot / page);
    const std::size_t words = WordCount(page == "ARCHITECTURE.md" ? WithoutTables(text) : text);
    EXPECT_LE(words, LimitOf(page)) << page;
  }
}

// As GitHub names the headings of a page.
std::string Anchor(const std::string& heading) {
  static const std::regex link(R"(\[([^\]]*)\]\([^)]*\))");
  std::string anchor;
  for (const char letter : std::regex_replace(heading, link, "$1")) {
    const auto byte = static_cast<unsigned char>(letter);
    if (std::isalnum(byte) != 0 || byte >= 0x80 || letter == '-' || letter == '_' || letter == ' ') {
      anchor += letter == ' ' ? '-' : static_cast<char>(std::tolower(byte));
    }
  }
  return anchor;
}

std::set<std::string> Anchors(const std::string& text) {
  static const std::regex heading(R"(^#+ +(.*)$)");
  std::set<std::string> anchors;
  bool fenced = false;
  std::smatch found;
  for (const std::string& line : LinesOf(text)) {
    fenced = fenced != line.starts_with("```");
    if (!fenced && std::regex_match(line, found, heading)) {
      anchors.insert(Anchor(found[1]));
    }
  }
  return anchors;
}

// "" when a link of `page` leads somewhere.
std::string WhatIsWrongWith(const std::string& link, const std::string& page) {
  const std::string path = link.substr(0, link.find('#'));
  const std::string fragment = link.find('#') == std::string::npos ? "" : link.substr(link.find('#') + 1);
  const fs::path target = path.empty() ? kRoot / page : (kRoot / page).parent_path() / path;
  if (!fs::exists(target)) {
    return "no such file";
  }
  if (fragment.empty() || target.extension() != ".md" || Anchors(ReadText(target)).contains(fragment)) {
    return "";
  }
  return "no such heading";
}

TEST(Documents, LinksLeadSomewhere) {
  static const std::regex link(R"(\]\(([^)\s]+)\))");
  static const std::regex elsewhere("[a-z]+:.*");
  std::size_t links = 0;
  for (const std::string& page : AllPages()) {
    const std::string text = ReadText(kRoot / page);
    for (std::sregex_iterator it(text.begin(), text.end(), link), end; it != end; ++it) {
      const std::string target = (*it)[1];
      if (!std::regex_match(target, elsewhere)) {
        EXPECT_EQ(WhatIsWrongWith(target, page), "") << page << " links to " << target;
        ++links;
      }
    }
  }
  EXPECT_GT(links, 300U);
}

TEST(Documents, AWrongLinkIsFound) {
  EXPECT_EQ(WhatIsWrongWith("docs/performance.md#the-table", "README.md"), "");
  EXPECT_EQ(WhatIsWrongWith("docs/nowhere.md", "README.md"), "no such file");
  EXPECT_EQ(WhatIsWrongWith("docs/performance.md#nowhere", "README.md"), "no such heading");
}

}  // namespace
}  // namespace trireme
