// A million points on a screen of a thousand columns: every column shows its smallest and its largest value, in their
// order, so that no spike is lost. Plain functions, without a document.

import type {Numbers} from './document';

export interface Curve {
  x: Numbers;
  y: Numbers;
}

export interface Aligned {
  x: number[] | Float64Array;
  ys: (number | null)[][];
}

// Exponential moving average, corrected for its start; values that are not finite are left out. weight 0: a copy.
export function smooth(values: Numbers, weight: number): Numbers {
  if (weight <= 0) {
    return values;
  }
  const result = new Float64Array(values.length);
  let mean = 0;
  let norm = 0;
  for (let i = 0; i < values.length; ++i) {
    if (Number.isFinite(values[i])) {
      mean = weight * mean + (1 - weight) * values[i];
      norm = weight * norm + (1 - weight);
    }
    result[i] = norm > 0 ? mean / norm : NaN;
  }
  return result;
}

// The first index with x[index] >= value; x ascends.
export function lowerBound(x: Numbers, value: number): number {
  let low = 0;
  let high = x.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (x[middle] < value) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

const exactLimit = 20000;

// Curves over [from, to] on one common x. Few points are kept as they are; many are reduced to `columns` pairs.
export function align(curves: Curve[], from: number, to: number, columns: number): Aligned {
  const ranges = curves.map((curve) => ({
    begin: Math.max(0, lowerBound(curve.x, from) - 1),
    end: Math.min(curve.x.length, lowerBound(curve.x, to) + 2),
  }));
  const points = ranges.reduce((sum, range) => sum + range.end - range.begin, 0);
  return points * Math.max(1, curves.length) <= exactLimit
    ? alignExactly(curves, ranges)
    : alignOnGrid(curves, ranges, from, to, columns);
}

function alignExactly(curves: Curve[], ranges: {begin: number; end: number}[]): Aligned {
  const xs = new Set<number>();
  curves.forEach((curve, i) => {
    for (let at = ranges[i].begin; at < ranges[i].end; ++at) {
      xs.add(curve.x[at]);
    }
  });
  const x = Float64Array.from(xs).sort();
  const place = new Map<number, number>();
  x.forEach((value, i) => place.set(value, i));
  const ys = curves.map((curve, i) => {
    const y: (number | null)[] = new Array(x.length).fill(null);
    for (let at = ranges[i].begin; at < ranges[i].end; ++at) {
      y[place.get(curve.x[at])!] = Number.isFinite(curve.y[at]) ? curve.y[at] : null;
    }
    return y;
  });
  return {x, ys};
}

function alignOnGrid(
  curves: Curve[],
  ranges: {begin: number; end: number}[],
  from: number,
  to: number,
  columns: number,
): Aligned {
  const width = (to - from) / columns || 1;
  const x = new Float64Array(2 * columns);
  for (let column = 0; column < columns; ++column) {
    x[2 * column] = from + (column + 0.25) * width;
    x[2 * column + 1] = from + (column + 0.75) * width;
  }
  const ys = curves.map((curve, i) => {
    const y: (number | null)[] = new Array(2 * columns).fill(null);
    let column = -1;
    let least = 0;
    let most = 0;
    const close = (): void => {
      if (column >= 0) {
        const [first, second] = least < most ? [least, most] : [most, least];
        y[2 * column] = curve.y[first];
        y[2 * column + 1] = curve.y[second];
      }
    };
    for (let at = ranges[i].begin; at < ranges[i].end; ++at) {
      const value = curve.y[at];
      if (!Number.isFinite(value)) {
        continue;
      }
      const here = Math.min(columns - 1, Math.max(0, Math.floor((curve.x[at] - from) / width)));
      if (here !== column) {
        close();
        column = here;
        least = most = at;
      } else {
        least = value < curve.y[least] ? at : least;
        most = value > curve.y[most] ? at : most;
      }
    }
    close();
    return y;
  });
  return {x, ys};
}
