// The pipeline over time: measured above predicted on one time axis, a row per stage or rank, idle time hatched. D3's
// zoom and scales over a canvas, which draws hundreds of stages; bars narrower than a pixel are joined.

import * as d3 from 'd3';
import {bytesArrayOf, EncodedTimeline, float32Of, float64Of, int32Of} from './document';
import {element, LazyView, section} from './dom';
import {exportButtons, pictureOf} from './export';
import {percent, seconds} from './format';
import {workColor} from './kinds';
import {State} from './state';
import {color, onTheme} from './theme';

export interface Track {
  name: string;
  start: Float64Array;
  length: Float32Array;
  kind: Uint8Array;
  microBatch: Int32Array;
}

export interface Shown {
  title: string;
  kinds: string[];
  tracks: Track[];
  calls: Map<Track, Track>; // the collectives of a track's rank
  seconds: number;
  idle: number; // share of all tracks' time
  between: {[kind: string]: number}; // shares of what is done between steps
}

const isMessage = (kind: string): boolean => kind === 'receive' || kind === 'send';
const betweenSteps = ['save', 'validate'];
const callsOf = (name: string): string | null => /^(rank \d+) communication$/.exec(name)?.[1] ?? null;

function decode(title: string, timeline: EncodedTimeline): Shown {
  return timelineParts(title, timeline.kinds, timeline.tracks.map((track) => ({
    name: track.name,
    start: float64Of(track.start),
    length: float32Of(track.length),
    kind: bytesArrayOf(track.kind),
    microBatch: int32Of(track.micro_batch),
  })));
}

export function timelineParts(title: string, kinds: string[], all: Track[]): Shown {
  const tracks = all.filter((track) => callsOf(track.name) === null);
  const calls = new Map<Track, Track>();
  for (const track of all) {
    const rank = callsOf(track.name);
    const own = rank === null ? undefined : tracks.find(({name}) => name === rank || name.startsWith(`${rank},`));
    if (own !== undefined) {
      calls.set(own, track);
    }
  }
  let end = 0;
  let busy = 0;
  const between: {[kind: string]: number} = {};
  for (const track of tracks) {
    track.start.forEach((start, i) => {
      const kind = kinds[track.kind[i]];
      end = Math.max(end, start + track.length[i]);
      busy += isMessage(kind) ? 0 : track.length[i];
      if (betweenSteps.includes(kind)) {
        between[kind] = (between[kind] ?? 0) + track.length[i];
      }
    });
  }
  const whole = end * Math.max(1, tracks.length) || 1;
  Object.keys(between).forEach((kind) => (between[kind] /= whole));
  return {title, kinds, tracks, calls, seconds: end, idle: end > 0 ? 1 - busy / whole : 0, between};
}

export class TimelineView {
  readonly host = element('div', {class: 'timeline'});
  private readonly canvas = element('canvas', {tabindex: 0, 'aria-label': 'Timeline; + and - zoom, arrows move, 0 shows everything'});
  private readonly tip = element('div', {class: 'tip', hidden: true});
  private transform = d3.zoomIdentity;
  private zoom: d3.ZoomBehavior<HTMLCanvasElement, unknown>;
  private readonly view: LazyView;
  private rowHeight = 22;
  private rows: {shown: Shown; track: Track; top: number}[] = [];
  private scale = d3.scaleLinear();
  private readonly left = 128;

  constructor(private readonly shown: Shown[]) {
    this.host.append(this.canvas, this.tip);
    this.view = new LazyView(this.host, () => this.draw());
    this.zoom = d3
      .zoom<HTMLCanvasElement, unknown>()
      .scaleExtent([1, 20000])
      // The wheel scrolls the page unless a key says that the timeline is meant.
      .filter((event: any) => (event.type === 'wheel' ? event.ctrlKey || event.metaKey || event.shiftKey : !event.button))
      .on('zoom', (event) => {
        this.transform = event.transform;
        this.view.refresh();
      });
    d3.select(this.canvas).call(this.zoom);
    this.canvas.addEventListener('keydown', (event) => this.key(event));
    this.canvas.addEventListener('mousemove', (event) => this.point(event));
    this.canvas.addEventListener('mouseleave', () => (this.tip.hidden = true));
    onTheme(() => this.view.refresh());
    new ResizeObserver(() => this.view.refresh()).observe(this.host);
  }

  legend(): HTMLElement {
    const kinds = new Set(this.shown.flatMap((one) => [...one.tracks, ...one.calls.values()].flatMap((track) => [...new Set(track.kind)].map((kind) => one.kinds[kind]))));
    const legend = element('p', {class: 'legend'});
    for (const kind of kinds) {
      if (kind.startsWith('pipeline ')) {
        continue; // the messages of the row itself
      }
      const mark = element('i', {class: 'swatch'});
      mark.style.background = workColor(kind);
      mark.style.opacity = isMessage(kind) ? '0.4' : '1';
      legend.append(element('span', {class: 'item'}, mark, ` ${kind.replace(/_/g, '-')}`), ' ');
    }
    legend.append(element('span', {class: 'item'}, element('i', {class: 'swatch hatched'}), ' idle (bubble)'));
    return legend;
  }

  private key(event: KeyboardEvent): void {
    const selection = d3.select(this.canvas);
    const actions: {[key: string]: () => void} = {
      '+': () => this.zoom.scaleBy(selection, 1.5),
      '=': () => this.zoom.scaleBy(selection, 1.5),
      '-': () => this.zoom.scaleBy(selection, 1 / 1.5),
      '0': () => this.zoom.transform(selection, d3.zoomIdentity),
      ArrowLeft: () => this.zoom.translateBy(selection, 60 / this.transform.k, 0),
      ArrowRight: () => this.zoom.translateBy(selection, -60 / this.transform.k, 0),
    };
    if (actions[event.key] !== undefined) {
      event.preventDefault();
      actions[event.key]();
    }
  }

  private draw(): void {
    const width = this.host.clientWidth || 800;
    const count = this.shown.reduce((sum, one) => sum + one.tracks.length, 0);
    this.rowHeight = Math.max(2, Math.min(24, Math.floor(900 / Math.max(1, count))));
    const heading = 30;
    const height = this.shown.reduce((sum, one) => sum + heading + one.tracks.length * this.rowHeight, 0) + 30;
    const ratio = devicePixelRatio;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    this.zoom.extent([[this.left, 0], [width, height]]).translateExtent([[this.left, 0], [width, height]]);
    const longest = Math.max(...this.shown.map((one) => one.seconds), 1e-9);
    const base = d3.scaleLinear().domain([0, longest]).range([this.left, width - 8]);
    this.scale = this.transform.rescaleX(base);
    const ctx = this.canvas.getContext('2d')!;
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    ctx.clearRect(0, 0, width, height);
    ctx.font = '12px system-ui, sans-serif';
    ctx.textBaseline = 'middle';
    this.rows = [];
    let top = 0;
    for (const one of this.shown) {
      ctx.fillStyle = color('text');
      ctx.font = '600 12px system-ui, sans-serif';
      ctx.fillText(headingOf(one), 0, top + heading / 2 + 2);
      ctx.font = '12px system-ui, sans-serif';
      top += heading;
      one.tracks.forEach((track) => {
        this.drawTrack(ctx, one, track, top, width);
        this.rows.push({shown: one, track, top});
        top += this.rowHeight;
      });
    }
    this.drawAxis(ctx, top, width);
  }

  private drawTrack(ctx: CanvasRenderingContext2D, one: Shown, track: Track, top: number, width: number): void {
    const height = this.rowHeight - (this.rowHeight > 6 ? 2 : 0);
    if (this.rowHeight >= 11) {
      ctx.fillStyle = color('muted');
      ctx.fillText(track.name, 0, top + height / 2, this.left - 8);
    }
    const begin = Math.max(this.left, this.scale(0));
    const end = Math.min(width, this.scale(one.seconds));
    ctx.save();
    ctx.beginPath();
    ctx.rect(begin, top, Math.max(0, end - begin), height);
    ctx.clip();
    const calls = height >= 8 ? one.calls.get(track) : undefined;
    ctx.fillStyle = color('bubble');
    ctx.fillRect(begin, top, Math.max(0, end - begin), height);
    if (height >= 6) {
      ctx.strokeStyle = color('hatch');
      ctx.lineWidth = 1;
      ctx.beginPath();
      for (let x = begin - height; x < end; x += 6) {
        ctx.moveTo(x, top + height);
        ctx.lineTo(x + height, top);
      }
      ctx.stroke();
    }
    const strip = calls === undefined ? 0 : Math.max(3, Math.round(height * 0.3));
    this.drawSlices(ctx, one, track, {top, height: height - strip, width});
    if (calls !== undefined) {
      this.drawSlices(ctx, one, calls, {top: top + height - strip, height: strip, width});
    }
    ctx.globalAlpha = 1;
    ctx.restore();
  }

  private drawSlices(ctx: CanvasRenderingContext2D, one: Shown, track: Track, {top, height, width}: {top: number; height: number; width: number}): void {
    const scaled = this.scale(1) - this.scale(0);
    const origin = this.scale(0);
    let joinedTo = -1;
    let joinedKind = -1;
    for (let i = 0; i < track.start.length; ++i) {
      const x = origin + track.start[i] * scaled;
      const w = track.length[i] * scaled;
      if (x + w < this.left || x > width) {
        continue;
      }
      // Bars that are narrower than half a pixel: one for all that fall on it.
      if (w < 0.5 && x < joinedTo && joinedKind === track.kind[i]) {
        continue;
      }
      const kind = one.kinds[track.kind[i]];
      if (kind.startsWith('pipeline ')) {
        continue; // drawn as the row's own sends and receives
      }
      ctx.fillStyle = workColor(kind);
      // Waiting for a message is no work: it is drawn faintly.
      const waits = isMessage(kind);
      ctx.globalAlpha = waits ? 0.3 : track.microBatch[i] >= 0 && track.microBatch[i] % 2 === 1 ? 0.78 : 1;
      const drawn = Math.max(w - (w > 3 ? 0.7 : 0), 0.6);
      ctx.fillRect(x, top, drawn, height);
      joinedTo = x + 0.6;
      joinedKind = track.kind[i];
      if (drawn > 18 && height >= 11 && track.microBatch[i] >= 0 && !waits) {
        ctx.globalAlpha = 1;
        ctx.fillStyle = '#fff';
        ctx.textAlign = 'center';
        ctx.fillText(String(track.microBatch[i]), Math.max(x, this.left) + Math.min(drawn, width) / 2, top + height / 2 + 0.5);
        ctx.textAlign = 'left';
      }
    }
  }

  private drawAxis(ctx: CanvasRenderingContext2D, top: number, width: number): void {
    ctx.fillStyle = color('muted');
    ctx.strokeStyle = color('grid');
    ctx.textAlign = 'center';
    for (const tick of this.scale.ticks(Math.max(3, Math.floor(width / 110)))) {
      const x = this.scale(tick);
      if (x >= this.left && x < width - 20) {
        ctx.beginPath();
        ctx.moveTo(x, top);
        ctx.lineTo(x, top + 5);
        ctx.stroke();
        ctx.fillText(tick === 0 ? '0' : seconds(tick), x, top + 15);
      }
    }
    ctx.textAlign = 'left';
  }

  private point(event: MouseEvent): void {
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const row = this.rows.find(({top}) => y >= top && y < top + this.rowHeight);
    this.tip.hidden = true;
    if (row === undefined || x < this.left) {
      return;
    }
    const at = this.scale.invert(x);
    const {shown} = row;
    const calls = shown.calls.get(row.track);
    const track = calls !== undefined && y - row.top > 0.68 * this.rowHeight ? calls : row.track;
    let found = -1;
    for (let i = 0; i < track.start.length; ++i) {
      if (track.start[i] <= at && at < track.start[i] + track.length[i]) {
        found = i;
      }
    }
    const text = found < 0 ? (track === calls ? 'no collective' : 'idle') : `${shown.kinds[track.kind[found]].replace(/_/g, '-')}${track.microBatch[found] >= 0 ? `, micro batch ${track.microBatch[found]}` : ''}: ${seconds(track.length[found])} from ${seconds(track.start[found])}`;
    this.tip.replaceChildren(element('div', {class: 'tip-x'}, `${shown.title}, ${track.name}`), element('div', {}, text));
    this.tip.hidden = false;
    this.tip.style.left = `${Math.min(x + 12, box.width - 220)}px`;
    this.tip.style.top = `${y + 14}px`;
  }
}

// "measured, step 12: 1.2 s, 5 % idle, 40 % save".
function headingOf(one: Shown): string {
  const between = Object.entries(one.between).map(([kind, share]) => `, ${percent(share, 0)} ${kind}`);
  return `${one.title}: ${seconds(one.seconds)}, ${percent(Math.max(0, one.idle), 0)} idle${between.join('')}`;
}

const controls = 'Ctrl + wheel, pinch, or + and - zoom; drag or the arrows move; 0 shows everything.';

// What rows are, of the timelines that are shown above each other.
function captionOf(shown: Shown[]): string {
  const parts = shown.map((one) => {
    const rows = one.tracks.some(({name}) => name.startsWith('rank')) ? 'rank' : 'stage';
    const calls = one.calls.size > 0 ? ', the collectives it takes part in along its lower edge' : '';
    return `${one.title}, a row per ${rows}${calls}`;
  });
  const text = parts.join('; below ');
  return `${text[0]?.toUpperCase() ?? ''}${text.slice(1)}. Numbers are micro batches. ${controls}`;
}

export interface TimelineGroup {
  name: string;
  timelines: EncodedTimeline[];
}

function groupElements({name, timelines}: TimelineGroup): HTMLElement[] {
  const shown = [...timelines]
    .sort((a, b) => Number(a.source.startsWith('predicted')) - Number(b.source.startsWith('predicted')))
    .map((timeline) => decode(timeline.source, timeline));
  const view = new TimelineView(shown);
  const rows = (): (string | number)[][] => shown.flatMap((one) => [...one.tracks, ...one.calls.values()].flatMap((track) =>
    [...track.start].map((start, i) => [one.title, track.name, one.kinds[track.kind[i]], track.microBatch[i], start, track.length[i]])));
  const exports = exportButtons(`Timeline ${name}`, () => [['source', 'row', 'kind', 'micro batch', 'start, s', 'length, s'], ...rows()], () => pictureOf(view.host, name));
  return [element('h3', {}, name, exports), element('p', {class: 'lead'}, captionOf(shown)), view.legend(), view.host];
}

// Groups are drawn anew when their timelines are others.
export function timelineSection(state: State, groupsNow: () => TimelineGroup[]): HTMLElement {
  const host = element('div');
  const drawn: {timelines: EncodedTimeline[]; part: HTMLElement}[] = [];
  const draw = (): void => {
    const groups = groupsNow();
    groups.forEach((group, i) => {
      if (drawn[i]?.timelines !== group.timelines) {
        drawn[i] = {timelines: group.timelines, part: element('div', {}, ...groupElements(group))};
      }
    });
    const parts = drawn.slice(0, groups.length).map(({part}) => part);
    if (parts.length !== host.childElementCount || parts.some((part, i) => host.children[i] !== part)) {
      host.replaceChildren(...parts);
    }
  };
  state.onChange(draw);
  draw();
  return section('timeline', 'Timeline', '', host);
}
