// The curves: one uPlot chart per quantity on a shared x axis. Drag zooms, a double click or 0 shows everything again;
// with the keyboard + and - zoom, the arrows move. What never changes is a line of text instead of a chart.

import uPlot from 'uplot';
import {Run, RunEvent} from './document';
import {checkbox, element, LazyView, section, segmented} from './dom';
import {compact, digits} from './format';
import {exportButtons, pictureOf} from './export';
import {align, Curve, smooth} from './resample';
import {constantText, quantities, Quantity} from './quantities';
import {RobustRange, robustRange} from './robust';
import {axes, Axis, State} from './state';
import {color, onTheme} from './theme';

const axisTitle: {[axis in Axis]: string} = {step: 'step', tokens: 'tokens', hours: 'hours of training'};
// Between ticks of steps and tokens.
const wholeSteps = Array.from({length: 45}, (_one, i) => [1, 2, 5][i % 3] * 10 ** Math.floor(i / 3));
const axisText = (axis: Axis, x: number): string => (axis === 'hours' ? digits(x, 4) : compact(Math.round(x)));
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
  private readonly cut = element('span', {class: 'cut'});
  private robust: RobustRange | null = null;
  private width = 0;
  constant: string | null = null;

  constructor(
    private readonly quantity: Quantity,
    private readonly state: State,
    sync: uPlot.SyncPubSub,
  ) {
    this.host = element(
      'figure',
      {class: 'chart', tabindex: 0, 'data-chart': quantity.id, 'aria-label': `${quantity.title}; + and - zoom, arrows move, 0 shows everything`},
      element('figcaption', {}, element('span', {}, quantity.title), this.cut, exportButtons(quantity.title, () => this.table(), () => this.picture())),
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

  // `data`: the runs that are shown, their numbers or the axis may be others.
  refresh(data: boolean): void {
    if (data) {
      this.tellConstant();
    }
    this.view.refresh();
  }

  private tellConstant(): void {
    const runs = this.state.visible();
    this.constant = constantText(this.quantity, runs, this.state.axis);
    this.host.hidden = this.constant !== null || !runs.some((run) => this.quantity.curve(run, this.state.axis).y.some((value) => Number.isFinite(value)));
  }

  // Every point of the range in view, a column per run.
  private table(): (string | number | null)[][] {
    const runs = this.state.visible();
    const [from, to] = this.state.range ?? wholeRange(this.state);
    const values = new Map<number, (number | null)[]>();
    runs.forEach((run, i) => {
      const {x, y} = this.quantity.curve(run, this.state.axis);
      x.forEach((at, k) => {
        if (at >= from && at <= to) {
          const row = values.get(at) ?? new Array(runs.length).fill(null);
          row[i] = y[k];
          values.set(at, row);
        }
      });
    });
    return [[axisTitle[this.state.axis], ...runs.map((run) => run.name)], ...[...values].sort(([a], [b]) => a - b).map(([at, row]) => [at, ...row])];
  }

  private picture(): Promise<HTMLCanvasElement> {
    const runs = this.state.visible();
    return pictureOf(this.box, this.quantity.title, runs.map((run) => ({color: run.color, text: run.name})));
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
    const cuts = !this.state.spikes && !this.state.logarithmic;
    this.robust = cuts ? robustRange(aligned.ys, this.quantity.startKept === true) : null;
    this.tellCut();
    this.plot = new uPlot(this.options(series, from, to, sync, runs), [aligned.x as any, ...aligned.ys] as any, this.box);
  }

  private tellCut(): void {
    const {robust} = this;
    const words: string[] = [];
    if (robust !== null && robust.above > 0) {
      words.push(`${robust.above} above, up to ${this.quantity.format(robust.greatest)}`);
    }
    if (robust !== null && robust.below > 0) {
      words.push(`${robust.below} below, down to ${this.quantity.format(robust.least)}`);
    }
    this.cut.textContent = words.length > 0 ? `points cut off: ${words.join('; ')}` : '';
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
        y: {distr: this.state.logarithmic ? 3 : 1, ...(this.robust === null ? {} : {range: [this.robust.low, this.robust.high] as [number, number]})},
      },
      axes: [
        {
          stroke: text, grid, ticks: grid, font, size: 32, incrs: this.state.axis === 'hours' ? undefined : wholeSteps, label: axisTitle[this.state.axis], labelFont: font, labelSize: 20, labelGap: 0,
          values: (_plot, ticks) => ticks.map((tick) => (this.state.axis === 'hours' ? digits(tick, 3) : compact(tick))),
        },
        {
          stroke: text, grid, ticks: grid, font, size: 62, label: this.quantity.unit, labelFont: font, labelSize: 20, labelGap: 0,
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
              this.state.setRangeSoon([
                plot.posToVal(plot.select.left, 'x'),
                plot.posToVal(plot.select.left + plot.select.width, 'x'),
              ]);
            }
          },
        ],
        setCursor: [(plot) => this.showTip(plot, runs)],
        draw: [(plot) => this.drawEvents(plot), (plot) => this.drawCuts(plot)],
      },
    };
  }

  // A small triangle at the edge for each point that is cut off.
  private drawCuts(plot: uPlot): void {
    const {robust} = this;
    if (robust === null) {
      return;
    }
    const {ctx} = plot;
    const size = 4 * devicePixelRatio;
    ctx.save();
    for (let i = 1; i < plot.data.length; ++i) {
      ctx.fillStyle = plot.series[i].stroke instanceof Function ? String((plot.series[i].stroke as (...of: unknown[]) => string)(plot, i)) : String(plot.series[i].stroke);
      plot.data[i].forEach((value, at) => {
        if (value === null || value === undefined || (value <= robust.high && value >= robust.low)) {
          return;
        }
        const x = plot.valToPos(plot.data[0][at], 'x', true);
        const up = value > robust.high;
        const tip = up ? plot.bbox.top : plot.bbox.top + plot.bbox.height;
        ctx.beginPath();
        ctx.moveTo(x, tip);
        ctx.lineTo(x - size, tip + (up ? 1.6 : -1.6) * size);
        ctx.lineTo(x + size, tip + (up ? 1.6 : -1.6) * size);
        ctx.fill();
      });
    }
    ctx.restore();
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
    const x = plot.data[0][idx];
    // A run that has ended, or has not begun, has no value here.
    const rows = runs
      .map((run, i) => ({run, value: reaches(this.quantity.curve(run, this.state.axis), x) ? nearest(plot.data[offset + i] as (number | null)[], idx) : null}))
      .filter((row): row is {run: Run; value: number} => row.value !== null)
      .sort((a, b) => Math.abs(plot.valToPos(a.value, 'y') - top) - Math.abs(plot.valToPos(b.value, 'y') - top))
      .slice(0, 8);
    this.tip.replaceChildren(element('div', {class: 'tip-x'}, `${axisTitle[this.state.axis]} ${axisText(this.state.axis, x)}`));
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

// Whether x is between the first and the last point of a curve, within the width of a column of a reduced one.
function reaches({x}: Curve, at: number): boolean {
  const slack = x.length > 1 ? (x[x.length - 1] - x[0]) / 400 : 0;
  return x.length > 0 && at >= x[0] - slack && at <= x[x.length - 1] + slack;
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

interface Controls {
  row: HTMLElement;
  show: () => void; // as the state says
}

function controlsOf(state: State): Controls {
  const smoothing = element('input', {type: 'range', min: 0, max: 0.999, step: 0.001, value: 0, id: 'smoothing'});
  const shown = element('output', {for: 'smoothing'}, 'off');
  smoothing.addEventListener('input', () => {
    state.smoothing = Number(smoothing.value);
    state.changed();
  });
  const reset = element('button', {type: 'button'}, 'Show everything');
  reset.addEventListener('click', () => state.setRange(null));
  const axis = segmented('axis', 'x axis', axes.map((value) => ({value, label: value})), state.axis, (value) => {
    state.axis = value as Axis;
    state.setRange(null);
  });
  const box = (label: string, name: 'logarithmic' | 'spikes' | 'events'): HTMLElement => checkbox(label, state[name], (value) => {
    state[name] = value;
    state.changed();
  });
  const boxes = {logarithmic: box('log scale', 'logarithmic'), spikes: box('whole spikes', 'spikes'), events: box('events', 'events')};
  boxes.spikes.title = 'Without it single spikes are cut off, and counted above the chart';
  const row = element('div', {class: 'controls'}, axis, element('label', {class: 'slider'}, 'Smoothing ', smoothing, shown), boxes.logarithmic, boxes.spikes, boxes.events, reset);
  const show = (): void => {
    reset.disabled = state.range === null;
    smoothing.value = String(state.smoothing);
    shown.textContent = state.smoothing > 0 ? `≈ ${Math.round(1 / (1 - state.smoothing))} steps` : 'off';
    axis.querySelectorAll('input').forEach((input) => (input.checked = input.value === state.axis));
    for (const name of ['logarithmic', 'spikes', 'events'] as const) {
      boxes[name].querySelector('input')!.checked = state[name];
    }
  };
  return {row, show};
}

export function curvesSection(state: State): HTMLElement {
  const sync = uPlot.sync('curves');
  const charts = quantities.map((quantity) => new Chart(quantity, state, sync));
  const constants = element('p', {class: 'constants'});
  const legend = element('p', {class: 'legend'});
  const {row, show} = controlsOf(state);
  let known: unknown[] = [];
  const refresh = (): void => {
    show();
    const now = [state.axis, ...state.visible().map((run) => run.data)];
    const data = now.length !== known.length || now.some((one, i) => one !== known[i]);
    known = now;
    charts.forEach((chart) => chart.refresh(data));
    if (!data) {
      return;
    }
    const told = charts.map((chart) => chart.constant).filter((text): text is string => text !== null);
    constants.replaceChildren(...(told.length > 0 ? [element('b', {}, 'The same in every step: '), told.join(' · ')] : []));
    const kinds = [...new Set(state.runs.flatMap((run) => run.data.events.map((event) => event.kind)))].filter((kind) => kind !== 'note');
    legend.replaceChildren(...(kinds.length > 0 ? ['Marks above the loss: ', ...kinds.flatMap((kind) => [element('span', {class: 'item'}, swatch(eventColors[kind] ?? eventColors.note), ` ${kind}`), ' '])] : []));
  };
  state.onChange(refresh);
  onTheme(() => charts.forEach((chart) => chart.refresh(false)));
  refresh();
  return section('curves', 'Curves', '', row, legend, constants, element('div', {class: 'grid'}, ...charts.map((chart) => chart.host)));
}
