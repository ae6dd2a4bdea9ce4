// The report's page: reads the document that `trireme report` put into the file and lays out its views.

import 'uplot/dist/uPlot.min.css';
import './style.css';
import {memorySection, scatterSection, secondsSection} from './bars';
import {configSection} from './config_diff';
import {curvesSection} from './curves';
import {readDocument, Run} from './document';
import {element, segmented} from './dom';
import {eventsSection, machineSection, plansSection, tablesSection} from './lists';
import {runsSection} from './runs_table';
import {State} from './state';
import {palette, setTheme, Theme} from './theme';
import {timelineSection} from './timeline';

const started = performance.now();
const report = readDocument();
const runs = report.runs.map((run, index) => new Run(run, index, palette[index % palette.length]));
const state = new State(runs);
setTheme('auto');

const has = (check: (run: Run) => boolean): boolean => runs.some(check);
const timelines = [
  ...runs.filter((run) => run.data.timelines.length > 0).map((run) => ({name: run.name, timelines: run.data.timelines})),
  ...report.timelines.map(({name, timeline}) => ({name, timelines: [timeline]})),
];
const sections = [
  runs.length > 0 ? runsSection(state) : null,
  has((run) => run.data.steps > 0) ? curvesSection(state) : null,
  report.tables.length > 0 ? tablesSection(report.tables) : null,
  report.plans.length > 0 ? plansSection(report.plans) : null,
  runs.length > 0 ? scatterSection(state) : null,
  has((run) => Object.keys(run.data.seconds.measured_causes).length + Object.keys(run.data.seconds.predicted_causes).length > 0) ? secondsSection(state) : null,
  timelines.length > 0 ? timelineSection(timelines) : null,
  has((run) => run.data.memory.measured.length + run.data.memory.predicted.length > 0) ? memorySection(state) : null,
  has((run) => run.data.events.length > 0) ? eventsSection(state) : null,
  runs.length > 0 ? configSection(state) : null,
  machineSection(state),
].filter((part): part is HTMLElement => part !== null);

const title = runs.length === 1 ? runs[0].name : runs.length > 1 ? `${runs.length} runs` : 'Report';
document.title = `${title} · Trireme report`;
const links = sections.map((part) => element('a', {href: `#${part.id}`}, part.id[0].toUpperCase() + part.id.slice(1)));
const header = element(
  'header',
  {},
  element('h1', {}, title),
  element('nav', {'aria-label': 'Sections'}, ...links),
  segmented('theme', 'Theme', [{value: 'auto', label: 'auto'}, {value: 'light', label: 'light'}, {value: 'dark', label: 'dark'}], 'auto', (value) => setTheme(value as Theme)),
);
const footer = element('footer', {}, `Written ${report.made} by ${report.program}. This file is complete: it loads nothing.`);
document.getElementById('app')!.append(element('a', {href: '#main', class: 'skip'}, 'Skip to the content'), header, element('main', {id: 'main', tabindex: -1}, ...sections), footer);
document.documentElement.dataset.ready = String(Math.round(performance.now() - started));
