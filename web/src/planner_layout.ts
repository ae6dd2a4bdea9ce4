// The chosen layout: where the seconds of a step go, memory by stage, the timeline, the explanation, the recipe.

import {Bar, stacked} from './bars';
import {element, LazyView, section} from './dom';
import {digits, seconds} from './format';
import {memoryColor, workColor} from './kinds';
import {emptyText} from './planner_asking';
import type {Answer} from './planner_question';
import {Failed, PlannerState} from './planner_state';
import {Shown, timelineParts, TimelineView} from './timeline';
import {onTheme} from './theme';

const failed = (answer: Answer | Failed | null): answer is Failed => answer !== null && 'error' in answer;
const answered = (answer: Answer | Failed | null): Answer | null => (answer === null || failed(answer) ? null : answer);

// A host that is drawn anew when the layout, the theme or the width changes.
function drawn(state: PlannerState, draw: (host: HTMLElement) => void): HTMLElement {
  const host = element('div', {class: 'bars'});
  const view = new LazyView(host, () => draw(host));
  state.on('layout', () => view.refresh());
  onTheme(() => view.refresh());
  let width = 0;
  new ResizeObserver(() => {
    if (Math.abs(host.clientWidth - width) > 2) {
      width = host.clientWidth;
      view.refresh();
    }
  }).observe(host);
  return host;
}

// Instead of a plot: that it is computed, why it is not, or that there is nothing to plot.
function missing(state: PlannerState): HTMLElement {
  if (state.layout === '') {
    return emptyText(state);
  }
  return element('p', {class: 'muted'}, failed(state.explanation) ? state.explanation.error : '…');
}

function secondsOf(state: PlannerState, host: HTMLElement): void {
  const causes = Object.entries((answered(state.explanation)?.json.seconds_by_cause ?? {}) as {[cause: string]: number}).filter(([, value]) => value > 0).sort(([, a], [, b]) => b - a);
  const bars: Bar[] = causes.map(([part, value]) => ({row: 'a step', part, value}));
  host.replaceChildren(bars.length === 0 ? missing(state) : stacked(bars, causes.map(([part]) => part), host.clientWidth || 800, {format: seconds, label: 'seconds of a step', colorOf: workColor}));
}

const mostStages = 64;

function memoryOf(state: PlannerState, host: HTMLElement): void {
  const json = answered(state.explanation)?.json;
  const stages = (json?.stages ?? []) as {[kind: string]: number}[];
  if (stages.length === 0) {
    host.replaceChildren(missing(state));
    return;
  }
  const kinds = Object.keys(stages[0]).filter((kind) => !['total', 'host'].includes(kind) && stages.some((stage) => stage[kind] > 0));
  const bars = stages.slice(0, mostStages).flatMap((stage, i) => kinds.map((part) => ({row: `stage ${i}`, part, value: stage[part] / 2 ** 30})));
  const note = stages.length > mostStages ? [element('p', {class: 'muted'}, `The first ${mostStages} of ${stages.length} stages.`)] : [];
  host.replaceChildren(stacked(bars, kinds, host.clientWidth || 800, {format: (value) => `${digits(value, 3)} GiB`, label: 'memory per device; the dashed line is what can be used', colorOf: memoryColor, limit: json!.usable_gib}), ...note);
}

interface TraceEvent {
  ph: string;
  tid: number;
  ts: number;
  dur: number;
  cat: string;
  name: string;
  args: {name?: string; micro_batch?: number};
}

// The rows of computation of a trace that `plan --timeline` writes.
export function shownOf(trace: string): Shown {
  const events = (JSON.parse(trace) as {traceEvents: TraceEvent[]}).traceEvents;
  const names = new Map<number, string>();
  const slices = new Map<number, TraceEvent[]>();
  for (const event of events) {
    if (event.ph === 'M' && event.name === 'thread_name' && /^stage \d+$/.test(event.args.name!)) {
      names.set(event.tid, event.args.name!);
      slices.set(event.tid, []);
    } else if (event.ph === 'X') {
      slices.get(event.tid)?.push(event);
    }
  }
  const kinds = [...new Set(events.filter((event) => event.ph === 'X' && names.has(event.tid)).map((event) => event.cat))];
  return timelineParts('predicted', kinds, [...slices].map(([track, list]) => ({
    name: names.get(track)!,
    start: Float64Array.from(list, (event) => event.ts * 1e-6),
    length: Float32Array.from(list, (event) => event.dur * 1e-6),
    kind: Uint8Array.from(list, (event) => kinds.indexOf(event.cat)),
    microBatch: Int32Array.from(list, (event) => event.args?.micro_batch ?? -1),
  })));
}

function timelineOf(state: PlannerState): HTMLElement {
  const host = element('div');
  state.on('layout', () => {
    const trace = answered(state.timeline)?.files[0]?.text;
    if (trace === undefined) {
      host.replaceChildren(element('p', {class: 'muted'}, failed(state.timeline) ? state.timeline.error : ''));
    } else {
      const view = new TimelineView([shownOf(trace)]);
      host.replaceChildren(view.legend(), view.host);
    }
  });
  return host;
}

// A text with a button that copies it.
function copied(id: string, label: string, state: PlannerState, text: () => string): HTMLElement {
  const pre = element('pre', {class: 'scroll tall', tabindex: 0, id, 'aria-label': label});
  const button = element('button', {type: 'button', class: 'copy'}, 'Copy');
  button.addEventListener('click', () => {
    const selection = getSelection()!;
    const range = document.createRange();
    range.selectNodeContents(pre);
    selection.removeAllRanges();
    selection.addRange(range);
    // Pages from file:// may lack the clipboard's newer interface.
    const done = document.execCommand('copy');
    selection.removeAllRanges();
    button.textContent = done ? 'Copied' : 'Select the text and copy it';
    setTimeout(() => (button.textContent = 'Copy'), 2000);
  });
  state.on('layout', () => (pre.textContent = text()));
  return element('div', {class: 'copied'}, element('h3', {}, label), button, pre);
}

const textOf = (answer: Answer | Failed | null, text: (answer: Answer) => string): string => (answer === null ? '' : failed(answer) ? answer.error : text(answer));

export function layoutSections(state: PlannerState): HTMLElement[] {
  const name = element('p', {class: 'lead', id: 'chosen'});
  state.on('layout', () => name.replaceChildren(state.layout === '' ? (emptyText(state).textContent ?? '') : state.layout));
  const explanation = copied('explanation-text', 'As `trireme plan --layout` explains it', state, () => textOf(state.explanation, (answer) => answer.text));
  const ending = (end: string) => () => textOf(state.files, (answer) => answer.files.find((file) => file.path.endsWith(end))?.text ?? '');
  return [
    section('layout', 'The chosen layout', '', name, element('h3', {}, 'Where the seconds of a step go'), drawn(state, (host) => secondsOf(state, host))),
    section('memory', 'Memory per device, by stage', 'What one device of each stage of the pipeline holds.', drawn(state, (host) => memoryOf(state, host))),
    section('timeline', 'Timeline', 'One step of the pipeline, a row per stage. Ctrl + wheel, pinch, or + and - zoom; drag or the arrows move; 0 shows everything.', timelineOf(state)),
    section('explanation', 'Explanation', '', explanation),
    section('recipe', 'Recipe', 'What `trireme train` runs, and a job for Slurm.', copied('recipe-text', 'planned.toml', state, ending('.toml')), copied('job-text', 'planned.sbatch', state, ending('.sbatch')),
      copied('layout-command', 'The same for a terminal', state, () => state.command({layout: state.layout, emit: 'recipe,sbatch'}))),
  ];
}
