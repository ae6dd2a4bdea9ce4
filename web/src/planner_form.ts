// The question: model, cluster, stack, sizes.

import {clusters, models, stacks} from 'virtual:planner-files';
import {element, section} from './dom';
import {compact} from './format';
import {pasted, PlannerState} from './planner_state';

function labelled(id: string, label: string, ...controls: HTMLElement[]): HTMLElement {
  return element('div', {class: 'field'}, element('label', {for: id}, label), ...controls);
}

function select(id: string, label: string, names: string[], chosen: string, extra: string, changed: (name: string) => void): {field: HTMLElement; input: HTMLSelectElement} {
  const input = element('select', {id});
  for (const name of names) {
    input.append(element('option', {value: name, selected: name === chosen}, name));
  }
  if (extra !== '') {
    input.append(element('option', {value: pasted}, extra));
  }
  input.addEventListener('change', () => changed(input.value));
  return {field: labelled(id, label, input), input};
}

// A text to paste, or a file to open, shown when the list's last entry is chosen.
function pasteBox(id: string, label: string, hint: string, taken: (text: string) => void): HTMLElement {
  const text = element('textarea', {id, rows: 6, placeholder: hint, spellcheck: 'false'});
  const file = element('input', {type: 'file', 'aria-label': `${label}: open a file`});
  text.addEventListener('change', () => taken(text.value));
  file.addEventListener('change', () => {
    void file.files?.[0]?.text().then((read) => {
      text.value = read;
      taken(read);
    });
  });
  return element('div', {class: 'field paste', hidden: true}, element('label', {for: id}, label), text, file);
}

// A slider over chosen values with a box for any other.
class Slider {
  readonly field: HTMLElement;
  private readonly range: HTMLInputElement;
  private readonly box: HTMLInputElement;
  private values: number[] = [];

  constructor(id: string, label: string, private readonly none: string, changed: (value: number) => void) {
    this.range = element('input', {type: 'range', id, min: 0, max: 1, step: 1});
    this.box = element('input', {type: 'number', min: none === '' ? 1 : 0, 'aria-label': `${label}, as a number`});
    this.range.addEventListener('input', () => {
      const value = this.values[Number(this.range.value)];
      this.show(value);
      changed(value);
    });
    this.box.addEventListener('change', () => {
      const value = Math.max(none === '' ? 1 : 0, Math.round(Number(this.box.value) || 0));
      this.show(value);
      changed(value);
    });
    this.field = element('div', {class: 'field slide'}, element('label', {for: id}, label), this.range, this.box);
  }

  set(values: number[], value: number): void {
    this.values = values;
    this.range.max = String(values.length - 1);
    this.show(value);
  }

  // `usual` is what stands for "none given".
  show(value: number, usual = 0): void {
    let nearest = 0;
    this.values.forEach((one, i) => {
      nearest = Math.abs(one - value) < Math.abs(this.values[nearest] - value) ? i : nearest;
    });
    this.range.value = String(nearest);
    this.range.setAttribute('aria-valuetext', value === 0 ? this.none : String(value));
    this.box.value = value === 0 ? '' : String(value);
    this.box.placeholder = usual > 0 ? `${this.none}: ${usual}` : this.none;
  }
}

// 1, 2, 3, 4, 6, 8, 12, …, up to `most` itself.
export function steps(most: number, least = 1): number[] {
  const values = [];
  for (let power = 1; power <= most; power *= 2) {
    values.push(power, power * 1.5);
  }
  return [...new Set([...values, most])].filter((value) => Number.isInteger(value) && value >= least && value <= most).sort((a, b) => a - b);
}

function input(id: string, label: string, hint: string, changed: (text: string) => void): {field: HTMLElement; box: HTMLInputElement} {
  const box = element('input', {id, type: 'text', placeholder: hint, spellcheck: 'false', autocomplete: 'off'});
  box.addEventListener('change', () => changed(box.value));
  return {field: labelled(id, label, box), box};
}

const numberOf = (text: string): number => (Number.isFinite(Number(text)) && Number(text) > 0 ? Number(text) : 0);

export function formSection(state: PlannerState): HTMLElement {
  const modelPaste = pasteBox('config', 'config.json of the model', '{"model_type": "llama", "hidden_size": 4096, …}', (config) => state.set({config, batch: 0}));
  const clusterPaste = pasteBox('cluster-file', 'A cluster file (clusters/*.toml)', 'name = "mine"\nnodes = 16\n…', (clusterText) => state.set({clusterText}));
  const model = select('model', 'Model', Object.keys(models), state.model, 'paste a config.json …', (name) => {
    modelPaste.hidden = name !== pasted;
    state.model = name;
    if (name !== pasted || state.config !== '') {
      state.set({batch: 0});
    }
  });
  const cluster = select('cluster', 'Cluster', Object.keys(clusters), state.cluster, 'paste a cluster file …', (name) => {
    clusterPaste.hidden = name !== pasted;
    state.cluster = name;
    if (name !== pasted || state.clusterText !== '') {
      state.set({nodes: Math.min(state.nodes, name === pasted ? state.nodes : nodesOf(clusters[name]))});
    }
  });
  const stack = select('stack', 'Software', Object.keys(stacks), state.stack, '', (name) => state.set({stack: name}));
  const dtype = select('dtype', 'Type', ['bf16', 'fp16', 'fp32'], state.dtype, '', (name) => state.set({dtype: name}));
  const optimizer = select('optimizer', 'Optimizer', ['adamw', 'adafactor', 'lion', 'muon', 'sgd'], state.optimizer, '', (name) => state.set({optimizer: name}));
  const nodes = new Slider('nodes', 'Nodes', '', (value) => state.set({nodes: value}));
  const batch = new Slider('batch', 'Global batch', 'usual', (value) => state.set({batch: value}));
  const micro = new Slider('micro', 'Micro batch', 'any', (value) => state.set({microBatch: value}));
  const sequence = input('sequence', 'Sequence', 'the model’s', (text) => state.set({sequence: Math.round(numberOf(text))}));
  const tokens = input('tokens', 'Tokens of the training', 'such as 15e12', (text) => state.set({tokens: numberOf(text)}));
  const fix = input('fix', 'Hold axes', 'tp=4 zero=1 recompute=full', (text) => state.set({fix: text}));
  batch.set([0, ...steps(16384, 8)], state.batch);
  micro.set([0, 1, 2, 4, 8, 16, 32, 64], state.microBatch);
  // As the state says, which the page's address may have changed.
  const show = (): void => {
    for (const {input: list, name} of [{input: model.input, name: state.model}, {input: cluster.input, name: state.cluster}, {input: stack.input, name: state.stack}, {input: dtype.input, name: state.dtype}, {input: optimizer.input, name: state.optimizer}]) {
      list.value = name;
    }
    modelPaste.hidden = state.model !== pasted;
    clusterPaste.hidden = state.cluster !== pasted;
    nodes.set(steps(state.cluster === pasted ? state.nodes : nodesOf(clusters[state.cluster])), state.nodes);
    batch.show(state.batch);
    micro.show(state.microBatch);
    sequence.box.value = state.sequence > 0 ? String(state.sequence) : '';
    tokens.box.value = state.tokens > 0 ? state.tokens.toExponential().replace('e+', 'e') : '';
    fix.box.value = state.fix;
  };
  state.on('question', show);
  show();

  const status = element('p', {class: 'status', role: 'status'});
  const about = element('p', {class: 'muted', id: 'about'});
  const command = element('pre', {class: 'command', tabindex: 0, id: 'command'});
  const refresh = (): void => {
    const ranked = state.ranking;
    status.classList.toggle('wrong', state.error !== '' && !state.busy);
    status.textContent = state.busy
      ? 'Ranking …'
      : state.error !== ''
        ? state.error
        : `${Number(ranked!.json.enumerated).toLocaleString('en')} layouts considered in ${(state.milliseconds / 1000).toFixed(2)} s.`;
    command.textContent = state.command();
    if (ranked !== null && !state.busy) {
      const {about: a, json} = ranked;
      nodes.set(steps(a.nodes), state.nodes);
      batch.show(state.batch, json.global_batch);
      about.textContent = `${a.family}, ${compact(a.parameters)} parameters: ${a.layers} layers, hidden ${a.hidden}, ${a.heads} heads (${a.kv_heads} of keys), vocabulary ${a.vocabulary}, sequences of ${a.sequence}. The cluster has ${a.nodes} nodes of ${a.devices_per_node} × ${a.device}, ${a.usable_gib.toFixed(1)} GiB usable per device.`;
    }
  };
  state.on('status', refresh);
  state.on('ranking', refresh);
  refresh();
  return section(
    'question',
    'Question',
    '',
    element('div', {class: 'form'}, model.field, cluster.field, stack.field, dtype.field, optimizer.field,
      sequence.field, tokens.field, fix.field, modelPaste, clusterPaste),
    element('div', {class: 'form sliders'}, nodes.field, batch.field, micro.field),
    about,
    status,
    element('details', {}, element('summary', {}, 'The same question for a terminal'), command),
  );
}

// Of a cluster file that comes with the page; the planner itself reads the rest of it.
export const nodesOf = (text: string): number => Number(/^nodes *= *([\d_]+)/m.exec(text)?.[1].replace(/_/g, '') ?? 1);
