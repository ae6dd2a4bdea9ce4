// What `trireme report` writes into the page, and how its columns are decoded. src/report/report_document.cc is the
// writer: names here and there are the same.

export interface Causes {
  [cause: string]: number;
}

export interface RunEvent {
  step: number;
  time: number; // seconds since 1970; 0: unknown
  kind: string;
  text: string;
}

export interface MemoryRow {
  label: string; // "rank 3, stage 1"
  kinds: {[kind: string]: number}; // bytes
}

export interface EncodedTrack {
  name: string;
  start: string; // base64 of little-endian float64, seconds
  length: string; // base64 of float32
  kind: string; // base64 of uint8, index into Timeline.kinds
  micro_batch: string; // base64 of int32; -1: none
}

export interface EncodedTimeline {
  source: string; // "measured, step 12" | "predicted"
  kinds: string[];
  tracks: EncodedTrack[];
}

export interface EncodedRun {
  name: string;
  path: string;
  steps: number; // in the file, before thinning
  total_steps: number; // that the run was told to make; 0: unknown
  thinned: boolean;
  columns: {[name: string]: string}; // base64 of float64 (step, tokens, hours) or float32
  validation: {step: number[]; loss: (number | null)[]};
  config: {[key: string]: string};
  events: RunEvent[];
  memory: {measured: MemoryRow[]; predicted: MemoryRow[]};
  seconds: {
    measured: number;
    predicted: number;
    low: number;
    high: number;
    knowledge: string;
    measured_causes: Causes;
    predicted_causes: Causes;
  };
  summary: {loss: number | null; tokens_per_second: number; share_of_peak: number; memory_bytes: number};
  machine: {[key: string]: unknown} | null;
  timelines: EncodedTimeline[];
}

export interface Table {
  name: string;
  columns: string[];
  rows: (string | number | null)[][];
}

export interface ReportDocument {
  version: number;
  program: string;
  made: string;
  runs: EncodedRun[];
  tables: Table[];
  plans: {name: string; plan: {[key: string]: any}}[];
  timelines: {name: string; timeline: EncodedTimeline}[];
  live?: number; // version, of a page that `trireme watch` serves
}

// What a live page is told of a run: its steps from an index on, and all else; timelines only where they are new.
export interface RunUpdate {
  id: number; // index of the run
  from: number;
  run: Omit<EncodedRun, 'timelines'> & {timelines?: EncodedTimeline[]};
}

function bytesOf(text: string): ArrayBuffer {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; ++i) {
    bytes[i] = binary.charCodeAt(i);
  }
  return bytes.buffer;
}

export const float64Of = (text: string): Float64Array => new Float64Array(bytesOf(text));
export const float32Of = (text: string): Float32Array => new Float32Array(bytesOf(text));
export const bytesArrayOf = (text: string): Uint8Array => new Uint8Array(bytesOf(text));
export const int32Of = (text: string): Int32Array => new Int32Array(bytesOf(text));

export type Numbers = Float64Array | Float32Array;

// A run whose columns are decoded when they are first asked for.
export class Run {
  readonly color: string;
  visible = true;
  private decoded = new Map<string, Numbers>();

  constructor(
    public data: EncodedRun,
    readonly index: number,
    color: string,
  ) {
    this.color = color;
  }

  // Takes further steps, or all of them anew.
  update({from, run}: RunUpdate): void {
    const before = new Map<string, Numbers>();
    if (from > 0) {
      Object.keys(run.columns).forEach((name) => before.set(name, this.column(name)));
    }
    this.data = {...run, timelines: run.timelines ?? this.data.timelines};
    this.decoded.clear();
    for (const [name, known] of before) {
      const more = this.column(name);
      const joined = new (known instanceof Float64Array ? Float64Array : Float32Array)(known.length + more.length);
      joined.set(known);
      joined.set(more, known.length);
      this.decoded.set(name, joined);
    }
  }

  get lastValidation(): number {
    return this.data.validation.loss.reduce((last: number, loss) => loss ?? last, NaN);
  }

  get name(): string {
    return this.data.name;
  }

  column(name: string): Numbers {
    let numbers = this.decoded.get(name);
    if (numbers === undefined) {
      const text = this.data.columns[name] ?? '';
      numbers = ['step', 'tokens', 'hours'].includes(name) ? float64Of(text) : float32Of(text);
      this.decoded.set(name, numbers);
    }
    return numbers;
  }
}

export function readDocument(): ReportDocument {
  const element = document.getElementById('trireme-data');
  const value = JSON.parse(element?.textContent ?? 'null') as ReportDocument | null;
  element?.remove();
  return value ?? {version: 1, program: '', made: '', runs: [], tables: [], plans: [], timelines: []};
}
