// The planner's page: asks the planner that is in this file, and draws what it answers.

import './style.css';
import {daysSection} from './planner_days';
import {Engine, Latest, startEngine} from './planner_engine';
import {formSection} from './planner_form';
import {layoutSections} from './planner_layout';
import {rankingSections} from './planner_ranking';
import {PlannerState} from './planner_state';
import {element, segmented} from './dom';
import {setTheme, Theme} from './theme';

declare global {
  interface Window {
    // For scripts: the same planner, asked directly.
    trireme: {ask: Engine['ask']; question: () => unknown};
  }
}

const state = new PlannerState();
setTheme('auto');

const sections = [formSection(state), ...rankingSections(state), ...layoutSections(state), daysSection(state)];
const links = sections.map((part) => element('a', {href: `#${part.id}`}, part.id[0].toUpperCase() + part.id.slice(1)));
const header = element(
  'header',
  {},
  element('h1', {}, 'Trireme planner'),
  element('nav', {'aria-label': 'Sections'}, ...links),
  segmented('theme', 'Theme', [{value: 'auto', label: 'auto'}, {value: 'light', label: 'light'}, {value: 'dark', label: 'dark'}], 'auto', (value) => setTheme(value as Theme)),
);
const footer = element('footer', {}, 'The planner runs in this file, as `trireme plan` does, with the same numbers: nothing is sent or loaded.');
document.getElementById('app')!.append(element('a', {href: '#main', class: 'skip'}, 'Skip to the content'), header, element('main', {id: 'main', tabindex: -1}, ...sections), footer);

// A new question: its ranking, then the layout that it puts first.
const rankings = new Latest();
function rank(engine: Engine): void {
  state.busy = true;
  state.tell('status');
  rankings.run(async () => {
    const began = performance.now();
    try {
      const answer = await engine.ask(state.question());
      state.milliseconds = performance.now() - began;
      state.error = answer.found ? '' : 'No layout fits: see below what was refused.';
      state.ranking = answer;
    } catch (error) {
      state.error = (error as Error).message;
      state.ranking = null;
    }
    if (!rankings.superseded) {
      state.busy = false;
      state.choose(state.ranking?.json.ranked?.[0]?.layout ?? '');
      state.tell('ranking');
      document.documentElement.dataset.ready = String(Math.round(performance.now()));
    }
  });
}

const layouts = new Latest();
function explain(engine: Engine): void {
  layouts.run(async () => {
    const layout = state.layout;
    state.explanation = state.timeline = state.files = null;
    if (layout !== '') {
      const ask = async (more: {[name: string]: string | number | boolean}): Promise<any> => {
        try {
          return await engine.ask(state.question({layout, ...more}));
        } catch (error) {
          return {error: (error as Error).message};
        }
      };
      state.explanation = await ask(state.tokens > 0 ? {estimate: true} : {});
      state.timeline = await ask({timeline: 'trace'});
      state.files = await ask({emit: 'recipe,sbatch'});
    }
    if (!layouts.superseded) {
      state.tell('layout');
      document.documentElement.dataset.layout = layout;
    }
  });
}

void startEngine().then((engine) => {
  window.trireme = {ask: engine.ask, question: () => state.question()};
  state.engine = engine;
  state.on('question', () => rank(engine));
  state.on('chosen', () => explain(engine));
  rank(engine);
}, (error) => {
  state.error = `this browser cannot run the planner: ${String(error)}`;
  state.tell('status');
});
