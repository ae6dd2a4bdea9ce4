// What the planner is asked and what it answers: src/planner/queries/plan_question.h and answer_json.h say what it means.

export interface Options {
  [name: string]: string | number | boolean;
}

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

export interface Engine {
  ask(question: Question): Promise<Answer>;
  askLater(question: Question): Promise<Answer>;
}
