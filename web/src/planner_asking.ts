// Asks an engine what the reader of a planner's page wants to see.

import {element} from './dom';
import type {Engine} from './planner_question';
import {PlannerState} from './planner_state';

// Keeps what is asked to one question at a time: of those that come meanwhile only the last is asked.
class Latest {
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

// A new question: its ranking, then the layout that it puts first.
function rank(state: PlannerState, engine: Engine, rankings: Latest): void {
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
      const ranked: {layout: string}[] = state.ranking?.json.ranked ?? [];
      const kept = ranked.find(({layout}) => layout === state.wanted);
      state.wanted = '';
      state.choose((kept ?? ranked[0])?.layout ?? '');
      state.tell('ranking');
      document.documentElement.dataset.ready = String(Math.round(performance.now()));
    }
  });
}

function explain(state: PlannerState, engine: Engine, layouts: Latest): void {
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

export function startAsking(state: PlannerState, engine: Engine): void {
  const [rankings, layouts] = [new Latest(), new Latest()];
  state.engine = engine;
  state.on('question', () => rank(state, engine, rankings));
  state.on('chosen', () => explain(state, engine, layouts));
  rank(state, engine, rankings);
}

// What stands where there are no layouts to show.
export function emptyText(state: PlannerState): HTMLElement {
  const text = state.busy ? 'Ranking …' : state.ranking === null ? 'There is no answer to this question: its message says why.' : 'No layout fits.';
  return element('p', {class: 'muted'}, text);
}
