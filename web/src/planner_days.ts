// Days of the training against the size of the allocation: the fastest layout of each.

import * as Plot from '@observablehq/plot';
import {element, LazyView, section} from './dom';
import {compact, digits} from './format';
import {steps} from './planner_form';
import type {Answer} from './planner_question';
import {PlannerState} from './planner_state';
import {color, onTheme, palette} from './theme';

interface Point {
  devices: number;
  days: number;
  hours: number;
  layout: string;
}

// A dozen searches: they wait until the plot comes near the screen, or until nobody has changed the question for so long.
const restMilliseconds = 4000;

export function daysSection(state: PlannerState): HTMLElement {
  const host = element('div', {class: 'bars'});
  const note = element('p', {class: 'muted', role: 'status', id: 'days-status'});
  let points: Point[] = [];
  const view = new LazyView(host, () => {
    void search();
    if (points.length === 0) {
      host.replaceChildren(element('p', {class: 'muted'}, state.tokens <= 0 ? 'Say how many tokens the training takes.' : state.busy || state.ranking !== null ? '…' : ''));
      return;
    }
    const width = Math.min(1100, host.clientWidth || 640);
    const ideal = points.map((point) => ({...point, days: (points[0].days * points[0].devices) / point.devices}));
    const axis = {background: 'transparent', color: color('text'), fontFamily: 'inherit', fontSize: '12px'};
    host.replaceChildren(
      Plot.plot({
        width,
        height: Math.max(260, Math.min(420, width * 0.45)),
        marginLeft: 60,
        marginBottom: 42,
        style: axis,
        x: {type: 'log', base: 2, label: 'devices', grid: true, ticks: points.map((point) => point.devices).filter((_devices, i) => i % Math.ceil((60 * points.length) / width) === 0), tickFormat: (value: number) => String(Math.round(value))},
        y: {type: 'log', label: 'days of the whole training', grid: true, ticks: 6, tickFormat: (value: number) => digits(value, 3)},
        marks: [
          Plot.line(ideal, {x: 'devices', y: 'days', stroke: color('muted'), strokeDasharray: '4 3'}),
          Plot.line(points, {x: 'devices', y: 'days', stroke: palette[0]}),
          Plot.dot(points, {x: 'devices', y: 'days', r: 4, fill: palette[0], channels: {layout: 'layout', 'device-hours': 'hours'}, tip: {fill: color('panel'), stroke: color('border'), format: {x: (value: number) => String(value), y: (value: number) => value.toFixed(1), 'device-hours': (value: number) => compact(value)}} as any}),
        ],
      }),
    );
  });
  let searched: Answer | null = null; // the ranking that `points` belong to
  const search = async (): Promise<void> => {
    const ranking = state.ranking;
    if (ranking === null || ranking === searched || state.busy || state.tokens <= 0) {
      return;
    }
    searched = ranking;
    const found = points;
    const about = ranking.about;
    // The batch of the ranking above holds for every allocation.
    const batch = ranking.json.global_batch as number;
    const counts = state.allocations ?? steps(about.nodes).filter((nodes) => nodes === state.nodes || (nodes & (nodes - 1)) === 0 || nodes === about.nodes);
    let skipped = 0;
    for (const nodes of counts) {
      note.textContent = `Searching ${nodes} of ${about.nodes} nodes …`;
      // A refusal counts as an allocation without a layout.
      const answer = await state.engine!.askLater(state.question({nodes, rows: 1, 'global-batch': batch})).catch(() => null);
      // Another question has been asked meanwhile.
      if (state.busy || state.ranking !== ranking) {
        return;
      }
      const best = answer?.json.ranked?.[0];
      if (best === undefined || best.days === undefined) {
        ++skipped;
      } else {
        found.push({devices: nodes * about.devices_per_node, days: best.days, hours: best.device_hours, layout: best.layout});
        view.refresh();
      }
    }
    note.textContent = `Global batch ${batch}, ${compact(state.tokens)} tokens. The dashed line is perfect scaling from the first point.${skipped > 0 ? ` On ${skipped} of ${counts.length} allocations no layout fits.` : ''}`;
  };
  let rest = 0;
  state.on('ranking', () => {
    note.textContent = '';
    points = [];
    view.refresh();
    clearTimeout(rest);
    rest = window.setTimeout(() => void search(), restMilliseconds);
  });
  onTheme(() => view.refresh());
  return section('days', 'Days against devices', 'The fastest layout of each allocation, with checkpoints and restarts.', host, note);
}
