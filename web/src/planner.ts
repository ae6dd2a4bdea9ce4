// The planner's page: asks the planner that is in this file, and draws what it answers.

import './style.css';
import {followAddress, goTo, scrollTo, wordsOfAddress} from './address';
import {startAsking} from './planner_asking';
import {daysSection} from './planner_days';
import {startEngine} from './planner_engine';
import {formSection} from './planner_form';
import {layoutSections} from './planner_layout';
import type {Engine} from './planner_question';
import {rankingSections} from './planner_ranking';
import {PlannerState, readQuestion, writeQuestion} from './planner_state';
import {headerOf, readyPage} from './planner_frame';

declare global {
  interface Window {
    // For scripts: the same planner, asked directly.
    trireme: {ask: Engine['ask']; question: () => unknown};
  }
}

const state = new PlannerState();
const writeAddress = followAddress({
  write: () => writeQuestion(state),
  read: (words) => {
    readQuestion(words, state);
    state.tell('question');
  },
});
const sections = [formSection(state), ...rankingSections(state), ...layoutSections(state), daysSection(state)];
const header = headerOf('Trireme planner', sections, (id) => goTo(id, writeAddress));
readyPage(header, sections, 'The planner runs in this file, as `trireme plan` does, with the same numbers: nothing is sent or loaded.');
state.on('question', writeAddress);
state.on('chosen', writeAddress);
scrollTo(wordsOfAddress().get('at') ?? '');

void startEngine().then((engine) => {
  window.trireme = {ask: engine.ask, question: () => state.question()};
  startAsking(state, engine);
}, (error) => {
  state.busy = false;
  state.error = `this browser cannot run the planner: ${String(error)}`;
  state.tell('status');
  state.tell('ranking');
});
