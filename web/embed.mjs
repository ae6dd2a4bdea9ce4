// Writes the built pages as a C++ source: node embed.mjs FOLDER_OF_PAGES OUTPUT.cc [WHY_THERE_IS_NO_PLANNER]
import fs from 'node:fs';
import path from 'node:path';

const [folder, output, absence = ''] = process.argv.slice(2);
const delimiter = 'trireme-page';

function literal(text) {
  if (text.includes(`)${delimiter}"`)) {
    throw new Error('a page holds the end of a raw string');
  }
  return `R"${delimiter}(${text})${delimiter}"`;
}
const page = (name) => literal(fs.readFileSync(path.join(folder, `${name}.html`), 'utf8'));

fs.writeFileSync(
  output,
  `#include "report/pages.h"

namespace trireme {

std::string_view ReportPage() {
  static constexpr char kPage[] = ${page('report')};
  return {kPage, sizeof kPage - 1};
}
std::string_view PlannerPage() {
  static constexpr char kPage[] = ${absence === '' ? page('planner') : '""'};
  return {kPage, sizeof kPage - 1};
}
std::string_view AnswersPage() {
  static constexpr char kPage[] = ${page('answers')};
  return {kPage, sizeof kPage - 1};
}
std::string_view PagesAbsence() { return ""; }
std::string_view PlannerPageAbsence() { return ${literal(absence)}; }

}  // namespace trireme
`,
);
