// What the views share: which runs are shown, how curves are drawn, which part of the x axis is in view. All of it can be
// written as the fragment of the page's address, and read from there.

import type {Run} from './document';

export type Axis = 'step' | 'tokens' | 'hours';
export const axes: Axis[] = ['step', 'tokens', 'hours'];

// What the server of a live page says of a run.
export interface Sign {
  state: string; // by its ledgers; empty: nothing is known
  silent: number; // seconds since its last line of metrics; negative: there is none
}

export class State {
  axis: Axis = 'step';
  smoothing = 0;
  logarithmic = false;
  events = true;
  spikes = false; // whether single spikes stretch the y axis
  range: [number, number] | null = null; // null: everything
  sort: {column: string; down: boolean} | null = null;
  signs: (Sign | undefined)[] = []; // by run; of a live page
  private listeners: (() => void)[] = [];
  private coming: [number, number] | null = null;

  constructor(readonly runs: Run[]) {}

  visible(): Run[] {
    return this.runs.filter((run) => run.visible);
  }

  onChange(listener: () => void): void {
    this.listeners.push(listener);
  }

  changed(): void {
    for (const listener of this.listeners) {
      listener();
    }
  }

  // After the event that is being handled: all charts get a drag, and each would draw anew while others still handle it.
  setRangeSoon(range: [number, number]): void {
    if (this.coming === null) {
      queueMicrotask(() => {
        this.setRange(this.coming);
        this.coming = null;
      });
    }
    this.coming = range;
  }

  setRange(range: [number, number] | null): void {
    this.range = range;
    this.changed();
  }
}

// 0,1,2,5 as "0-2,5".
export function rangesOf(numbers: number[]): string {
  const words: string[] = [];
  for (let i = 0; i < numbers.length; ) {
    let end = i;
    while (end + 1 < numbers.length && numbers[end + 1] === numbers[end] + 1) {
      ++end;
    }
    words.push(end > i ? `${numbers[i]}-${numbers[end]}` : String(numbers[i]));
    i = end + 1;
  }
  return words.join(',');
}

function inRanges(text: string, most: number): Set<number> {
  const found = new Set<number>();
  for (const word of text === '' ? [] : text.split(',')) {
    const [first, last = first] = word.split('-').map(Number);
    for (let i = first; Number.isInteger(first) && i <= Math.min(last, most - 1); ++i) {
      found.add(i);
    }
  }
  return found;
}

// Only what differs from a page that was just opened.
export function writeState(state: State): URLSearchParams {
  const words = new URLSearchParams();
  const put = (name: string, value: string, differs: boolean): void => void (differs && words.set(name, value));
  const hidden = state.runs.filter((run) => !run.visible).map((run) => run.index);
  put('axis', state.axis, state.axis !== 'step');
  put('smooth', String(state.smoothing), state.smoothing > 0);
  put('log', '1', state.logarithmic);
  put('events', '0', !state.events);
  put('spikes', '1', state.spikes);
  put('range', (state.range ?? []).map((end) => Number(end.toPrecision(8))).join('~'), state.range !== null);
  put('hide', rangesOf(hidden), hidden.length > 0);
  put('sort', `${state.sort?.down === true ? '-' : ''}${state.sort?.column}`, state.sort !== null);
  return words;
}

export function readState(words: URLSearchParams, state: State): void {
  const axis = words.get('axis') as Axis;
  const smoothing = Number(words.get('smooth') ?? 0);
  const range = (words.get('range') ?? '').split('~').map(Number);
  const sort = words.get('sort');
  state.axis = axes.includes(axis) ? axis : 'step';
  state.smoothing = smoothing > 0 && smoothing < 1 ? smoothing : 0;
  state.logarithmic = words.get('log') === '1';
  state.events = words.get('events') !== '0';
  state.spikes = words.get('spikes') === '1';
  state.range = range.length === 2 && range.every(Number.isFinite) && range[0] < range[1] ? [range[0], range[1]] : null;
  state.sort = sort === null ? null : {column: sort.replace(/^-/, ''), down: sort.startsWith('-')};
  const hidden = inRanges(words.get('hide') ?? '', state.runs.length);
  state.runs.forEach((run) => (run.visible = !hidden.has(run.index)));
}
