// The live page: asks `trireme watch`, which served it, what has changed in the runs, every other second.

import {EncodedRun, Run, RunUpdate} from './document';
import {element} from './dom';
import {Sign, State} from './state';

interface Changes {
  version: number;
  runs: RunUpdate[];
  signs: ({id: number} & Sign)[];
}

const everyMilliseconds = 2000;

function take(changes: Changes, state: State, newRun: (data: EncodedRun, index: number) => Run): void {
  for (const update of changes.runs) {
    if (state.runs[update.id] === undefined) {
      state.runs[update.id] = newRun({...update.run, timelines: update.run.timelines ?? []}, update.id);
    } else {
      state.runs[update.id].update(update);
    }
  }
  changes.signs.forEach(({id, ...sign}) => (state.signs[id] = sign));
}

// The line that says how fresh the page is, with a button that pauses it.
export function followRuns(state: State, version: number, newRun: (data: EncodedRun, index: number) => Run): HTMLElement {
  const text = element('span', {role: 'status'}, 'live');
  const pause = element('button', {type: 'button'}, 'Pause');
  const host = element('span', {class: 'live'}, element('i', {class: 'pulse', 'aria-hidden': 'true'}), text, pause);
  let known = version;
  let paused = false;
  let answered = performance.now();
  const tell = (words: string, wrong: boolean): void => {
    text.textContent = words;
    host.classList.toggle('wrong', wrong);
    host.classList.toggle('paused', paused);
  };
  const ask = async (): Promise<void> => {
    try {
      const answer = await fetch(`changes?since=${known}`, {cache: 'no-store'});
      if (!answer.ok) {
        throw new Error(`the server answers ${answer.status}: open the address that \`trireme watch\` prints now`);
      }
      const changes = (await answer.json()) as Changes;
      known = changes.version;
      take(changes, state, newRun);
      answered = performance.now();
      tell(`live, ${new Date().toLocaleTimeString('en', {hour12: false})}`, false);
      state.changed();
      document.documentElement.dataset.version = String(known);
    } catch (error) {
      const since = Math.round((performance.now() - answered) / 1000);
      tell(`no answer for ${since} s: ${error instanceof TypeError ? 'is `trireme watch` still running?' : (error as Error).message}`, true);
    }
  };
  const loop = async (): Promise<void> => {
    if (!paused && !document.hidden) {
      await ask();
    }
    setTimeout(() => void loop(), everyMilliseconds);
  };
  pause.addEventListener('click', () => {
    paused = !paused;
    pause.textContent = paused ? 'Go on' : 'Pause';
    tell(paused ? 'paused' : 'live', false);
  });
  void loop();
  return host;
}
