// What is asked and what was answered; the views listen to it.

import {clusters, models, stacks} from 'virtual:planner-files';
import type {Answer, Engine, Options, Question} from './planner_question';

export type Failed = {error: string};
export type Change = 'question' | 'status' | 'ranking' | 'chosen' | 'layout';

export const pasted = 'pasted';
export const rows = 40;

export class PlannerState {
  model = 'llama-3-8b';
  config = ''; // text of config.json, when model is `pasted`
  cluster = 'dgx-h100';
  clusterText = ''; // of the cluster's file, when cluster is `pasted`
  stack = 'trireme';
  nodes = 4;
  batch = 0; // 0: what is usual for the model
  microBatch = 0; // 0: any
  sequence = 0; // 0: the model's
  tokens = 1e12;
  fix = '';
  dtype = 'bf16';
  optimizer = 'adamw';

  // Of a page that holds the answers to one question: its options, and the allocations whose days were searched.
  fixed: {[name: string]: string} | null = null;
  allocations: number[] | null = null;

  engine: Engine | null = null;
  busy = true;
  error = '';
  milliseconds = 0;
  ranking: Answer | null = null;
  layout = '';
  wanted = ''; // the layout to choose in the next ranking; empty: the first
  explanation: Answer | Failed | null = null;
  timeline: Answer | Failed | null = null;
  files: Answer | Failed | null = null;

  private listeners = new Map<Change, (() => void)[]>();

  on(change: Change, listener: () => void): void {
    this.listeners.set(change, [...(this.listeners.get(change) ?? []), listener]);
  }

  tell(change: Change): void {
    for (const listener of this.listeners.get(change) ?? []) {
      listener();
    }
  }

  set(changes: Partial<PlannerState>): void {
    Object.assign(this, changes);
    this.tell('question');
  }

  choose(layout: string): void {
    this.layout = layout;
    this.tell('chosen');
  }

  options(): Options {
    const options: Options = {nodes: this.nodes};
    const fix = [this.microBatch > 0 ? `mbs=${this.microBatch}` : '', this.fix.trim()].filter((word) => word !== '').join(' ');
    const given: [string, string | number, boolean][] = [
      ['global-batch', this.batch, this.batch > 0],
      ['sequence', this.sequence, this.sequence > 0],
      ['tokens', this.tokens, this.tokens > 0],
      ['fix', fix, fix !== ''],
      ['dtype', this.dtype, this.dtype !== 'bf16'],
      ['optimizer', this.optimizer, this.optimizer !== 'adamw'],
    ];
    for (const [name, value, told] of given) {
      if (told) {
        options[name] = value;
      }
    }
    return options;
  }

  // With a layout the whole step of that one is asked for; what is held does not matter then.
  question(more: Options = {}): Question {
    const options: Options = {...this.options(), rows, ...more};
    if (more.layout !== undefined) {
      delete options.fix;
      delete options.rows;
      const chosen = this.ranking?.json.global_batch;
      if (chosen !== undefined) {
        options['global-batch'] = chosen;
      }
    }
    return {
      cluster: this.cluster === pasted ? this.clusterText : clusters[this.cluster],
      stack: stacks[this.stack],
      model: this.model === pasted ? {config: this.config} : {recipe: models[this.model]},
      options,
    };
  }

  // The same question for a shell.
  command(more: Options = {}): string {
    if (this.fixed !== null) {
      const {fix, ...rest} = this.fixed;
      return commandOf({...rest, ...(more.layout === undefined && fix !== undefined ? {fix} : {}), ...more});
    }
    const named = {model: this.model === pasted ? 'config.json' : this.model, cluster: this.cluster === pasted ? 'cluster.toml' : this.cluster, stack: this.stack};
    return commandOf({...named, ...this.question(more).options});
  }
}

const flags = ['estimate', 'max-size', 'max-sequence', 'full'];

function commandOf(options: Options): string {
  const words = Object.entries(options).map(([name, value]) => {
    const text = String(value);
    return value === true || (text === 'true' && flags.includes(name)) ? `--${name}` : `--${name} ${/^[\w.,+-]+$/.test(text) ? text : `"${text.replace(/["\\$`]/g, '\\$&')}"`}`;
  });
  return `trireme plan ${words.join(' ')}`;
}

const texts = ['model', 'cluster', 'stack', 'fix', 'dtype', 'optimizer'] as const;
const numbers = ['nodes', 'batch', 'microBatch', 'sequence', 'tokens'] as const;

// The question in the page's address. Texts that were pasted are not in it.
export function writeQuestion(state: PlannerState): URLSearchParams {
  const usual = new PlannerState();
  const words = new URLSearchParams();
  for (const name of [...texts, ...numbers]) {
    if (state[name] !== usual[name]) {
      words.set(name, String(state[name]));
    }
  }
  const first = state.ranking?.json.ranked?.[0]?.layout;
  if (state.layout !== '' && state.layout !== first) {
    words.set('layout', state.layout);
  }
  return words;
}

export function readQuestion(words: URLSearchParams, state: PlannerState): void {
  const usual = new PlannerState();
  for (const name of texts) {
    state[name] = words.get(name) ?? usual[name];
  }
  for (const name of numbers) {
    const value = Number(words.get(name) ?? usual[name]);
    state[name] = Number.isFinite(value) && value >= 0 ? value : usual[name];
  }
  // Names that this page does not have.
  state.model = state.model in models || state.model === pasted ? state.model : usual.model;
  state.cluster = state.cluster in clusters || state.cluster === pasted ? state.cluster : usual.cluster;
  state.stack = state.stack in stacks ? state.stack : usual.stack;
  state.wanted = words.get('layout') ?? '';
}
