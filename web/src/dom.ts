// Elements from plain data. Text is always set as text: a hostile name cannot become markup.

type Child = Node | string | null | undefined;

export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: {[name: string]: string | number | boolean | undefined} = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) {
      node.setAttribute(name, '');
    } else if (value !== false && value !== undefined) {
      node.setAttribute(name, String(value));
    }
  }
  for (const child of children) {
    if (child !== null && child !== undefined) {
      node.append(child);
    }
  }
  return node;
}

export function section(id: string, title: string, lead: string, ...children: Child[]): HTMLElement {
  return element(
    'section',
    {id, 'aria-labelledby': `${id}-title`},
    element('h2', {id: `${id}-title`}, title),
    lead === '' ? null : element('p', {class: 'lead'}, lead),
    ...children,
  );
}

export interface Choice {
  value: string;
  label: string;
}

// A labelled row of radio buttons, as a segmented control.
export function segmented(
  name: string,
  label: string,
  choices: Choice[],
  chosen: string,
  changed: (value: string) => void,
): HTMLElement {
  const group = element('fieldset', {class: 'segmented'}, element('legend', {}, label));
  for (const choice of choices) {
    const input = element('input', {
      type: 'radio',
      name,
      value: choice.value,
      id: `${name}-${choice.value}`,
      checked: choice.value === chosen,
    });
    input.addEventListener('change', () => changed(choice.value));
    group.append(input, element('label', {for: `${name}-${choice.value}`}, choice.label));
  }
  return group;
}

export function checkbox(label: string, checked: boolean, changed: (value: boolean) => void): HTMLElement {
  const input = element('input', {type: 'checkbox', checked});
  input.addEventListener('change', () => changed(input.checked));
  return element('label', {class: 'check'}, input, label);
}

// Draws a view the first time that it comes near the screen, and again after `refresh` once it is there.
export class LazyView {
  private near = false;
  private stale = true;

  constructor(
    readonly host: HTMLElement,
    private readonly draw: () => void,
  ) {
    const observer = new IntersectionObserver(
      (entries) => {
        this.near = entries[entries.length - 1].isIntersecting;
        this.drawIfNeeded();
      },
      {rootMargin: '400px'},
    );
    observer.observe(host);
    window.addEventListener('beforeprint', () => {
      this.near = true;
      this.drawIfNeeded();
    });
  }

  refresh(): void {
    this.stale = true;
    this.drawIfNeeded();
  }

  private drawIfNeeded(): void {
    if (this.near && this.stale) {
      this.stale = false;
      this.draw();
    }
  }
}
