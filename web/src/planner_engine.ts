// The planner as an object to ask. One worker answers what the reader waits for, another one what may come later.

import wasm from 'virtual:planner-wasm';
import type {Answer, Engine, Question} from './planner_question';
import PlannerWorker from './planner_worker?worker&inline';

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

export async function startEngine(): Promise<Engine> {
  const module = await WebAssembly.compile(bytesOf(wasm));
  const [first, second] = [new Asker(module), new Asker(module)];
  return {ask: (question) => first.ask(question), askLater: (question) => second.ask(question)};
}
