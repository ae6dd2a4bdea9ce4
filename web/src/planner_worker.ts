// Runs the planner (src/planner compiled to WebAssembly) off the page's own thread: a question in, an answer out.

interface Planner {
  memory: WebAssembly.Memory;
  _initialize(): void;
  malloc(bytes: number): number;
  free(pointer: number): void;
  Answer(question: number): number;
}

let planner: Planner | null = null;

// What a C library asks of its host. The planner uses no file, clock or environment: nothing of it is answered.
const host = new Proxy({}, {get: () => (): number => 0});

function ask(question: string): string {
  const {memory, malloc, free, Answer} = planner!;
  const bytes = new TextEncoder().encode(`${question}\0`);
  const asked = malloc(bytes.length);
  new Uint8Array(memory.buffer).set(bytes, asked);
  const answered = Answer(asked);
  // The memory may have grown, and been replaced, meanwhile.
  const view = new Uint8Array(memory.buffer);
  const text = new TextDecoder().decode(view.subarray(answered, view.indexOf(0, answered)));
  free(asked);
  free(answered);
  return text;
}

function start(module: WebAssembly.Module): void {
  planner = new WebAssembly.Instance(module, {env: host, wasi_snapshot_preview1: host}).exports as unknown as Planner;
  planner._initialize();
}

let module: WebAssembly.Module | null = null;
self.onmessage = (event: MessageEvent): void => {
  if (event.data instanceof WebAssembly.Module) {
    module = event.data;
    return;
  }
  const {id, question} = event.data as {id: number; question: string};
  try {
    if (planner === null) {
      start(module!);
    }
    self.postMessage({id, answer: ask(question)});
  } catch (error) {
    // Out of memory or of stack: what is left of this instance cannot be trusted.
    planner = null;
    self.postMessage({id, answer: JSON.stringify({error: `the planner stopped: ${String(error)}`})});
  }
};
