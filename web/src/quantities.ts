// What the charts draw of a run: title, unit, values. What never changes is told as text.

import type {Run} from './document';
import {bytes, compact, digits} from './format';
import type {Curve} from './resample';
import type {Axis} from './state';

export interface Quantity {
  id: string;
  title: string;
  curve: (run: Run, axis: Axis) => Curve;
  unit: string; // the title of the y axis
  format: (value: number) => string;
  smoothed: boolean;
  points?: boolean;
  startKept?: boolean; // a steep start is no spike
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

export const quantities: Quantity[] = [
  {id: 'loss', title: 'Loss', unit: 'nats per token', curve: ofColumn('loss'), format: (v) => digits(v, 5), smoothed: true, startKept: true},
  {id: 'validation', title: 'Validation loss', unit: 'nats per token', curve: validationCurve, format: (v) => digits(v, 5), smoothed: false, points: true, startKept: true},
  {id: 'grad_norm', title: 'Gradient norm', unit: 'before clipping', curve: ofColumn('grad_norm'), format: (v) => digits(v, 4), smoothed: true},
  {id: 'learning_rate', title: 'Learning rate', unit: 'learning rate', curve: ofColumn('learning_rate'), format: (v) => digits(v, 4), smoothed: false, startKept: true},
  {id: 'tokens_per_second', title: 'Tokens per second', unit: 'tokens/s', curve: ofColumn('tokens_per_second'), format: (v) => compact(v), smoothed: true},
  {id: 'seconds', title: 'Seconds per step', unit: 'seconds', curve: ofColumn('seconds'), format: (v) => digits(v, 4), smoothed: true},
  {id: 'memory', title: 'Memory of the fullest rank', unit: 'per rank', curve: ofColumn('memory_bytes'), format: bytes, smoothed: false},
  {id: 'batch', title: 'Global batch', unit: 'samples', curve: ofColumn('global_batch'), format: (v) => compact(v), smoothed: false, startKept: true},
];

// The one value that a curve has; NaN: it has none, or several.
function constantOf(curve: Curve): number {
  let value = NaN;
  for (const one of curve.y) {
    if (Number.isFinite(one)) {
      if (Number.isFinite(value) && one !== value) {
        return NaN;
      }
      value = one;
    }
  }
  return value;
}

// "Global batch: 16" or "Global batch: 16 (a), 32 (b)", where no curve of the runs ever changes; null where one does.
export function constantText(quantity: Quantity, runs: Run[], axis: Axis): string | null {
  const rows = runs.map((run) => ({run, curve: quantity.curve(run, axis)})).filter(({curve}) => curve.y.some((value) => Number.isFinite(value)));
  const values = rows.map(({curve}) => (curve.y.length > 1 ? constantOf(curve) : NaN));
  if (rows.length === 0 || values.some((value) => Number.isNaN(value))) {
    return null;
  }
  const different = [...new Set(values)].sort((x, y) => x - y);
  if (different.length === 1) {
    return `${quantity.title}: ${quantity.format(different[0])}`;
  }
  return rows.length <= 4
    ? `${quantity.title}: ${rows.map(({run}, i) => `${quantity.format(values[i])} (${run.name})`).join(', ')}`
    : `${quantity.title}: from ${quantity.format(different[0])} to ${quantity.format(different[different.length - 1])}, the same in every step of a run`;
}
