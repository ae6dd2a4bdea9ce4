// The curves: one uPlot chart per quantity on a shared x axis. Drag zooms, a double click or 0 shows everything again;
// with the keyboard + and - zoom, the arrows move.

import uPlot from 'uplot';
import {Run, RunEvent} from './document';
import {checkbox, element, LazyView, section, segmented} from './dom';
import {bytes, compact, digits} from './format';
import {align, Curve, smooth} from './resample';
import {Axis, State} from './state';
import {color, onTheme} from './theme';

interface Quantity {
  id: string;
  title: string;
  curve: (run: Run, axis: Axis) => Curve;
  format: (value: number) => string;
  smoothed: boolean;
  points?: boolean;
}

const ofColumn = (name: string) => (run: Run, axis: Axis): Curve => ({x: run.column(axis), y: run.column(name)});

// Validations have steps; the other axes come from the training row of the same step.
function validationCurve(run: Run, axis: Axis): Curve {
  const {step, loss} = run.data.validation;
  const steps = run.column('step');
  const axisColumn = run.column(axis);
  const x = new Float64Array(step.length);
  let at = 0;
  step.forEach((value, i) => {
    while (at + 1 < steps.length && steps[at] < value) {
      ++at;
    }
    x[i] = axis === 'step' || steps.length === 0 ? value : axisColumn[at];
  });
  return {x, y: Float64Array.from(loss, (value) => value ?? NaN)};
}

const quantities: Quantity[] = [
  {id: 'loss', title: 'Loss', curve: ofColumn('loss'), format: (v) => digits(v, 5), smoothed: true},
  {id: 'validation', title: 'Validation loss', curve: validationCurve, format: (v) => digits(v, 5), smoothed: false, points: true},
  {id: 'grad_norm', title: 'Gradient norm', curve: ofColumn('grad_norm'), format: (v) => digits(v, 4), smoothed: true},
  {id: 'learning_rate', title: 'Learning rate', curve: ofColumn('learning_rate'), format: (v) => digits(v, 4), smoothed: false},
  {id: 'tokens_per_second', title: 'Tokens per second', curve: ofColumn('tokens_per_second'), format: (v) => compact(v), smoothed: true},
  {id: 'seconds', title: 'Seconds per step', curve: ofColumn('seconds'), format: (v) => digits(v, 4), smoothed: true},
  {id: 'memory', title: 'Memory of the fullest rank', curve: ofColumn('memory_bytes'), format: bytes, smoothed: false},
  {id: 'batch', title: 'Global batch', curve: ofColumn('global_batch'), format: (v) => compact(v), smoothed: false},
];

const axisTitle: {[axis in Axis]: string} = {step: 'step', tokens: 'tokens', hours: 'hours of training'};
export const eventColors: {[kind: string]: string} = {
  spike: '#d97706',
  skip: '#dc2626',
  save: '#16a34a',
  start: '#2563eb',
  straggler: '#9333ea',
  slow: '#9333ea',
  note: '#6b7280',
};

interface PlacedEvent {
  x: number;
  event: RunEvent;
  run: Run;
}

// Where a run's events are on the axis.
function placedEvents(state: State): PlacedEvent[] {
  const placed: PlacedEvent[] = [];
  for (const run of state.visible()) {
    const steps = run.column('step');
    const axis = run.column(state.axis);
    let at = 0;
    for (const event of run.data.events) {
      if (event.kind === 'note' || placed.length > 2000) {
        continue;
      }
      while (at + 1 < steps.length && steps[at] < event.step) {
        ++at;
      }
      placed.push({x: state.axis === 'step' ? event.step : steps.length > 0 ? axis[at] : 0, event, run});
    }
  }
  return placed;
}

export function wholeRange(state: State): [number, number] {
  let low = Infinity;
  let high = -Infinity;
  for (const run of state.visible()) {
    const x = run.column(state.axis);
    if (x.length > 0) {
      low = Math.min(low, x[0]);
      high = Math.max(high, x[x.length - 1]);
    }
  }
  return low <= high ? [low, high === low ? low + 1 : high] : [0, 1];
}

class Chart {
  readonly host: HTMLElement;
  private readonly box = element('div', {class: 'plot'});
  private readonly tip = element('div', {class: 'tip', hidden: true});
  private plot: uPlot | null = null;
  private readonly view: LazyView;
  private width = 0;

  constructor(
    private readonly quantity: Quantity,
    private readonly state: State,
    sync: uPlot.SyncPubSub,
  ) {
    this.host = element(
      'figure',
      {class: 'chart', tabindex: 0, 'data-chart': quantity.id, 'aria-label': `${quantity.title}; + and - zoom, arrows move, 0 shows everything`},
      element('figcaption', {}, quantity.title),
      this.box,
      this.tip,
    );
    this.view = new LazyView(this.host, () => this.draw(sync));
    this.host.addEventListener('keydown', (event) => this.key(event));
    new ResizeObserver(() => {
      if (this.plot !== null && Math.abs(this.box.clientWidth - this.width) > 2) {
        this.view.refresh();
      }
    }).observe(this.box);
  }

  refresh(): void {
    this.view.refresh();
  }

  private key(event: KeyboardEvent): void {
    const [low, high] = this.state.range ?? wholeRange(this.state);
    const width = high - low;
    const steps: {[key: string]: [number, number] | null} = {
      '+': [low + width / 4, high - width / 4],
      '=': [low + width / 4, high - width / 4],
      '-': [low - width / 2, high + width / 2],
      ArrowLeft: [low - width / 5, high - width / 5],
      ArrowRight: [low + width / 5, high + width / 5],
      '0': null,
    };
    if (event.key in steps && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      const wanted = steps[event.key];
      const whole = wholeRange(this.state);
      const all = wanted !== null && wanted[0] <= whole[0] && wanted[1] >= whole[1];
      this.state.setRange(all ? null : wanted);
    }
  }

  // Raw curves behind the smoothed ones, while there are few.
  private series(runs: Run[], curves: Curve[]): {curves: Curve[]; series: uPlot.Series[]} {
    const {smoothing} = this.state;
    const many = runs.length > 40;
    const weight = this.quantity.smoothed ? smoothing : 0;
    const faint = weight > 0 && runs.length <= 8;
    const all: Curve[] = faint ? [...curves] : [];
    const series: uPlot.Series[] = [{}];
    const base = {spanGaps: true, points: {show: false}};
    if (faint) {
      runs.forEach((run) => series.push({...base, stroke: run.color + '50', width: 1}));
    }
    runs.forEach((run, i) => {
      all.push(weight > 0 ? {x: curves[i].x, y: smooth(curves[i].y, weight)} : curves[i]);
      series.push({
        ...base,
        stroke: many ? run.color + 'a0' : run.color,
        width: many ? 0.7 : 1.6,
        points: {show: this.quantity.points === true || curves[i].x.length < 3, size: 6, fill: run.color},
      });
    });
    return {curves: all, series};
  }

  private draw(sync: uPlot.SyncPubSub): void {
    const runs = this.state.visible();
    const found = runs.map((run) => this.quantity.curve(run, this.state.axis));
    this.host.hidden = !found.some((curve) => curve.y.some((value) => Number.isFinite(value)));
    this.plot?.destroy();
    this.plot = null;
    if (this.host.hidden) {
      return;
    }
    this.width = this.box.clientWidth || 600;
    const whole = wholeRange(this.state);
    const [from, to] = this.state.range ?? whole;
    const {curves, series} = this.series(runs, found);
    const columns = Math.max(60, Math.min(Math.ceil(this.width), Math.floor(200_000 / Math.max(1, curves.length))));
    const aligned = align(curves, from, to, columns);
    if (this.state.logarithmic) {
      for (const y of aligned.ys) {
        y.forEach((value, i) => (y[i] = value !== null && value > 0 ? value : null));
      }
    }
    this.plot = new uPlot(this.options(series, from, to, sync, runs), [aligned.x as any, ...aligned.ys] as any, this.box);
  }

  private options(series: uPlot.Series[], from: number, to: number, sync: uPlot.SyncPubSub, runs: Run[]): uPlot.Options {
    const text = color('muted');
    const grid = {stroke: color('grid'), width: 1};
    const font = '12px system-ui, sans-serif';
    return {
      width: this.width,
      height: Math.max(190, Math.min(300, Math.round(this.width * 0.5))),
      legend: {show: false},
      series,
      scales: {
        x: {time: false, range: () => [from, to]},
        y: {distr: this.state.logarithmic ? 3 : 1},
      },
      axes: [
        {
          stroke: text, grid, ticks: grid, font, size: 36,
          values: (_plot, ticks) => ticks.map((tick) => (this.state.axis === 'hours' ? digits(tick, 3) : compact(tick))),
        },
        {
          stroke: text, grid, ticks: grid, font, size: 64,
          values: (_plot, ticks) => ticks.map((tick) => (tick === null || tick === undefined ? '' : this.quantity.format(tick))),
        },
      ],
      cursor: {
        sync: {key: sync.key, setSeries: false},
        drag: {x: true, y: false, setScale: false},
        points: {show: runs.length <= 40},
        bind: {dblclick: () => () => (this.state.setRange(null), null)},
      },
      hooks: {
        setSelect: [
          (plot) => {
            if (plot.select.width > 3) {
              this.state.setRange([
                plot.posToVal(plot.select.left, 'x'),
                plot.posToVal(plot.select.left + plot.select.width, 'x'),
              ]);
            }
          },
        ],
        setCursor: [(plot) => this.showTip(plot, runs)],
        draw: [(plot) => this.drawEvents(plot)],
      },
    };
  }

  private drawEvents(plot: uPlot): void {
    if (!this.state.events || this.quantity.id !== 'loss') {
      return;
    }
    const ctx = plot.ctx;
    const ratio = devicePixelRatio;
    ctx.save();
    for (const {x, event} of placedEvents(this.state)) {
      const left = plot.valToPos(x, 'x', true);
      if (left < plot.bbox.left || left > plot.bbox.left + plot.bbox.width) {
        continue;
      }
      ctx.fillStyle = ctx.strokeStyle = eventColors[event.kind] ?? eventColors.note;
      ctx.globalAlpha = 0.35;
      ctx.lineWidth = ratio;
      ctx.beginPath();
      ctx.moveTo(left, plot.bbox.top);
      ctx.lineTo(left, plot.bbox.top + plot.bbox.height);
      ctx.stroke();
      ctx.globalAlpha = 1;
      ctx.beginPath();
      ctx.moveTo(left - 4 * ratio, plot.bbox.top);
      ctx.lineTo(left + 4 * ratio, plot.bbox.top);
      ctx.lineTo(left, plot.bbox.top + 7 * ratio);
      ctx.fill();
    }
    ctx.restore();
  }

  private showTip(plot: uPlot, runs: Run[]): void {
    const {idx, left = -1, top = -1} = plot.cursor;
    this.tip.hidden = idx === null || idx === undefined || left < 0;
    if (this.tip.hidden || idx === null || idx === undefined) {
      return;
    }
    const offset = plot.data.length - runs.length;
    const rows = runs
      .map((run, i) => ({run, value: nearest(plot.data[offset + i] as (number | null)[], idx)}))
      .filter((row): row is {run: Run; value: number} => row.value !== null)
      .sort((a, b) => Math.abs(plot.valToPos(a.value, 'y') - top) - Math.abs(plot.valToPos(b.value, 'y') - top))
      .slice(0, 8);
    const x = plot.data[0][idx];
    this.tip.replaceChildren(element('div', {class: 'tip-x'}, `${axisTitle[this.state.axis]} ${this.state.axis === 'hours' ? digits(x, 4) : compact(Math.round(x))}`));
    for (const {run, value} of rows) {
      this.tip.append(
        element('div', {}, swatch(run.color), element('b', {}, this.quantity.format(value)), ` ${runs.length > 1 ? run.name : ''}`),
      );
    }
    if (this.state.events && this.quantity.id === 'loss') {
      for (const near of placedEvents(this.state)) {
        if (Math.abs(plot.valToPos(near.x, 'x') - left) < 5) {
          this.tip.append(element('div', {class: 'tip-event'}, swatch(eventColors[near.event.kind] ?? eventColors.note), near.event.text));
          if (this.tip.childElementCount > 10) {
            break;
          }
        }
      }
    }
    const right = left > plot.bbox.width / devicePixelRatio / 2;
    this.tip.style.left = right ? '' : `${left + 84}px`;
    this.tip.style.right = right ? `${this.width - left - 48}px` : '';
  }
}

// The value at an index, or the closest one before it where the common axis has none.
function nearest(values: (number | null)[], index: number): number | null {
  for (let distance = 0; distance < 50; ++distance) {
    const value = values[index - distance] ?? null;
    if (value !== null) {
      return value;
    }
  }
  return null;
}

export function swatch(fill: string): HTMLElement {
  const mark = element('i', {class: 'swatch', 'aria-hidden': 'true'});
  mark.style.background = fill;
  return mark;
}

export function curvesSection(state: State): HTMLElement {
  const sync = uPlot.sync('curves');
  const charts = quantities.map((quantity) => new Chart(quantity, state, sync));
  const smoothing = element('input', {type: 'range', min: 0, max: 0.999, step: 0.001, value: 0, id: 'smoothing'});
  const shown = element('output', {for: 'smoothing'}, 'off');
  smoothing.addEventListener('input', () => {
    state.smoothing = Number(smoothing.value);
    shown.textContent = state.smoothing > 0 ? `≈ ${Math.round(1 / (1 - state.smoothing))} steps` : 'off';
    charts.forEach((chart) => chart.refresh());
  });
  const reset = element('button', {type: 'button'}, 'Show everything');
  reset.addEventListener('click', () => state.setRange(null));
  state.onChange(() => {
    reset.disabled = state.range === null;
    charts.forEach((chart) => chart.refresh());
  });
  reset.disabled = true;
  onTheme(() => charts.forEach((chart) => chart.refresh()));
  const kinds = [...new Set(state.runs.flatMap((run) => run.data.events.map((event) => event.kind)))].filter((kind) => kind !== 'note');
  return section(
    'curves',
    'Curves',
    '',
    element(
      'div',
      {class: 'controls'},
      segmented('axis', 'x axis', [{value: 'step', label: 'step'}, {value: 'tokens', label: 'tokens'}, {value: 'hours', label: 'hours'}], 'step', (value) => {
        state.axis = value as Axis;
        state.setRange(null);
      }),
      element('label', {class: 'slider'}, 'Smoothing ', smoothing, shown),
      checkbox('log scale', false, (value) => {
        state.logarithmic = value;
        state.changed();
      }),
      kinds.length > 0
        ? checkbox('events', true, (value) => {
            state.events = value;
            state.changed();
          })
        : null,
      reset,
    ),
    kinds.length > 0
      ? element('p', {class: 'legend'}, 'Marks above the loss: ', ...kinds.flatMap((kind) => [swatch(eventColors[kind] ?? eventColors.note), ` ${kind} `]))
      : null,
    element('div', {class: 'grid'}, ...charts.map((chart) => chart.host)),
  );
}
