// The range of y that shows curves well: single spikes, which would flatten everything else, are cut off and counted.
// Plain functions, without a document.

export interface RobustRange {
  low: number;
  high: number;
  above: number; // points that are cut off
  below: number;
  greatest: number; // of all points
  least: number;
}

type Values = ArrayLike<number | null>;

function median(window: number[]): number {
  window.sort((a, b) => a - b);
  return window[window.length >> 1];
}

// Least and greatest median of a sliding window: what lasts for half of the window counts. `start_kept`: the window
// grows with the curve, so that a steep start, as that of a loss, is no spike.
function lastingRange(values: number[], startKept: boolean, positions: number): [number, number] {
  const half = Math.min(50, Math.max(2, Math.round(values.length / 60)));
  const stride = Math.max(1, Math.floor(values.length / positions));
  let [low, high] = [Infinity, -Infinity];
  for (let i = 0; i < values.length; i += stride) {
    const reach = startKept ? Math.min(half, i) : half;
    const middle = median(values.slice(Math.max(0, i - reach), i + reach + 1));
    low = Math.min(low, middle);
    high = Math.max(high, middle);
  }
  return [low, high];
}

// null: everything can be shown, or there is too little to tell.
export function robustRange(curves: Values[], startKept: boolean): RobustRange | null {
  let [low, high, least, greatest] = [Infinity, -Infinity, Infinity, -Infinity];
  const kept = curves.map((curve) => Array.from(curve).filter((value): value is number => value !== null && Number.isFinite(value)));
  const positions = Math.max(20, Math.floor(8000 / Math.max(1, kept.length)));
  for (const values of kept) {
    for (const value of values) {
      least = Math.min(least, value);
      greatest = Math.max(greatest, value);
    }
    if (values.length < 6) {
      values.forEach((value) => {
        low = Math.min(low, value);
        high = Math.max(high, value);
      });
      continue;
    }
    const [from, to] = lastingRange(values, startKept, positions);
    low = Math.min(low, from);
    high = Math.max(high, to);
  }
  const span = high - low || Math.abs(high) * 0.1 || 1;
  if (!(low <= high) || (greatest - high <= 1.5 * span && low - least <= 1.5 * span)) {
    return null;
  }
  const top = greatest - high > 1.5 * span ? high + 0.35 * span : greatest + 0.05 * span;
  const bottom = low - least > 1.5 * span ? low - 0.35 * span : least - 0.05 * span;
  let [above, below] = [0, 0];
  for (const values of kept) {
    for (const value of values) {
      above += value > top ? 1 : 0;
      below += value < bottom ? 1 : 0;
    }
  }
  return {low: bottom, high: top, above, below, greatest, least};
}
