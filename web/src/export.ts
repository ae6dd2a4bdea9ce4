// What a view shows as a file: CSV of its numbers, PNG of its picture.

import {element} from './dom';
import {color} from './theme';

type Cell = string | number | null | undefined;

function cellText(cell: Cell): string {
  if (cell === null || cell === undefined || (typeof cell === 'number' && !Number.isFinite(cell))) {
    return '';
  }
  // A spreadsheet takes text that begins so for a formula.
  const text = typeof cell === 'string' && /^[=+\-@\t\r]/.test(cell) ? `'${cell}` : String(cell);
  return /[",\n\r]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
}

export const csvOf = (rows: Cell[][]): string => rows.map((row) => row.map(cellText).join(',') + '\n').join('');

function save(name: string, content: Blob): void {
  const link = element('a', {href: URL.createObjectURL(content), download: name});
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

// An SVG of this page as a picture on a canvas, at twice its size.
async function drawnSvg(svg: SVGSVGElement): Promise<HTMLCanvasElement> {
  const copy = svg.cloneNode(true) as SVGSVGElement;
  copy.setAttribute('xmlns', 'http://www.w3.org/2000/svg');
  copy.style.fontFamily = 'system-ui, sans-serif';
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(copy))}`;
  await image.decode();
  const {width, height} = svg.getBoundingClientRect();
  const canvas = element('canvas', {width: Math.ceil(2 * width), height: Math.ceil(2 * height)});
  canvas.getContext('2d')!.drawImage(image, 0, 0, canvas.width, canvas.height);
  return canvas;
}

export interface Legend {
  color: string;
  text: string;
}

// The pictures of `host` below a title, with a legend below them, on the page's ground.
export async function pictureOf(host: HTMLElement, title: string, legend: Legend[] = []): Promise<HTMLCanvasElement> {
  const parts: HTMLCanvasElement[] = [];
  for (const node of host.querySelectorAll('canvas, svg')) {
    if (node instanceof HTMLCanvasElement) {
      parts.push(node);
    } else if (node.parentElement?.closest('svg') === null && node.getBoundingClientRect().width > 40) {
      parts.push(await drawnSvg(node as SVGSVGElement));
    }
  }
  const [line, margin] = [36, 24];
  const width = Math.max(600, ...parts.map((part) => part.width)) + 2 * margin;
  const height = margin + line + parts.reduce((sum, part) => sum + part.height, 0) + line * Math.min(legend.length, 20) + margin;
  const canvas = element('canvas', {width, height});
  const ctx = canvas.getContext('2d')!;
  ctx.fillStyle = color('panel');
  ctx.fillRect(0, 0, width, height);
  ctx.fillStyle = color('text');
  ctx.font = '600 24px system-ui, sans-serif';
  ctx.fillText(title, margin, margin + 20);
  let top = margin + line;
  for (const part of parts) {
    ctx.drawImage(part, margin, top);
    top += part.height;
  }
  ctx.font = '20px system-ui, sans-serif';
  legend.slice(0, 20).forEach((one) => {
    ctx.fillStyle = one.color;
    ctx.fillRect(margin, top + 8, 18, 18);
    ctx.fillStyle = color('text');
    ctx.fillText(one.text, margin + 30, top + 24);
    top += line;
  });
  return canvas;
}

const fileName = (title: string): string => title.toLowerCase().replace(/[^a-z0-9]+/g, '_').replace(/^_|_$/g, '');

// "CSV" and "PNG", as buttons. Either may be left out.
export function exportButtons(title: string, csv: (() => Cell[][]) | null, png: (() => Promise<HTMLCanvasElement>) | null): HTMLElement {
  const button = (label: string, what: string, act: () => void): HTMLElement => {
    const made = element('button', {type: 'button', class: 'export', title: `${title} as ${what}`, 'aria-label': `${title} as ${what}`}, label);
    made.addEventListener('click', act);
    return made;
  };
  return element('span', {class: 'exports'},
    csv === null ? null : button('CSV', 'a table', () => save(`${fileName(title)}.csv`, new Blob([csvOf(csv())], {type: 'text/csv'}))),
    png === null ? null : button('PNG', 'a picture', () => {
      void png().then((canvas) => canvas.toBlob((content) => content !== null && save(`${fileName(title)}.png`, content), 'image/png'));
    }));
}
