// The report's page: reads the document that `trireme report` put into the file, or `trireme watch` into its answer, and
// lays out its views.

import 'uplot/dist/uPlot.min.css';
import './style.css';
import {followAddress, goTo, scrollTo, wordsOfAddress} from './address';
import {comparedRuns, memorySection, scatterSection, secondsSection} from './bars';
import {configSection} from './config_diff';
import {curvesSection} from './curves';
import {readDocument, Run} from './document';
import {element, segmented} from './dom';
import {eventsSection, machineSection, plansSection, tablesSection} from './lists';
import {followRuns} from './live';
import {runsSection} from './runs_table';
import {readState, State, writeState} from './state';
import {onTheme, palette, setTheme, theme, Theme} from './theme';
import {TimelineGroup, timelineSection} from './timeline';

const started = performance.now();
const report = readDocument();
export const newRun = (data: Run['data'], index: number): Run => new Run(data, index, palette[index % palette.length]);
const state = new State(report.runs.map(newRun));

// Views follow when the address, which they write, is read again.
const writeAddress = followAddress({
  write: () => writeState(state),
  read: (words) => {
    readState(words, state);
    state.changed();
  },
});

const has = (check: (run: Run) => boolean): boolean => state.runs.some(check);
const given = report.timelines.map(({name, timeline}) => ({name, timelines: [timeline]}));
const timelines = (): TimelineGroup[] => [...state.runs.filter((run) => run.data.timelines.length > 0).map((run) => ({name: run.name, timelines: run.data.timelines})), ...given];

// Each section, and whether there is something in it.
const views: {part: HTMLElement; filled: () => boolean}[] = [
  {part: runsSection(state), filled: () => state.runs.length > 0},
  {part: curvesSection(state), filled: () => has((run) => run.data.steps > 0)},
  {part: tablesSection(report.tables), filled: () => report.tables.length > 0},
  {part: plansSection(report.plans), filled: () => report.plans.length > 0},
  {part: scatterSection(state), filled: () => comparedRuns(state).length >= 3},
  {part: secondsSection(state), filled: () => has(({data: {seconds}}) => Object.keys(seconds.measured_causes).length + Object.keys(seconds.predicted_causes).length > 0)},
  {part: timelineSection(state, timelines), filled: () => timelines().length > 0},
  {part: memorySection(state), filled: () => has((run) => run.data.memory.measured.length + run.data.memory.predicted.length > 0)},
  {part: eventsSection(state), filled: () => has((run) => run.data.events.length > 0)},
  {part: configSection(state), filled: () => state.runs.length > 0},
  {part: machineSection(state), filled: () => has((run) => run.data.machine !== null)},
];

const heading = element('h1');
const links = views.map(({part}) => {
  const link = element('a', {href: `#${part.id}`}, part.id[0].toUpperCase() + part.id.slice(1));
  link.addEventListener('click', goTo(part.id, writeAddress));
  return link;
});
const themes = segmented('theme', 'Theme', ['auto', 'light', 'dark'].map((value) => ({value, label: value})), theme(), (value) => setTheme(value as Theme));
onTheme(() => themes.querySelectorAll('input').forEach((input) => (input.checked = input.value === theme())));
const show = (): void => {
  const title = state.runs.length === 1 ? state.runs[0].name : state.runs.length > 1 ? `${state.runs.length} runs` : 'Report';
  heading.textContent = title;
  document.title = `${title} · Trireme report`;
  views.forEach(({part, filled}, i) => (part.hidden = links[i].hidden = !filled()));
};
state.onChange(show);
state.onChange(writeAddress);
show();

const live = report.live === undefined ? null : followRuns(state, report.live, newRun);
const nav = element('nav', {'aria-label': 'Sections'}, ...links);
const header = element('header', {}, heading, live, nav, themes);
const footer = element('footer', {}, live === null ? `Written ${report.made} by ${report.program}. This file is complete: it loads nothing.` : `Served by ${report.program} since ${report.made}.`);
document.getElementById('app')!.append(element('a', {href: '#main', class: 'skip'}, 'Skip to the content'), header, element('main', {id: 'main', tabindex: -1}, ...views.map(({part}) => part)), footer);
scrollTo(wordsOfAddress().get('at') ?? '');
document.documentElement.dataset.ready = String(Math.round(performance.now() - started));
