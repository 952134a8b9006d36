// A page of docs/ that a script writes: prose, tables, charts, and for what must hold whether it does. How to picture it:
// experiments add to the page in turn, everything is printed as it comes, and the page is written when all have run. No
// figure on it is typed by hand.
import { mkdirSync, writeFileSync } from 'node:fs';
import { availableParallelism, loadavg } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { root } from '../../test/data.js';
import { machine } from './machine.js';

/** One experiment: what it is, and what it adds. */
export interface Experiment {
  readonly name: string;
  readonly title: string;
  /** What is done, in words. */
  readonly what: string;
  readonly run: (page: Page) => void | Promise<void>;
}

export class Page {
  /** A few minutes instead of an hour: fewer rounds, fewer requests. */
  readonly quick: boolean;
  readonly #virtual: boolean;
  readonly #lines: string[] = [];
  readonly #figures: { readonly file: string; readonly svg: string }[] = [];
  readonly #folder: string;
  readonly #verdicts: { readonly name: string; readonly what: string; readonly holds: boolean }[] = [];
  readonly #load = loadavg()[0]!;
  #name = '';

  constructor(quick: boolean, virtual: boolean, figures: string) {
    this.quick = quick;
    this.#virtual = virtual;
    this.#folder = figures;
  }

  begin({ name, title, what }: Experiment): void {
    this.#name = name;
    this.#add(`## ${name}: ${title}`, '', what, '');
  }

  /** A paragraph. */
  say(text: string): void {
    this.#add(text, '');
  }

  /** What needs a machine with nothing else to do; left out of a run in virtual time. */
  async live(run: (page: Page) => Promise<void>): Promise<void> {
    if (this.#virtual) this.say('Live: left out of this run.');
    else await run(this);
  }

  table(head: readonly string[], rows: readonly (readonly (string | number)[])[]): void {
    this.#add(`| ${head.join(' | ')} |`, `|${head.map((_, i) => (i === 0 ? ' --- |' : ' ---: |')).join('')}`);
    for (const row of rows) this.#add(`| ${row.join(' | ')} |`);
    this.#add('');
  }

  /** Something that must hold, and whether it does, with the figures. */
  holds(what: string, holds: boolean): void {
    this.#verdicts.push({ name: this.#name, what, holds });
    this.#add(`- ${holds ? '✓ holds' : '✗ **does not hold**'}: ${what}`, '');
  }

  figure(name: string, caption: string, svg: string): void {
    this.#figures.push({ file: `${name}.svg`, svg });
    this.#add(`![${caption}](${path.basename(this.#folder)}/${name}.svg)`, '');
  }

  /** Writes the page and its charts. */
  write(file: string, title: string, introduction: string): void {
    const failed = this.#verdicts.filter((v) => !v.holds);
    const summary =
      failed.length === 0
        ? `All ${this.#verdicts.length} statements below hold.`
        : `Of ${this.#verdicts.length} statements below ${failed.length} do not hold: ${failed.map((v) => `${v.name} (${v.what})`).join('; ')}.`;
    mkdirSync(this.#folder, { recursive: true });
    for (const { file: name, svg } of this.#figures) writeFileSync(path.join(this.#folder, name), svg);
    const head = [`# ${title}`, '', introduction, '', this.#where(), '', summary, ''];
    writeFileSync(file, `${[...head, ...this.#lines].join('\n').trimEnd()}\n`);
  }

  #where(): string {
    const length = this.quick ? 'quick run (`--quick`): fewer rounds and requests than the full one' : 'full run';
    const when = `${new Date().toISOString().slice(0, 10)}, ${length}`;
    if (this.#virtual)
      return `${machine()}. ${when}; in virtual time only (\`--virtual\`), so nothing here is a measurement of this machine but what experiments say of their own speed.`;
    const load = `load average ${this.#load.toFixed(1)} when it began${this.#load > 0.5 * availableParallelism() ? ': the machine had other work, and what is live here is not to be believed' : ''}`;
    return `${machine()}. ${when}; ${load}.`;
  }

  #add(...lines: string[]): void {
    this.#lines.push(...lines);
    console.log(lines.join('\n').trimEnd());
  }
}

/**
 * Runs the experiments named on the command line, all by default: `[NAME…] [--quick] [--virtual]`; `--virtual` leaves
 * out what is live. Only a run of all of them writes
 * the page `docs/NAME.md`, with charts in `docs/figures`.
 */
export async function writePage(
  name: string,
  title: string,
  introduction: string,
  experiments: readonly Experiment[],
): Promise<void> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { quick: { type: 'boolean', default: false }, virtual: { type: 'boolean', default: false } },
  });
  const known = experiments.map((e) => e.name);
  for (const p of positionals)
    if (!known.includes(p)) throw new Error(`no experiment ${p}; there are ${known.join(', ')}`);
  console.log(`${machine()}\n`);
  const page = new Page(values.quick, values.virtual, path.join(root, 'docs/figures'));
  for (const e of experiments) {
    if (positionals.length > 0 && !positionals.includes(e.name)) continue;
    page.begin(e);
    await e.run(page);
  }
  if (positionals.length === 0) page.write(path.join(root, 'docs', `${name}.md`), title, introduction);
}

/** `12.3`, three digits or so. */
export function digits(x: number): string {
  if (!Number.isFinite(x)) return x > 0 ? '∞' : '–';
  return x >= 100 ? x.toFixed(0) : x >= 10 ? x.toFixed(1) : x >= 1 ? x.toFixed(2) : x.toFixed(3);
}
