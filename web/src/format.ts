// Numbers for people.

export function digits(value: number, count = 4): string {
  if (!Number.isFinite(value)) {
    return '–';
  }
  if (value !== 0 && (Math.abs(value) >= 1e6 || Math.abs(value) < 1e-3)) {
    return value.toExponential(Math.max(0, count - 2));
  }
  return Number(value.toPrecision(count)).toLocaleString('en', {maximumSignificantDigits: count});
}

export function bytes(value: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  let unit = 0;
  while (Math.abs(value) >= 1000 && unit < units.length - 1) {
    value /= 1000;
    ++unit;
  }
  return `${value.toFixed(unit === 0 ? 0 : 1)} ${units[unit]}`;
}

export function seconds(value: number): string {
  if (!Number.isFinite(value) || value <= 0) {
    return '–';
  }
  if (value < 1e-3) {
    return `${digits(value * 1e6, 3)} µs`;
  }
  return value < 1 ? `${digits(value * 1e3, 3)} ms` : `${digits(value, 4)} s`;
}

// 12.5k, 3.4M: for axes and tables.
export function compact(value: number): string {
  if (!Number.isFinite(value)) {
    return '–';
  }
  const units: [number, string][] = [
    [1e12, 'T'],
    [1e9, 'B'],
    [1e6, 'M'],
    [1e3, 'k'],
  ];
  for (const [size, letter] of units) {
    if (Math.abs(value) >= size) {
      return `${Number((value / size).toPrecision(4))}${letter}`;
    }
  }
  return String(Number(value.toPrecision(4)));
}

export function percent(value: number, places = 1): string {
  return Number.isFinite(value) ? `${(100 * value).toFixed(places)} %` : '–';
}
