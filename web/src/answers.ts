// A plan as a page where the planner itself is not built in: `trireme plan --page` has put the answers to one question into
// the file, and this page shows them as the planner's page would.

import './style.css';
import {followAddress, goTo, scrollTo, wordsOfAddress} from './address';
import {element, section} from './dom';
import {compact} from './format';
import {startAsking} from './planner_asking';
import {daysSection} from './planner_days';
import {headerOf, readyPage} from './planner_frame';
import {layoutSections} from './planner_layout';
import type {Answer, Engine, Question} from './planner_question';
import {rankingSections} from './planner_ranking';
import {PlannerState} from './planner_state';

type Told = Answer | {error: string};

interface Answers {
  program: string;
  options: {[name: string]: string};
  answers: {
    ranking: Answer;
    layouts: {[layout: string]: {explanation: Told; timeline: Told; files: Told}};
    days: {[nodes: string]: Told};
  };
}

const data = JSON.parse(document.getElementById('trireme-data')!.textContent ?? 'null') as Answers;
const {ranking, layouts, days} = data.answers;
const state = new PlannerState();
state.fixed = data.options;
state.nodes = Number(data.options.nodes ?? 0);
state.tokens = Number(data.options.tokens ?? 0);
state.allocations = Object.keys(days).map(Number).sort((a, b) => a - b);

function lookUp({options}: Question): Told {
  if (options.layout === undefined) {
    return options.rows === 1 ? days[String(options.nodes)] : ranking;
  }
  const found = layouts[String(options.layout)];
  if (found === undefined) {
    return {error: `This page explains the first ${Object.keys(layouts).length} layouts of the ranking. For this one: ${state.command({layout: options.layout})}`};
  }
  return options.timeline !== undefined ? found.timeline : options.emit !== undefined ? found.files : found.explanation;
}

const ask = async (question: Question): Promise<Answer> => {
  const told = lookUp(question);
  if ('error' in told) {
    throw new Error(told.error);
  }
  return told;
};
const engine: Engine = {ask, askLater: ask};

function questionSection(): HTMLElement {
  const {about: a} = ranking;
  const status = element('p', {class: 'status', role: 'status'});
  state.on('ranking', () => {
    status.textContent = state.error !== '' ? state.error : `${Number(ranking.json.enumerated).toLocaleString('en')} layouts considered.`;
    status.classList.toggle('wrong', state.error !== '');
  });
  return section('question', 'Question', '',
    element('p', {}, `${a.family}, ${compact(a.parameters)} parameters: ${a.layers} layers, hidden ${a.hidden}, ${a.heads} heads (${a.kv_heads} of keys), vocabulary ${a.vocabulary}, sequences of ${a.sequence}. ${ranking.json.devices} devices of ${a.cluster}: ${a.devices_per_node} × ${a.device} per node, ${a.usable_gib.toFixed(1)} GiB usable per device. Global batch ${ranking.json.global_batch}, software ${ranking.json.stack}.`),
    status,
    element('pre', {class: 'command', tabindex: 0, id: 'command'}, state.command()));
}

const writeAddress = followAddress({
  write: () => new URLSearchParams(state.layout === '' || state.layout === ranking.json.ranked?.[0]?.layout ? {} : {layout: state.layout}),
  read: (words) => {
    state.wanted = words.get('layout') ?? '';
    state.tell('question');
  },
});
const sections = [questionSection(), ...rankingSections(state), ...layoutSections(state), ...(state.allocations.length > 1 ? [daysSection(state)] : [])];
const header = headerOf('Trireme plan', sections, (id) => goTo(id, writeAddress));
readyPage(header, sections, `Written by ${data.program}. This file holds the answers to one question and loads nothing; built with Emscripten, the program writes the whole planner instead.`);
state.on('chosen', writeAddress);
startAsking(state, engine);
scrollTo(wordsOfAddress().get('at') ?? '');
