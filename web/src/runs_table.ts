// The runs as a table: which are shown, their last loss, speed and memory, predicted beside measured.

import {swatch} from './curves';
import {Run} from './document';
import {element, section} from './dom';
import {bytes, compact, digits, percent, seconds} from './format';
import {State} from './state';

interface Column {
  title: string;
  value: (run: Run) => number | string;
  text: (run: Run) => string;
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
  {title: 'run', value: (run) => run.name, text: (run) => run.name},
  {title: 'layout', value: (run) => layoutOf(run), text: layoutOf},
  {title: 'steps', value: (run) => run.data.steps, text: (run) => `${compact(run.data.steps)}${run.data.total_steps > run.data.steps ? ` of ${compact(run.data.total_steps)}` : ''}`},
  {title: 'last loss', value: (run) => run.data.summary.loss ?? NaN, text: (run) => digits(run.data.summary.loss ?? NaN, 5)},
  {title: 'tokens/s', value: (run) => run.data.summary.tokens_per_second, text: (run) => compact(run.data.summary.tokens_per_second)},
  {title: 's/step', value: (run) => run.data.seconds.measured, text: (run) => seconds(run.data.seconds.measured)},
  {title: 'predicted', value: (run) => run.data.seconds.predicted, text: (run) => seconds(run.data.seconds.predicted)},
  {title: 'against it', value: slower, text: againstPrediction},
  {title: 'of peak', value: (run) => run.data.summary.share_of_peak, text: (run) => (run.data.summary.share_of_peak > 0 ? percent(run.data.summary.share_of_peak) : '–')},
  {title: 'memory', value: (run) => run.data.summary.memory_bytes, text: (run) => (run.data.summary.memory_bytes > 0 ? bytes(run.data.summary.memory_bytes) : '–')},
];

export function layoutOf(run: Run): string {
  const config = run.data.config;
  const part = (key: string, label: string): string => (config[`layout.${key}`] !== undefined ? `${label}${config[`layout.${key}`]}` : '');
  const degrees = [part('tensor', 'TP'), part('pipeline', 'PP'), part('data', 'DP')].filter((text) => text !== '').join(' ');
  const zero = config['layout.zero'];
  return zero !== undefined && zero !== '0' ? `${degrees} ZeRO ${zero}` : degrees;
}

export function runsSection(state: State): HTMLElement {
  const body = element('tbody');
  const head = element('tr', {}, element('th', {class: 'pick'}, ''));
  const find = element('input', {type: 'search', placeholder: 'find runs', 'aria-label': 'Find runs by name'});
  const count = element('span', {class: 'muted', role: 'status'});
  let order = {column: -1, down: false};

  const rows = state.runs.map((run) => {
    const pick = element('input', {type: 'checkbox', checked: run.visible, 'aria-label': `Show ${run.name}`});
    pick.addEventListener('change', () => {
      run.visible = pick.checked;
      update();
      state.changed();
    });
    const cells = columns.map((column, i) => element(i === 0 ? 'th' : 'td', {scope: i === 0 ? 'row' : undefined, class: i < 2 ? 'text' : ''}, column.text(run)));
    cells[0].prepend(swatch(run.color));
    cells[0].title = run.data.path;
    return {run, pick, row: element('tr', {}, element('td', {class: 'pick'}, pick), ...cells)};
  });

  const update = (): void => {
    const shown = state.visible().length;
    count.textContent = `${shown} of ${state.runs.length} shown`;
  };
  const arrange = (): void => {
    const word = find.value.toLowerCase();
    const kept = rows.filter(({run}) => run.name.toLowerCase().includes(word));
    if (order.column >= 0) {
      const value = columns[order.column].value;
      kept.sort((a, b) => {
        const [x, y] = [value(a.run), value(b.run)];
        const less = typeof x === 'string' ? x.localeCompare(String(y), undefined, {numeric: true}) : (Number.isFinite(x) ? x : Infinity) - (Number.isFinite(y as number) ? (y as number) : Infinity);
        return order.down ? -less : less;
      });
    }
    body.replaceChildren(...kept.map(({row}) => row));
  };
  columns.forEach((column, i) => {
    const button = element('button', {type: 'button', class: 'sort'}, column.title);
    const cell = element('th', {scope: 'col', class: i < 2 ? 'text' : ''}, button);
    button.addEventListener('click', () => {
      order = {column: i, down: order.column === i && !order.down};
      head.querySelectorAll('th').forEach((other) => other.removeAttribute('aria-sort'));
      cell.setAttribute('aria-sort', order.down ? 'descending' : 'ascending');
      arrange();
    });
    head.append(cell);
  });
  find.addEventListener('input', arrange);
  const show = (label: string, wanted: (run: Run) => boolean): HTMLElement => {
    const button = element('button', {type: 'button'}, label);
    button.addEventListener('click', () => {
      const word = find.value.toLowerCase();
      for (const {run, pick} of rows) {
        run.visible = run.name.toLowerCase().includes(word) ? wanted(run) : run.visible;
        pick.checked = run.visible;
      }
      update();
      state.changed();
    });
    return button;
  };
  update();
  arrange();
  return section(
    'runs',
    state.runs.length === 1 ? 'The run' : `${state.runs.length} runs`,
    '',
    state.runs.length > 1 ? element('div', {class: 'controls'}, find, show('Show', () => true), show('Hide', () => false), count) : null,
    element('div', {class: 'scroll tall', tabindex: 0, role: 'group', 'aria-label': 'Table of runs'}, element('table', {class: 'runs'}, element('thead', {}, head), body)),
  );
}
