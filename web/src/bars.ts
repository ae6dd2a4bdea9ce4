// Stacked bars: memory by kind, and where the seconds of a step went. Observable Plot.

import * as Plot from '@observablehq/plot';
import {MemoryRow, Run} from './document';
import {element, LazyView, section} from './dom';
import {exportButtons, pictureOf} from './export';
import {bytes, seconds} from './format';
import {memoryColor, rankOf, workColor} from './kinds';
import {rangesOf, State} from './state';
import {color, onTheme, palette} from './theme';

const mostRuns = 12;
const mostRows = 64;

export interface Bar {
  row: string;
  part: string;
  value: number;
}

// How bars are shown: numbers, the title of the axis, the colour of a part; `limit`: a dashed line across them.
export interface BarStyle {
  format: (value: number) => string;
  label: string;
  colorOf: (part: string) => string;
  limit?: number;
}

export function stacked(bars: Bar[], parts: string[], width: number, {format, label, colorOf, limit}: BarStyle): HTMLElement | SVGElement {
  const rows = [...new Set(bars.map((bar) => bar.row))];
  const longest = Math.max(...rows.map((row) => row.length));
  // On a phone names stand above their bars.
  const above = 24 + 6.6 * longest > 0.42 * width;
  const marginLeft = above ? 12 : 24 + 6.6 * longest;
  return Plot.plot({
    width,
    height: 66 + rows.length * (above ? 40 : rows.length > 24 ? 14 : 26),
    marginLeft,
    marginRight: 24,
    marginBottom: 42,
    style: {background: 'transparent', color: color('text'), fontFamily: 'inherit', fontSize: '12px', overflow: 'visible'},
    x: {label, tickFormat: (value: number) => (value === 0 ? '0' : format(value)), ticks: Math.max(2, Math.floor((width - marginLeft) / 110)), grid: true},
    y: {label: null, domain: rows, tickSize: 0, axis: above ? null : 'left'},
    color: {domain: parts, range: parts.map(colorOf), legend: true},
    marks: [
      Plot.barX(bars, {x: 'value', y: 'row', fill: 'part', order: parts, insetTop: above ? 18 : 2, insetBottom: 2, tip: {format: {x: format, y: true, fill: true}, fill: color('panel'), stroke: color('border')} as any, channels: {}}),
      above ? Plot.text(rows, {y: (row: string) => row, text: (row: string) => row, frameAnchor: 'left', textAnchor: 'start', dx: 2, dy: -11}) : null,
      Plot.ruleX([0], {stroke: color('muted')}),
      limit === undefined ? null : Plot.ruleX([limit], {stroke: color('text'), strokeDasharray: '4 3'}),
    ],
  });
}

function bigEnough(bars: Bar[]): string[] {
  const sums = new Map<string, number>();
  bars.forEach((bar) => sums.set(bar.part, (sums.get(bar.part) ?? 0) + bar.value));
  return [...sums].filter(([, sum]) => sum > 0).map(([part]) => part).sort((a, b) => rankOf(a) - rankOf(b));
}

function barsSection({id, title, lead, style, barsOf}: {id: string; title: string; lead: string; style: BarStyle; barsOf: (run: Run, several: boolean) => Bar[]}, state: State): HTMLElement {
  const host = element('div', {class: 'bars'});
  const view = new LazyView(host, () => {
    const runs = state.visible().filter((run) => barsOf(run, false).length > 0);
    const few = runs.slice(0, mostRuns);
    let bars = few.flatMap((run) => barsOf(run, few.length > 1));
    const rows = [...new Set(bars.map((bar) => bar.row))];
    const kept = new Set(rows.slice(0, mostRows));
    bars = bars.filter((bar) => kept.has(bar.row));
    const notes: HTMLElement[] = [];
    if (runs.length > few.length || rows.length > kept.size) {
      notes.push(element('p', {class: 'muted'}, `The first ${few.length} of ${runs.length} shown runs, ${kept.size} of ${rows.length} rows: show fewer runs above.`));
    }
    host.replaceChildren(bars.length > 0 ? stacked(bars, bigEnough(bars), host.clientWidth || 800, style) : element('p', {class: 'muted'}, 'The shown runs have no such record.'), ...notes);
  });
  state.onChange(() => view.refresh());
  onTheme(() => view.refresh());
  let width = 0;
  new ResizeObserver(() => {
    if (Math.abs(host.clientWidth - width) > 2) {
      width = host.clientWidth;
      view.refresh();
    }
  }).observe(host);
  const shown = (): Bar[] => state.visible().flatMap((run) => barsOf(run, true));
  const exports = exportButtons(title, () => [['row', 'part', style.label], ...shown().map((bar) => [bar.row, bar.part, bar.value])], () => pictureOf(host, title, bigEnough(shown()).map((part) => ({color: style.colorOf(part), text: part}))));
  return section(id, title, lead, exports, host);
}

const prefix = (run: Run, several: boolean): string => (several ? `${shortened(run.name)}: ` : '');
const shortened = (name: string): string => (name.length > 28 ? `${name.slice(0, 27)}…` : name);

// "rank 3, stage 1" of ranks that hold the same bytes: "ranks 2-3, stage 1".
function joined(rows: MemoryRow[]): MemoryRow[] {
  const groups = new Map<string, {ranks: number[]; rest: string; row: MemoryRow}>();
  for (const row of rows) {
    const [, rank, rest] = /^rank (\d+)(.*)$/.exec(row.label) ?? [];
    const key = rank === undefined ? row.label : `${rest} ${JSON.stringify(row.kinds)}`;
    const group = groups.get(key) ?? {ranks: [], rest: rest ?? '', row};
    if (rank !== undefined) {
      group.ranks.push(Number(rank));
    }
    groups.set(key, group);
  }
  return [...groups.values()].map(({ranks, rest, row}) => ({...row, label: ranks.length > 1 ? `each of ranks ${rangesOf(ranks.sort((a, b) => a - b))}${rest}` : row.label}));
}

export function memorySection(state: State): HTMLElement {
  const barsOf = (run: Run, several: boolean): Bar[] => (['measured', 'predicted'] as const).flatMap((source) =>
    joined(run.data.memory[source]).flatMap((row) => Object.entries(row.kinds).map(([part, value]) => ({row: `${prefix(run, several)}${row.label}, ${source}`, part, value}))));
  const lead = 'Bytes by kind that a rank holds, above what was planned for its stage. Ranks that hold the same are one row.';
  return barsSection({id: 'memory', title: 'Memory per rank', lead, style: {label: 'bytes per rank', format: bytes, colorOf: memoryColor}, barsOf}, state);
}

export function secondsSection(state: State): HTMLElement {
  const barsOf = (run: Run, several: boolean): Bar[] => {
    const {measured_causes: measured, predicted_causes: predicted} = run.data.seconds;
    return Object.entries({measured, predicted}).flatMap(([label, causes]) => Object.entries(causes).map(([part, value]) => ({row: prefix(run, several) + label, part, value})));
  };
  const lead = 'Medians on rank 0, above what was predicted. Colours are those of the timeline.';
  return barsSection({id: 'seconds', title: 'Where the seconds of a step went', lead, style: {label: 'seconds of a step', format: seconds, colorOf: workColor}, barsOf}, state);
}

export interface Point {
  x: number;
  y: number;
  name: string;
}

interface Axes {
  x: string;
  y: string;
  formatX: (value: number) => string;
  formatY: (value: number) => string;
  diagonal: boolean; // x and y mean the same: one domain, and the line where they are equal
}

// Points on logarithmic axes, each with its name on a tip.
export function scatter(points: Point[], axes: Axes): HTMLElement {
  return liveScatter(() => points, axes).host;
}

function liveScatter(pointsNow: () => Point[], axes: Axes): {host: HTMLElement; view: LazyView} {
  const host = element('div', {class: 'bars'});
  const ends = (values: number[]): [number, number] => [Math.min(...values) * 0.9, Math.max(...values) * 1.1];
  const view = new LazyView(host, () => {
    const points = pointsNow();
    if (points.length === 0) {
      host.replaceChildren();
      return;
    }
    const both = points.flatMap((point) => [point.x, point.y]);
    const [xs, ys] = axes.diagonal ? [ends(both), ends(both)] : [ends(points.map((point) => point.x)), ends(points.map((point) => point.y))];
    const size = Math.min(640, host.clientWidth || 640);
    host.replaceChildren(
      Plot.plot({
        width: size,
        height: size * 0.62,
        marginLeft: 72,
        marginBottom: 40,
        style: {background: 'transparent', color: color('text'), fontFamily: 'inherit', fontSize: '12px'},
        x: {type: 'log', domain: xs, label: axes.x, grid: true, ticks: 5, tickFormat: axes.formatX},
        y: {type: 'log', domain: ys, label: axes.y, grid: true, ticks: 5, tickFormat: axes.formatY},
        marks: [
          axes.diagonal ? Plot.line([[xs[0], xs[0]], [xs[1], xs[1]]], {stroke: color('muted'), strokeDasharray: '4 3'}) : null,
          Plot.dot(points, {x: 'x', y: 'y', fill: palette[0], fillOpacity: 0.75, r: 4, channels: {name: 'name'}, tip: {fill: color('panel'), stroke: color('border'), format: {x: axes.formatX, y: axes.formatY}} as any}),
        ],
      }),
    );
  });
  onTheme(() => view.refresh());
  return {host, view};
}

export const measuredAxes: Axes = {x: 'measured seconds of a step', y: 'predicted seconds of a step', formatX: seconds, formatY: seconds, diagonal: true};

export const comparedRuns = (state: State): Run[] => state.runs.filter((run) => run.data.seconds.measured > 0 && run.data.seconds.predicted > 0);

// Predicted against measured seconds of a step, one point a run.
export function scatterSection(state: State): HTMLElement {
  const {host, view} = liveScatter(() => comparedRuns(state).map((run) => ({x: run.data.seconds.measured, y: run.data.seconds.predicted, name: run.name})), measuredAxes);
  state.onChange(() => view.refresh());
  return section('predictions', 'Predicted against measured', 'One point per run; on the dashed line the two are equal.', exportButtons('Predicted against measured', null, () => pictureOf(host, 'Predicted against measured')), host);
}
