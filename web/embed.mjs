// Writes the built pages as a C++ source: node embed.mjs FOLDER_OF_PAGES OUTPUT.cc
import fs from 'node:fs';
import path from 'node:path';

const [folder, output] = process.argv.slice(2);
const delimiter = 'trireme-page';

function literal(name) {
  const text = fs.readFileSync(path.join(folder, `${name}.html`), 'utf8');
  if (text.includes(`)${delimiter}"`)) {
    throw new Error(`${name}.html holds the end of a raw string`);
  }
  return `R"${delimiter}(${text})${delimiter}"`;
}

fs.writeFileSync(
  output,
  `#include "report/pages.h"

namespace trireme {

std::string_view ReportPage() {
  static constexpr char kPage[] = ${literal('report')};
  return {kPage, sizeof kPage - 1};
}
std::string_view PagesAbsence() { return ""; }

}  // namespace trireme
`,
);
