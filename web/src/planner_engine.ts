// The planner as an object to ask. One worker answers what the reader waits for, another one what may come later.

import wasm from 'virtual:planner-wasm';
import PlannerWorker from './planner_worker?worker&inline';

export interface Options {
  [name: string]: string | number | boolean;
}

// src/planner/queries/plan_question.h says what these mean.
export interface Question {
  cluster: string;
  stack: string;
  model: {recipe?: string; config?: string};
  options: Options;
  describe?: boolean;
}

export interface About {
  cluster: string;
  nodes: number;
  devices_per_node: number;
  device: string;
  usable_gib: number;
  family: string;
  layers: number;
  hidden: number;
  heads: number;
  kv_heads: number;
  vocabulary: number;
  sequence: number;
  parameters: number;
}

export interface Answer {
  about: About;
  text: string;
  json: {[key: string]: any};
  notes: string[];
  found: boolean;
  files: {path: string; text: string}[];
}

const bytesOf = (base64: string): Uint8Array => Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));

class Asker {
  private readonly worker = new PlannerWorker();
  private readonly waiting = new Map<number, (answer: string) => void>();
  private next = 0;

  constructor(module: WebAssembly.Module) {
    this.worker.onmessage = (event: MessageEvent): void => {
      const {id, answer} = event.data as {id: number; answer: string};
      this.waiting.get(id)?.(answer);
      this.waiting.delete(id);
    };
    this.worker.postMessage(module);
  }

  // Throws an Error with the planner's message.
  async ask(question: Question): Promise<Answer> {
    const id = ++this.next;
    const text = await new Promise<string>((resolve) => {
      this.waiting.set(id, resolve);
      this.worker.postMessage({id, question: JSON.stringify(question)});
    });
    const answer = JSON.parse(text) as Answer & {error?: string};
    if (answer.error !== undefined) {
      throw new Error(answer.error);
    }
    return answer;
  }
}

export interface Engine {
  ask(question: Question): Promise<Answer>;
  askLater(question: Question): Promise<Answer>;
}

export async function startEngine(): Promise<Engine> {
  const module = await WebAssembly.compile(bytesOf(wasm));
  const [first, second] = [new Asker(module), new Asker(module)];
  return {ask: (question) => first.ask(question), askLater: (question) => second.ask(question)};
}

// Keeps what is asked to one question at a time: of those that come meanwhile only the last is asked.
export class Latest {
  private running = false;
  private pending: (() => Promise<void>) | null = null;

  run(work: () => Promise<void>): void {
    this.pending = work;
    if (!this.running) {
      void this.drain();
    }
  }

  get superseded(): boolean {
    return this.pending !== null;
  }

  private async drain(): Promise<void> {
    this.running = true;
    while (this.pending !== null) {
      const work = this.pending;
      this.pending = null;
      await work();
    }
    this.running = false;
  }
}
