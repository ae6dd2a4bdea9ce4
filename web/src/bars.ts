// Stacked bars: memory by kind, and where the seconds of a step went. Observable Plot.

import * as Plot from '@observablehq/plot';
import {Run} from './document';
import {element, LazyView, section} from './dom';
import {bytes, seconds} from './format';
import {State} from './state';
import {color, onTheme, palette} from './theme';

const mostRuns = 12;
const mostRows = 64;

export interface Bar {
  row: string;
  part: string;
  value: number;
}

// A `limit` is a dashed line across the bars.
export function stacked(bars: Bar[], parts: string[], format: (value: number) => string, label: string, width: number, limit?: number): HTMLElement | SVGElement {
  const rows = [...new Set(bars.map((bar) => bar.row))];
  const longest = Math.max(...rows.map((row) => row.length));
  return Plot.plot({
    width,
    height: 66 + rows.length * (rows.length > 24 ? 14 : 26),
    marginLeft: Math.min(width * 0.42, 24 + 6.6 * longest),
    marginRight: 24,
    marginBottom: 42,
    style: {background: 'transparent', color: color('text'), fontFamily: 'inherit', fontSize: '12px', overflow: 'visible'},
    x: {label, tickFormat: (value: number) => (value === 0 ? '0' : format(value)), ticks: Math.max(3, Math.floor(width / 130)), grid: true},
    y: {label: null, domain: rows, tickSize: 0},
    color: {domain: parts, range: parts.map((_part, i) => palette[i % palette.length]), legend: true},
    marks: [
      Plot.barX(bars, {x: 'value', y: 'row', fill: 'part', order: parts, insetTop: 2, insetBottom: 2, tip: {format: {x: format, y: true, fill: true}, fill: color('panel'), stroke: color('border')} as any, channels: {}}),
      Plot.ruleX([0], {stroke: color('muted')}),
      limit === undefined ? null : Plot.ruleX([limit], {stroke: color('text'), strokeDasharray: '4 3'}),
    ],
  });
}

function bigEnough(bars: Bar[]): string[] {
  const sums = new Map<string, number>();
  bars.forEach((bar) => sums.set(bar.part, (sums.get(bar.part) ?? 0) + bar.value));
  return [...sums].filter(([, sum]) => sum > 0).map(([part]) => part);
}

function barsSection(id: string, title: string, lead: string, label: string, format: (value: number) => string, state: State, barsOf: (run: Run, several: boolean) => Bar[]): HTMLElement {
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
    host.replaceChildren(bars.length > 0 ? stacked(bars, bigEnough(bars), format, label, host.clientWidth || 800) : element('p', {class: 'muted'}, 'The shown runs have no such record.'), ...notes);
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
  return section(id, title, lead, host);
}

const prefix = (run: Run, several: boolean): string => (several ? `${shortened(run.name)}: ` : '');
const shortened = (name: string): string => (name.length > 28 ? `${name.slice(0, 27)}…` : name);

export function memorySection(state: State): HTMLElement {
  return barsSection('memory', 'Memory', 'Bytes by kind: what each rank holds, above what was planned for its stage.', 'bytes', bytes, state, (run, several) => {
    const bars: Bar[] = [];
    for (const source of ['measured', 'predicted'] as const) {
      for (const row of run.data.memory[source]) {
        for (const [part, value] of Object.entries(row.kinds)) {
          bars.push({row: `${prefix(run, several)}${row.label}, ${source}`, part, value});
        }
      }
    }
    return bars;
  });
}

export function secondsSection(state: State): HTMLElement {
  return barsSection('seconds', 'Where the seconds of a step went', 'Medians on rank 0, above what was predicted.', 'seconds of a step', seconds, state, (run, several) => {
    const {measured_causes: measured, predicted_causes: predicted} = run.data.seconds;
    const bars: Bar[] = [];
    const add = (label: string, causes: {[cause: string]: number}): void => {
      for (const [part, value] of Object.entries(causes)) {
        bars.push({row: prefix(run, several) + label, part, value});
      }
    };
    add('measured', measured);
    add('predicted', predicted);
    return bars;
  });
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
  const host = element('div', {class: 'bars'});
  const ends = (values: number[]): [number, number] => [Math.min(...values) * 0.9, Math.max(...values) * 1.1];
  const view = new LazyView(host, () => {
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
  return host;
}

export const measuredAxes: Axes = {x: 'measured seconds of a step', y: 'predicted', formatX: seconds, formatY: seconds, diagonal: true};

// Predicted against measured seconds of a step, one point a run.
export function scatterSection(state: State): HTMLElement | null {
  const points = state.runs
    .filter((run) => run.data.seconds.measured > 0 && run.data.seconds.predicted > 0)
    .map((run) => ({x: run.data.seconds.measured, y: run.data.seconds.predicted, name: run.name}));
  return points.length < 3 ? null : section('predictions', 'Predicted against measured', 'One point a run; on the dashed line the two are equal.', scatter(points, measuredAxes));
}
