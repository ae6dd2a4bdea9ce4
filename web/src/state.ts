// What the views share: which runs are shown, how curves are drawn, which part of the x axis is in view.

import type {Run} from './document';

export type Axis = 'step' | 'tokens' | 'hours';

export class State {
  axis: Axis = 'step';
  smoothing = 0;
  logarithmic = false;
  events = true;
  range: [number, number] | null = null; // null: everything
  private listeners: (() => void)[] = [];

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

  setRange(range: [number, number] | null): void {
    this.range = range;
    this.changed();
  }
}
