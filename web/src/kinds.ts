// One colour for each kind of work and of memory, on every view of both pages.

const workColors: {[kind: string]: string} = {
  forward: '#4269d0',
  backward: '#3ca951',
  'backward input': '#3ca951',
  'backward weight': '#8fce9b',
  tensor: '#a463f2',
  context: '#c79bf7',
  replicas: '#6cc5b0',
  'data collectives': '#6cc5b0',
  reduce: '#6cc5b0',
  'gradient compression': '#4f9c8c',
  pipeline: '#efb118',
  send: '#efb118',
  receive: '#efb118',
  optimizer: '#9c6b4e',
  update: '#9c6b4e',
  norm: '#c49a7f',
  save: '#ff725c',
  validate: '#ff8ab7',
  data: '#9498a0',
  batch: '#9498a0',
  offload: '#7f8fb5',
  'fixed cost': '#6b7280',
  // What the planner divides a step's seconds into, besides.
  'matrix products': '#2f4b9c',
  attention: '#97bbf5',
  'element-wise kernels': '#c9b458',
  'tensor collectives': '#a463f2',
  'context collectives': '#c79bf7',
  'layer overhead': '#b0aa9f',
  'embedding and logits': '#d45087',
  'gradient accumulation': '#8fce9b',
  'shard traffic': '#1b7f79',
  'bubble and messages': '#efb118',
  'fixed cost of a step': '#6b7280',
  'slow site': '#dc2626',
};

// Calls of a group of ranks, "tensor all_reduce", take the colour of the group's work.
const groupColors: {[group: string]: string} = {
  tensor: workColors.tensor,
  context: workColors.context,
  data: workColors.replicas,
  tied: workColors.replicas,
  pipeline: workColors.pipeline,
  world: workColors.optimizer,
};

const memoryColors: {[kind: string]: string} = {
  weights: '#4269d0',
  gradients: '#efb118',
  accumulation: '#c9b458',
  optimizer: '#ff725c',
  activations: '#6cc5b0',
  scratch: '#3ca951',
  logits: '#a463f2',
  messages: '#ff8ab7',
  context: '#97bbf5',
  fragmentation: '#c49a7f',
  host: '#9498a0',
};

const others = ['#6cc5b0', '#ff725c', '#97bbf5', '#a463f2', '#9498a0'];

function otherColor(kind: string): string {
  let hash = 0;
  for (const letter of kind) {
    hash = (hash * 31 + letter.charCodeAt(0)) >>> 0;
  }
  return others[hash % others.length];
}

export function workColor(kind: string): string {
  const group = kind.includes(' ') || kind.includes(',') ? groupColors[kind.split(/[ ,]/)[0]] : undefined;
  return workColors[kind] ?? group ?? otherColor(kind);
}

// Bars and legends list kinds in this order; unknown ones last.
const order = [...Object.keys(workColors), ...Object.keys(memoryColors)];
export const rankOf = (kind: string): number => (order.includes(kind) ? order.indexOf(kind) : order.length);
export const memoryColor = (kind: string): string => memoryColors[kind] ?? otherColor(kind);
