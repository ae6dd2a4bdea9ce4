// The runs as a table: which are shown, their last losses, speed and memory, predicted next to measured, and the settings in
// which they differ.

import {swatch} from './curves';
import {Run} from './document';
import {element, section} from './dom';
import {exportButtons} from './export';
import {bytes, compact, digits, percent, seconds} from './format';
import {Sign, State} from './state';

interface Column {
  title: string;
  value: (run: Run) => number | string;
  text: (run: Run) => string;
  words?: boolean; // words stand on the left
}

// Measured over predicted seconds.
const slower = (run: Run): number => {
  const {measured, predicted} = run.data.seconds;
  return measured > 0 && predicted > 0 ? measured / predicted : NaN;
};

// As src/report/against_prediction.h has it.
const againstPrediction = (run: Run): string => {
  const times = Math.max(slower(run), 1 / slower(run));
  if (!Number.isFinite(times)) {
    return '–';
  }
  return times < 1.05 ? 'as predicted' : `${times.toFixed(times < 10 ? 1 : 0)}× ${slower(run) > 1 ? 'slower' : 'faster'}`;
};

const columns: Column[] = [
  {title: 'run', words: true, value: (run) => run.name, text: (run) => run.name},
  {title: 'layout', words: true, value: (run) => layoutOf(run), text: layoutOf},
  {title: 'steps', value: (run) => run.data.steps, text: (run) => `${compact(run.data.steps)}${run.data.total_steps > run.data.steps ? ` of ${compact(run.data.total_steps)}` : ''}`},
  {title: 'last loss', value: (run) => run.data.summary.loss ?? NaN, text: (run) => digits(run.data.summary.loss ?? NaN, 5)},
  {title: 'validation loss', value: (run) => run.lastValidation, text: (run) => digits(run.lastValidation, 5)},
  {title: 'tokens/s', value: (run) => run.data.summary.tokens_per_second, text: (run) => compact(run.data.summary.tokens_per_second)},
  {title: 's/step', value: (run) => run.data.seconds.measured, text: (run) => seconds(run.data.seconds.measured)},
  {title: 'predicted', value: (run) => run.data.seconds.predicted, text: (run) => seconds(run.data.seconds.predicted)},
  {title: 'against it', value: slower, text: againstPrediction},
  {title: 'of peak', value: (run) => run.data.summary.share_of_peak, text: (run) => (run.data.summary.share_of_peak > 0 ? percent(run.data.summary.share_of_peak) : '–')},
  {title: 'memory per rank', value: (run) => run.data.summary.memory_bytes, text: (run) => (run.data.summary.memory_bytes > 0 ? bytes(run.data.summary.memory_bytes) : '–')},
];

export function layoutOf(run: Run): string {
  const config = run.data.config;
  const part = (key: string, label: string): string => (config[`layout.${key}`] !== undefined ? `${label}${config[`layout.${key}`]}` : '');
  const degrees = [part('tensor', 'TP'), part('pipeline', 'PP'), part('data', 'DP')].filter((text) => text !== '').join(' ');
  const zero = config['layout.zero'];
  return zero !== undefined && zero !== '0' ? `${degrees} ZeRO ${zero}` : degrees;
}

const mostSettings = 10;
// Settings that the layout's column has, or that name places.
const toldElsewhere = /^(layout\.(tensor|pipeline|data|context|zero)$|run\.|log\.)/;

function settingColumns(runs: Run[]): Column[] {
  const keys = [...new Set(runs.flatMap((run) => Object.keys(run.data.config)))].sort();
  const differing = keys.filter((key) => !toldElsewhere.test(key) && new Set(runs.map((run) => run.data.config[key])).size > 1);
  return differing.slice(0, mostSettings).map((key) => ({
    title: key,
    words: true,
    value: (run) => (run.data.config[key] !== undefined && run.data.config[key] !== '' && Number.isFinite(Number(run.data.config[key])) ? Number(run.data.config[key]) : (run.data.config[key] ?? '')),
    text: (run) => run.data.config[key] ?? '–',
  }));
}

// "running", or that no step came for much longer than one takes.
export function stateOf(run: Run, sign: Sign): {text: string; wrong: boolean} {
  const step = run.data.seconds.measured;
  const over = /^(finished|stopped)/.test(sign.state) || (run.data.total_steps > 0 && run.data.steps >= run.data.total_steps);
  const wrong = /^(failed|no sign)/.test(sign.state);
  if (!over && !wrong && sign.silent > Math.max(10, 10 * step)) {
    return {text: `no step for ${Math.round(sign.silent)} s${step > 0 ? `; one takes ${seconds(step)}` : ''}`, wrong: true};
  }
  return {text: wrong || over ? sign.state || 'finished' : sign.silent < 0 ? 'starting' : 'training', wrong};
}

const compare = (a: number | string, b: number | string): number =>
  typeof a === 'string' || typeof b === 'string'
    ? String(a).localeCompare(String(b), undefined, {numeric: true})
    : (Number.isFinite(a) ? a : Infinity) - (Number.isFinite(b) ? b : Infinity);

class RunsTable {
  readonly body = element('tbody');
  readonly head = element('tr');
  readonly find = element('input', {type: 'search', placeholder: 'find runs', 'aria-label': 'Find runs by name'});
  readonly count = element('span', {class: 'muted', role: 'status'});
  private columns: Column[] = [];
  private drawn: unknown[] = [];

  constructor(private readonly state: State) {
    this.find.addEventListener('input', () => this.arrange());
    state.onChange(() => this.drawIfNeeded());
    this.drawIfNeeded();
  }

  // A thousand rows are not made again for a zoom.
  private drawIfNeeded(): void {
    const {runs, sort, signs} = this.state;
    const now = [sort?.column, sort?.down, ...runs.flatMap((run) => [run.data, run.visible, signs[run.index]])];
    if (now.length !== this.drawn.length || now.some((one, i) => one !== this.drawn[i])) {
      this.drawn = now;
      this.draw();
    }
  }

  matches(run: Run): boolean {
    return run.name.toLowerCase().includes(this.find.value.toLowerCase());
  }

  table(): (string | number)[][] {
    return [this.columns.map((column) => column.title), ...this.state.runs.map((run) => this.columns.map((column) => column.value(run)))];
  }

  draw(): void {
    const {state} = this;
    const told = (column: Column): boolean => column.words === true || state.runs.some((run) => column.text(run) !== '–');
    this.columns = [...columns.filter(told), ...(state.runs.length > 1 ? settingColumns(state.runs) : [])];
    if (state.signs.length > 0) {
      const about = (run: Run): {text: string; wrong: boolean} => (state.signs[run.index] === undefined ? {text: '', wrong: false} : stateOf(run, state.signs[run.index]!));
      this.columns.splice(1, 0, {title: 'state', words: true, value: (run) => about(run).text, text: (run) => about(run).text});
    }
    const focused = document.activeElement?.getAttribute('data-column') ?? null;
    this.head.replaceChildren(element('th', {class: 'pick'}, ''), ...this.columns.map((column) => this.heading(column)));
    if (focused !== null) {
      [...this.head.querySelectorAll<HTMLElement>('.sort')].find((button) => button.dataset.column === focused)?.focus();
    }
    this.arrange();
    this.count.textContent = `${state.visible().length} of ${state.runs.length} shown`;
  }

  private heading(column: Column): HTMLElement {
    const {state} = this;
    const button = element('button', {type: 'button', class: 'sort', 'data-column': column.title}, column.title);
    button.addEventListener('click', () => {
      state.sort = {column: column.title, down: state.sort?.column === column.title && !state.sort.down};
      state.changed();
    });
    const sorted = state.sort?.column === column.title ? (state.sort.down ? 'descending' : 'ascending') : undefined;
    return element('th', {scope: 'col', class: column.words === true ? 'text' : '', 'aria-sort': sorted}, button);
  }

  private row(run: Run): HTMLElement {
    const pick = element('input', {type: 'checkbox', checked: run.visible, 'aria-label': `Show ${run.name}`, 'data-run': run.index});
    pick.addEventListener('change', () => {
      run.visible = pick.checked;
      this.state.changed();
    });
    const cells = this.columns.map((column, i) => element(i === 0 ? 'th' : 'td', {scope: i === 0 ? 'row' : undefined, class: column.words === true ? 'text' : ''}, column.text(run)));
    cells[0].prepend(swatch(run.color));
    cells[0].title = run.data.path;
    const sign = this.state.signs[run.index];
    if (sign !== undefined && stateOf(run, sign).wrong) {
      cells[1].classList.add('wrong');
    }
    return element('tr', {}, element('td', {class: 'pick'}, pick), ...cells);
  }

  private arrange(): void {
    const {sort} = this.state;
    const kept = this.state.runs.filter((run) => this.matches(run));
    const column = this.columns.find(({title}) => title === sort?.column);
    if (column !== undefined) {
      kept.sort((a, b) => compare(column.value(a), column.value(b)) * (sort!.down ? -1 : 1));
    }
    const focused = document.activeElement?.getAttribute('data-run') ?? null;
    this.body.replaceChildren(...kept.map((run) => this.row(run)));
    if (focused !== null) {
      this.body.querySelector<HTMLElement>(`input[data-run="${Number(focused)}"]`)?.focus();
    }
  }
}

export function runsSection(state: State): HTMLElement {
  const table = new RunsTable(state);
  const show = (label: string, wanted: boolean): HTMLElement => {
    const button = element('button', {type: 'button'}, label);
    button.addEventListener('click', () => {
      state.runs.filter((run) => table.matches(run)).forEach((run) => (run.visible = wanted));
      state.changed();
    });
    return button;
  };
  const controls = element('div', {class: 'controls'}, table.find, show('Show', true), show('Hide', false), table.count, exportButtons('Runs', () => table.table(), null));
  const title = (): string => (state.runs.length === 1 ? 'The run' : `${state.runs.length} runs`);
  const made = section('runs', title(), '', controls,
    element('div', {class: 'scroll tall', tabindex: 0, role: 'group', 'aria-label': 'Table of runs'}, element('table', {class: 'runs'}, element('thead', {}, table.head), table.body)));
  const single = [table.find, ...controls.querySelectorAll('button:not(.export)'), table.count] as HTMLElement[];
  const adapt = (): void => {
    made.querySelector('h2')!.textContent = title();
    single.forEach((part) => (part.hidden = state.runs.length < 2));
  };
  state.onChange(adapt);
  adapt();
  return made;
}
