// What people see: tables, sizes, and progress. Answers go to stdout, everything else to stderr, so that output can be
// piped while progress stays visible.
import process from 'node:process';

/** Prints a line of the answer. */
export function print(line = ''): void {
  process.stdout.write(`${line}\n`);
}

/** Prints a line beside the answer. */
export function note(line: string): void {
  process.stderr.write(`${line}\n`);
}

/** Prints an answer for machines. */
export function printJson(value: unknown): void {
  print(JSON.stringify(value, null, 2));
}

/** A line that says how far something long has come: rewritten in place on a terminal, a line now and then elsewhere. */
export class Progress {
  readonly #terminal = process.stderr.isTTY === true;
  #last = Date.now();
  #shown = false;

  /** Shows `text` unless something was shown a moment ago. */
  update(text: string): void {
    const now = Date.now();
    if (now - this.#last < (this.#terminal ? 100 : 10_000)) return;
    this.#last = now;
    if (this.#terminal) {
      const width = process.stderr.columns ?? 80;
      process.stderr.write(`\r\x1b[2K${text.slice(0, width - 1)}`);
      this.#shown = true;
    } else note(text);
  }

  /** Removes the line. */
  done(): void {
    if (this.#shown) process.stderr.write('\r\x1b[2K');
    this.#shown = false;
  }
}

/** What is aligned right: a number as people write it, with its unit, or nothing. */
const NUMBER = /^([-–∞]?|-?[\d.,]+(e[-+]?\d+)?( ?(%|ms|×))?)$/;

/** Rows in columns, two spaces apart; columns whose cells are all numbers are aligned right. */
export function table(head: readonly string[], rows: readonly (readonly (string | number)[])[]): string[] {
  const cells = rows.map((row) => row.map(String));
  const right = head.map((_, i) => rows.length > 0 && cells.every((row) => NUMBER.test(row[i]!)));
  const widths = head.map((h, i) => Math.max(h.length, ...cells.map((row) => row[i]!.length)));
  const line = (row: readonly string[]) =>
    row
      .map((cell, i) => (right[i] ? cell.padStart(widths[i]!) : cell.padEnd(widths[i]!)))
      .join('  ')
      .trimEnd();
  return [line(head), ...cells.map(line)];
}

/** `4.7 MB` (10^6 bytes). */
export function formatBytes(bytes: number): string {
  return formatScaled(bytes, ['B', 'kB', 'MB', 'GB']);
}

/** `3.1 G`. */
export function formatCount(n: number): string {
  return formatScaled(n, ['', 'k', 'M', 'G', 'T']).trimEnd();
}

/** `12.3 ms` or `4.56 s`. */
export function formatTime(milliseconds: number): string {
  return milliseconds < 1000 ? `${milliseconds.toPrecision(3)} ms` : `${(milliseconds / 1000).toFixed(2)} s`;
}

function formatScaled(n: number, units: readonly string[]): string {
  let i = 0;
  let x = n;
  while (x >= 999.5 && i < units.length - 1) {
    x /= 1000;
    i++;
  }
  return `${i === 0 ? x : x >= 99.5 ? x.toFixed(0) : x.toPrecision(3)} ${units[i]}`;
}
