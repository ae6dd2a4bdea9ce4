// What is asked and what was answered; the views listen to it.

import {clusters, models, stacks} from 'virtual:planner-files';
import type {Answer, Engine, Options, Question} from './planner_engine';

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

  engine: Engine | null = null;
  busy = true;
  error = '';
  milliseconds = 0;
  ranking: Answer | null = null;
  layout = '';
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
    const named = {model: this.model === pasted ? 'config.json' : this.model, cluster: this.cluster === pasted ? 'cluster.toml' : this.cluster, stack: this.stack};
    const options: Options = {...named, ...this.question(more).options};
    const words = Object.entries(options).map(([name, value]) => {
      const text = String(value);
      return value === true ? `--${name}` : `--${name} ${/^[\w.+-]+$/.test(text) ? text : `"${text}"`}`;
    });
    return `trireme plan ${words.join(' ')}`;
  }
}
