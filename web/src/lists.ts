// Events, machines, tables of measured studies, plans: lists and tables.

import {measuredAxes, scatter} from './bars';
import {eventColors, swatch} from './curves';
import {element, LazyView, section} from './dom';
import {bytes, digits, seconds} from './format';
import {ReportDocument, Table} from './document';
import {State} from './state';

const mostEvents = 500;

export function eventsSection(state: State): HTMLElement {
  const host = element('div', {class: 'scroll tall', tabindex: 0, role: 'group', 'aria-label': 'Events'});
  const view = new LazyView(host, () => {
    const runs = state.visible();
    const all = runs.flatMap((run) => run.data.events.map((event) => ({run, event})));
    const body = element('tbody');
    for (const {run, event} of all.slice(-mostEvents)) {
      body.append(
        element('tr', {},
          element('td', {}, String(event.step)),
          element('td', {class: 'text'}, event.time > 0 ? new Date(event.time * 1000).toISOString().slice(0, 19).replace('T', ' ') : '–'),
          element('td', {class: 'text'}, swatch(eventColors[event.kind] ?? eventColors.note), event.kind),
          element('td', {class: 'text'}, swatch(run.color), run.name),
          element('td', {class: 'text wide'}, event.text)),
      );
    }
    const head = element('tr', {}, ...['step', 'time (UTC)', 'kind', 'run', 'what happened'].map((title, i) => element('th', {scope: 'col', class: i > 0 ? 'text' : ''}, title)));
    host.replaceChildren(
      all.length > 0 ? element('table', {}, element('thead', {}, head), body) : element('p', {class: 'muted'}, 'The shown runs have no events.'),
      ...(all.length > mostEvents ? [element('p', {class: 'muted'}, `The last ${mostEvents} of ${all.length} events.`)] : []),
    );
  });
  state.onChange(() => view.refresh());
  return section('events', 'Events', '', host);
}

// Facts of machine.json as "a.b: value" lines; lists of objects are left to the file.
function facts(value: unknown, path: string, into: [string, string][]): void {
  if (value === null || value === '' || (Array.isArray(value) && value.length === 0)) {
    return;
  }
  if (Array.isArray(value)) {
    if (value.every((one) => typeof one !== 'object')) {
      into.push([path, value.join(', ')]);
    } else {
      value.forEach((one) => {
        const name = (one as any)?.name ?? (one as any)?.what;
        if (typeof name === 'string') {
          const rest = Object.entries(one as object).filter(([key, inner]) => key !== 'name' && key !== 'what' && typeof inner !== 'object');
          into.push([`${path}.${name}`, rest.map(([key, inner]) => (rest.length > 1 ? `${key} ${inner}` : String(inner))).join(', ')]);
        }
      });
    }
  } else if (typeof value === 'object') {
    for (const [key, inner] of Object.entries(value as object)) {
      facts(inner, path === '' ? key : `${path}.${key}`, into);
    }
  } else {
    into.push([path, typeof value === 'number' && path.endsWith('bytes') && value > 0 ? bytes(value) : String(value)]);
  }
}

function machinesOf(state: State): {value: unknown; runs: string[]}[] {
  const machines = new Map<string, {value: unknown; runs: string[]}>();
  for (const run of state.runs) {
    if (run.data.machine !== null) {
      const {memory: _memory, ...stable} = run.data.machine as any;
      const key = JSON.stringify(stable);
      const known = machines.get(key) ?? {value: run.data.machine, runs: []};
      known.runs.push(run.name);
      machines.set(key, known);
    }
  }
  return [...machines.values()];
}

export function machineSection(state: State): HTMLElement {
  const host = element('div');
  let drawn = '';
  const draw = (): void => {
    const machines = machinesOf(state);
    const content = JSON.stringify(machines);
    if (content === drawn) {
      return;
    }
    drawn = content;
    host.replaceChildren(...machines.slice(0, 8).map(({value, runs}) => {
      const list: [string, string][] = [];
      facts(value, '', list);
      const body = element('tbody');
      list.forEach(([key, text]) => body.append(element('tr', {}, element('th', {scope: 'row', class: 'text'}, key), element('td', {class: 'text wide'}, text))));
      const system = (value as any)?.system?.host ?? 'machine';
      return element('details', {open: machines.length === 1}, element('summary', {}, `${system}: ${runs.length === 1 ? runs[0] : `${runs.length} runs`}`), element('div', {class: 'scroll tall', tabindex: 0, role: 'group', 'aria-label': 'Machine'}, element('table', {}, body)));
    }));
  };
  state.onChange(draw);
  draw();
  return section('machine', 'Machines', '', host);
}

function cell(value: string | number | null): HTMLElement {
  if (value === null) {
    return element('td', {}, '–');
  }
  return typeof value === 'number' ? element('td', {}, Number.isInteger(value) ? String(value) : digits(value, 4)) : element('td', {class: 'text'}, value);
}

// Predicted against measured, where the table has both.
function pointsOf(table: Table): HTMLElement[] {
  const [measured, predicted] = [table.columns.indexOf('sec/it'), table.columns.indexOf('predicted')];
  const points = table.rows
    .map((row) => ({x: Number(row[measured]), y: Number(row[predicted]), name: String(row[0])}))
    .filter((point) => point.x > 0 && point.y > 0);
  return measured >= 0 && predicted >= 0 && points.length > 1 ? [element('h4', {}, 'Predicted against measured'), scatter(points, measuredAxes)] : [];
}

export function tablesSection(tables: Table[]): HTMLElement {
  const content = tables.flatMap((table) => [
    element('h3', {}, table.name),
    element('div', {class: 'scroll tall', tabindex: 0, role: 'group', 'aria-label': table.name},
      element('table', {},
        element('thead', {}, element('tr', {}, ...table.columns.map((title, i) => element('th', {scope: 'col', class: typeof table.rows[0]?.[i] === 'string' ? 'text' : ''}, title)))),
        element('tbody', {}, ...table.rows.map((row) => element('tr', {}, ...row.map(cell)))))),
    ...pointsOf(table),
  ]);
  return section('studies', 'Measured studies', 'Written by trireme bench.', ...content);
}

// Ranked layouts as plan --json writes them; what is no number or text stays in the file.
function rankedLayouts(plan: {[key: string]: any}): {[key: string]: any}[] {
  for (const key of ['ranked', 'front']) {
    if (Array.isArray(plan[key]) && plan[key].length > 0) {
      return plan[key];
    }
  }
  return [];
}

export function plansSection(plans: ReportDocument['plans']): HTMLElement {
  const content = plans.flatMap(({name, plan}) => {
    const layouts = rankedLayouts(plan);
    const first = ['layout', 'seconds', 'peak_gib', 'tokens_per_second'];
    const keys = [...new Set([...first, ...layouts.flatMap((layout) => Object.keys(layout))])].filter((key) => layouts.some((layout) => ['number', 'string'].includes(typeof layout[key])));
    const head = element('tr', {}, ...keys.map((key) => element('th', {scope: 'col', class: typeof layouts[0]?.[key] === 'string' ? 'text' : ''}, key.replace(/_/g, ' '))));
    const body = layouts.slice(0, 100).map((layout) => element('tr', {}, ...keys.map((key) => cell(['number', 'string'].includes(typeof layout[key]) ? layout[key] : null))));
    const front = [...(Array.isArray(plan.front) ? plan.front : []), ...layouts]
      .map((layout) => ({x: Number(layout.peak_gib), y: Number(layout.seconds), name: String(layout.layout)}))
      .filter((point) => point.x > 0 && point.y > 0);
    const axes = {x: 'memory, GiB per device', y: 'seconds of a step', formatX: (value: number) => digits(value, 3), formatY: seconds, diagonal: false};
    return [
      element('h3', {}, name),
      ...(front.length > 1 ? [element('h4', {}, 'Time against memory: the fastest layouts, and those that no other beats in both'), scatter(front, axes)] : []),
      layouts.length > 0
        ? element('div', {class: 'scroll tall', tabindex: 0, role: 'group', 'aria-label': name}, element('table', {}, element('thead', {}, head), element('tbody', {}, ...body)))
        : element('pre', {class: 'scroll tall', tabindex: 0}, JSON.stringify(plan, null, 2)),
    ];
  });
  return section('plans', 'Plans', 'Layouts as the planner ranks them.', ...content);
}
