// Configurations side by side: by default the keys in which the shown runs differ.

import {element, LazyView, section} from './dom';
import {checkbox} from './dom';
import {swatch} from './curves';
import {State} from './state';

const mostColumns = 24;

export function configSection(state: State): HTMLElement {
  let all = state.runs.length === 1;
  const host = element('div', {class: 'scroll tall', tabindex: 0, role: 'group', 'aria-label': 'Configuration'});
  const draw = (): void => {
    const runs = state.visible().filter((run) => Object.keys(run.data.config).length > 0);
    const shown = runs.slice(0, mostColumns);
    const keys = [...new Set(runs.flatMap((run) => Object.keys(run.data.config)))].sort();
    const differing = keys.filter((key) => new Set(runs.map((run) => run.data.config[key])).size > 1);
    const listed = all ? keys : differing;
    if (listed.length === 0) {
      host.replaceChildren(element('p', {class: 'muted'}, runs.length > 1 ? 'The shown runs have the same configuration.' : 'No configuration.'));
      return;
    }
    const head = element('tr', {}, element('th', {scope: 'col', class: 'text'}, 'key'));
    shown.forEach((run) => head.append(element('th', {scope: 'col', class: 'text'}, swatch(run.color), run.name)));
    const body = element('tbody');
    for (const key of listed) {
      const row = element('tr', {class: all && shown.length > 1 && differing.includes(key) ? 'differs' : ''}, element('th', {scope: 'row', class: 'text'}, element('code', {}, key)));
      shown.forEach((run) => row.append(element('td', {class: 'text'}, run.data.config[key] ?? '–')));
      body.append(row);
    }
    host.replaceChildren(
      element('table', {}, element('thead', {}, head), body),
      ...(runs.length > shown.length ? [element('p', {class: 'muted'}, `${runs.length - shown.length} further runs are not in this table: show fewer above.`)] : []),
    );
  };
  const view = new LazyView(host, draw);
  state.onChange(() => view.refresh());
  return section(
    'config',
    'Configuration',
    '',
    element('div', {class: 'controls'}, checkbox('every key, not only those that differ', all, (value) => {
      all = value;
      view.refresh();
    })),
    host,
  );
}
