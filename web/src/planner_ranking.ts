// The ranking as a table and as a scatter of memory against time. Choosing a layout in either shows it in full.

import * as Plot from '@observablehq/plot';
import {element, LazyView, section} from './dom';
import {digits, seconds} from './format';
import {emptyText} from './planner_asking';
import {PlannerState} from './planner_state';
import {color, onTheme, palette} from './theme';

interface Candidate {
  layout: string;
  seconds: number;
  interval_seconds: [number, number];
  hardware_tflops: number;
  model_tflops: number;
  peak_gib: number;
  days?: number;
  device_hours?: number;
}

const shownAtFirst = 15;

// Digits as `trireme plan` prints them.
const columns: {name: string; title: string; text: (one: Candidate) => string}[] = [
  {name: 's/step', title: 'Predicted seconds of a step', text: (one) => one.seconds.toFixed(3)},
  {name: '80 % interval', title: 'Eight of ten such predictions lie within', text: (one) => `${one.interval_seconds[0].toFixed(3)}–${one.interval_seconds[1].toFixed(3)}`},
  {name: 'TFLOP/s per device', title: 'With recomputation', text: (one) => one.hardware_tflops.toFixed(1)},
  {name: 'model TFLOP/s', title: 'TFLOP/s per device that the model needs, without recomputation', text: (one) => one.model_tflops.toFixed(1)},
  {name: 'GiB per device', title: 'Memory of the fullest device', text: (one) => one.peak_gib.toFixed(1)},
  {name: 'days', title: 'Of the whole training, with checkpoints and restarts', text: (one) => one.days?.toFixed(1) ?? ''},
  {name: 'dev-hours', title: 'Device-hours of the whole training', text: (one) => one.device_hours?.toFixed(0) ?? ''},
];

function rankingSection(state: PlannerState): HTMLElement {
  const host = element('div', {class: 'scroll', tabindex: -1});
  const more = element('button', {type: 'button'}, 'Show all');
  const refused = element('div', {class: 'refused'});
  let all = false;
  const ranked = (): Candidate[] => state.ranking?.json.ranked ?? [];
  const draw = (): void => {
    const layouts = ranked();
    const told = columns.filter((column) => layouts.some((one) => column.text(one) !== ''));
    const head = element('tr', {}, element('th', {scope: 'col'}, ''), element('th', {scope: 'col', class: 'text'}, 'layout'), ...told.map((column) => element('th', {scope: 'col', title: column.title}, column.name)));
    const body = element('tbody', {});
    layouts.slice(0, all ? undefined : shownAtFirst).forEach((one, i) => {
      const choose = element('button', {type: 'button', class: 'choose', 'aria-pressed': one.layout === state.layout ? 'true' : 'false'}, one.layout);
      const row = element('tr', {class: one.layout === state.layout ? 'chosen' : ''}, element('td', {}, String(i + 1)), element('td', {class: 'text layout'}, choose), ...told.map((column) => element('td', {'data-name': column.name}, column.text(one))));
      row.addEventListener('click', () => state.choose(one.layout));
      body.append(row);
    });
    host.replaceChildren(layouts.length === 0 ? emptyText(state) : element('table', {class: 'runs layouts'}, element('thead', {}, head), body));
    more.hidden = all || layouts.length <= shownAtFirst;
    more.textContent = `Show all ${layouts.length}`;
    const reasons = Object.entries((state.ranking?.json.refused ?? {}) as {[reason: string]: number});
    refused.replaceChildren(
      element('details', {open: layouts.length === 0}, element('summary', {}, `${(state.ranking?.json.pruned ?? 0).toLocaleString('en')} proved slower; refused for ${reasons.length} reasons`),
        element('ul', {}, ...reasons.map(([reason, count]) => element('li', {}, `${count.toLocaleString('en')}: ${reason}`)))),
      ...(state.ranking?.notes ?? []).map((note) => element('p', {class: 'muted'}, note)),
    );
  };
  // Up and down go through the list, as in a file manager.
  host.addEventListener('keydown', (event) => {
    const buttons = [...host.querySelectorAll<HTMLButtonElement>('.choose')];
    const at = buttons.indexOf(document.activeElement as HTMLButtonElement);
    const to = event.key === 'ArrowDown' ? at + 1 : event.key === 'ArrowUp' ? at - 1 : -1;
    if (at >= 0 && buttons[to] !== undefined) {
      event.preventDefault();
      state.choose(buttons[to].textContent!);
      host.querySelectorAll<HTMLButtonElement>('.choose')[to].focus();
    }
  });
  more.addEventListener('click', () => {
    all = true;
    draw();
  });
  state.on('ranking', draw);
  state.on('chosen', () => {
    const focused = document.activeElement?.classList.contains('choose') === true ? document.activeElement.textContent : null;
    draw();
    [...host.querySelectorAll<HTMLButtonElement>('.choose')].find((button) => button.textContent === focused)?.focus();
  });
  return section('ranking', 'Ranking', 'The fastest layouts that fit. A click, or Enter, shows one in full below; the arrow keys go through them.', host, more, refused);
}

function scatterSection(state: PlannerState): HTMLElement {
  const host = element('div', {class: 'bars'});
  const view = new LazyView(host, () => {
    const json = state.ranking?.json ?? {};
    const front = new Set(((json.front ?? []) as Candidate[]).map((one) => one.layout));
    const points = [...new Map([...(json.ranked ?? []), ...(json.front ?? [])].map((one: Candidate) => [one.layout, one])).values()] as Candidate[];
    if (points.length === 0) {
      host.replaceChildren(emptyText(state));
      return;
    }
    const usable = state.ranking!.about.usable_gib;
    const width = Math.min(1100, host.clientWidth || 640);
    const times = points.map((one) => one.seconds);
    const plot = Plot.plot({
      width,
      height: Math.max(280, Math.min(440, width * 0.5)),
      marginLeft: 64,
      marginBottom: 42,
      style: {background: 'transparent', color: color('text'), fontFamily: 'inherit', fontSize: '12px'},
      x: {label: 'GiB per device, of the fullest', domain: [0, Math.max(usable, ...points.map((one) => one.peak_gib)) * 1.03], grid: true},
      y: {type: 'log', domain: [Math.min(...times) * 0.97, Math.max(...times) * 1.03], label: 'seconds of a step', grid: true, ticks: 6, tickFormat: (value: number) => digits(value, 3)},
      color: {domain: ['front: nothing is faster with as little memory', 'ranked'], range: [palette[2], palette[0]], legend: true},
      marks: [
        Plot.ruleX([usable], {stroke: color('muted'), strokeDasharray: '4 3'}),
        Plot.text([usable], {x: (value: number) => value, frameAnchor: 'top', dy: 10, dx: -4, textAnchor: 'end', text: () => 'usable per device', fill: color('muted')}),
        Plot.dot(points, {
          x: 'peak_gib',
          y: 'seconds',
          r: (one: Candidate) => (one.layout === state.layout ? 8 : 4.5),
          fill: (one: Candidate) => (front.has(one.layout) ? 'front: nothing is faster with as little memory' : 'ranked'),
          fillOpacity: 0.8,
          stroke: (one: Candidate) => (one.layout === state.layout ? color('text') : 'none'),
          channels: {layout: 'layout'},
          tip: {fill: color('panel'), stroke: color('border'), format: {x: (value: number) => `${value.toFixed(1)} GiB`, y: seconds, fill: false, r: false, stroke: false}} as any,
        }),
      ],
    });
    plot.addEventListener('click', () => {
      const value = (plot as unknown as {value: Candidate | null}).value;
      if (value !== null && value !== undefined) {
        state.choose(value.layout);
      }
    });
    host.replaceChildren(plot);
  });
  for (const change of ['ranking', 'chosen'] as const) {
    state.on(change, () => view.refresh());
  }
  onTheme(() => view.refresh());
  return section('scatter', 'Memory against time', 'One point per layout: the fastest ones, and those that no other beats in both. A click shows it in full.', host);
}

export const rankingSections = (state: PlannerState): HTMLElement[] => [rankingSection(state), scatterSection(state)];
