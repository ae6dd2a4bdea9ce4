// Light, dark, or as the system says. Charts are canvases, which must be drawn again when the colours change.

export type Theme = 'auto' | 'light' | 'dark';

const dark = window.matchMedia('(prefers-color-scheme: dark)');
const listeners: (() => void)[] = [];
let chosen: Theme = 'auto';

export function onTheme(listener: () => void): void {
  listeners.push(listener);
}

export function setTheme(theme: Theme): void {
  chosen = theme;
  document.documentElement.dataset.theme = isDark() ? 'dark' : 'light';
  for (const listener of listeners) {
    listener();
  }
}

export const theme = (): Theme => chosen;
export const isDark = (): boolean => (printing || chosen === 'light' ? false : chosen === 'dark' || dark.matches);

let printing = false;
dark.addEventListener('change', () => setTheme(chosen));
window.addEventListener('beforeprint', () => {
  printing = true;
  setTheme(chosen);
});
window.addEventListener('afterprint', () => {
  printing = false;
  setTheme(chosen);
});

export function color(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

// Distinguishable for most kinds of colour blindness (Observable 10), readable on both grounds.
export const palette = [
  '#4269d0', '#efb118', '#ff725c', '#6cc5b0', '#3ca951', '#ff8ab7', '#a463f2', '#97bbf5', '#9c6b4e', '#9498a0',
];
