// The fragment of the page's address: the state of the views, so that a link shows what its sender saw, and the section
// that is in view. Fragments leave no page, and work from file:// too.

import {onTheme, setTheme, theme, Theme} from './theme';

const themes: Theme[] = ['auto', 'light', 'dark'];
let section = '';

// "#curves", as links of earlier pages have it, or "#axis=tokens&at=curves".
export function wordsOfAddress(): URLSearchParams {
  const text = location.hash.slice(1);
  return text === '' || text.includes('=') ? new URLSearchParams(text) : new URLSearchParams({at: text});
}

export function scrollTo(id: string): void {
  document.getElementById(id)?.scrollIntoView();
}

export interface Addressed {
  write: () => URLSearchParams;
  read: (words: URLSearchParams) => void;
}

// Reads the address now and when the reader changes it. The function that is returned writes it: call it after changes.
export function followAddress(views: Addressed): () => void {
  const apply = (): void => {
    const words = wordsOfAddress();
    section = words.get('at') ?? '';
    const wanted = words.get('theme') as Theme;
    setTheme(themes.includes(wanted) ? wanted : 'auto');
    views.read(words);
  };
  const write = (): void => {
    const words = views.write();
    if (theme() !== 'auto') {
      words.set('theme', theme());
    }
    if (section !== '') {
      words.set('at', section);
    }
    const text = words.toString();
    if (text !== location.hash.slice(1)) {
      history.replaceState(null, '', text === '' ? location.pathname + location.search : `#${text}`);
    }
  };
  apply();
  onTheme(write);
  window.addEventListener('hashchange', () => {
    apply();
    scrollTo(section);
  });
  return write;
}

// A link within the page that leaves the state in the address.
export function goTo(id: string, write: () => void): (event: Event) => void {
  return (event) => {
    event.preventDefault();
    section = id;
    write();
    scrollTo(id);
  };
}
