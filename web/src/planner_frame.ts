// What both planner's pages have around their sections.

import {element, segmented} from './dom';
import {onTheme, setTheme, theme, Theme} from './theme';

export function headerOf(title: string, sections: HTMLElement[], go: (id: string) => (event: Event) => void): HTMLElement {
  const links = sections.map((part) => {
    const link = element('a', {href: `#${part.id}`}, part.id[0].toUpperCase() + part.id.slice(1));
    link.addEventListener('click', go(part.id));
    return link;
  });
  const themes = segmented('theme', 'Theme', ['auto', 'light', 'dark'].map((value) => ({value, label: value})), theme(), (value) => setTheme(value as Theme));
  onTheme(() => themes.querySelectorAll('input').forEach((input) => (input.checked = input.value === theme())));
  return element('header', {}, element('h1', {}, title), element('nav', {'aria-label': 'Sections'}, ...links), themes);
}

export function readyPage(header: HTMLElement, sections: HTMLElement[], footer: string): void {
  document.getElementById('app')!.append(element('a', {href: '#main', class: 'skip'}, 'Skip to the content'), header, element('main', {id: 'main', tabindex: -1}, ...sections), element('footer', {}, footer));
}
