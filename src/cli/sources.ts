// Numbers that a command takes from files: profiles, lengths, arrivals. A file is named with, if need be, the place in it:
//
//   profiles.json#bert        the member `bert`             trace.json#requests.*.0    the first number of every request
//
// A .json file holds what it says; any other file is text with one number (or a row of them) a line.
import { existsSync } from 'node:fs';
import { OptimizerError } from '../optimizer/errors.js';
import { Profile } from '../optimizer/profile.js';
import { Random } from '../simulator/random.js';
import { logNormalLengths } from '../simulator/workload.js';
import { SkepError } from '../tensor/errors.js';
import { UsageError } from './command.js';
import { readBytes } from './files.js';

/** What `FILE` or `FILE#path` holds. Throws `INVALID_INPUT`. */
function readData(text: string): unknown {
  const at = existsSync(text) ? -1 : text.lastIndexOf('#');
  const file = at < 0 ? text : text.slice(0, at);
  const content = new TextDecoder().decode(readBytes(file));
  if (!file.endsWith('.json')) return rows(content, file);
  let data: unknown;
  try {
    data = JSON.parse(content);
  } catch (cause) {
    throw new SkepError('INVALID_INPUT', `${file}: is no JSON: ${(cause as Error).message}`, { cause });
  }
  return at < 0 ? data : member(data, text.slice(at + 1).split('.'), file);
}

function member(data: unknown, path: readonly string[], file: string): unknown {
  const [name, ...rest] = path;
  if (name === undefined) return data;
  if (name === '*' && Array.isArray(data)) return data.map((d) => member(d, rest, file));
  const inside = typeof data === 'object' && data !== null ? (data as Record<string, unknown>) : {};
  if (Object.hasOwn(inside, name)) return member(inside[name], rest, file);
  const names = Object.keys(inside).slice(0, 12).join(', ');
  throw new SkepError('INVALID_INPUT', `${file}: has no '${name}'; there is ${names === '' ? 'nothing' : names}`);
}

/** Lines of numbers, apart by spaces, commas or semicolons. Words in the first line are a heading. */
function rows(content: string, file: string): (number | number[])[] {
  const lines = content.split('\n').filter((l) => l.trim() !== '' && !l.startsWith('#'));
  const read = lines.map((l) =>
    l
      .trim()
      .split(/[\s,;]+/)
      .map(Number),
  );
  if (read[0]?.some(Number.isNaN)) read.shift();
  const bad = read.findIndex((r) => r.some(Number.isNaN));
  if (bad >= 0) throw new SkepError('INVALID_INPUT', `${file}: holds no numbers in '${lines[bad]?.slice(0, 40)}'`);
  return read.map((r) => (r.length === 1 ? r[0]! : r));
}

/** A profile: L[t][b] in ms with, if there, S[k]. Throws `INVALID_INPUT`, OptimizerError; both say where. */
export function readProfile(text: string): Profile {
  const data = readData(text);
  try {
    return Profile.from(data);
  } catch (error) {
    if (!(error instanceof OptimizerError)) throw error;
    const several = Object.entries(typeof data === 'object' && data !== null ? data : {}).filter(([, d]) =>
      isProfile(d),
    );
    const hint = several.length > 0 ? `; it holds several: ${several.map(([n]) => `${text}#${n}`).join(', ')}` : '';
    throw new OptimizerError(error.code, `${text}: ${error.message}${hint}`);
  }
}

function isProfile(data: unknown): boolean {
  try {
    Profile.from(data);
    return true;
  } catch {
    return false;
  }
}

/** Numbers, or pairs of them, that a file holds. */
function readNumbers(text: string, what: string): (number | number[])[] {
  const data = readData(text);
  const good = (x: unknown): boolean => typeof x === 'number' && Number.isFinite(x) && x >= 0;
  if (!Array.isArray(data) || data.length === 0 || !data.every((d) => good(d) || (Array.isArray(d) && d.every(good))))
    throw new SkepError('INVALID_INPUT', `${text}: expected ${what}: an array of numbers that are not negative`);
  return data;
}

/** Gaps between arrivals in ms; of rows the first number. */
export function readGaps(text: string): Float64Array {
  const gaps = Float64Array.from(readNumbers(text, 'gaps between arrivals in ms'), (g) =>
    typeof g === 'number' ? g : (g[0] ?? 0),
  );
  if (!(gaps.reduce((a, b) => a + b, 0) > 0)) throw new SkepError('INVALID_INPUT', `${text}: all gaps are 0 ms`);
  return gaps;
}

/** Sizes made of a distribution at once. */
const DRAWN = 2000;

/**
 * Lengths of requests: `25`, `uniform:1:50`, `lognormal:MEAN:VARIATION:MOST`, or a file of them. Pairs are an encoder's
 * and a decoder's steps.
 */
export function readLengths(text: string, seed: number): (number | readonly [number, number])[] {
  const [kind, ...numbers] = text.split(':');
  const given = numbers.map(Number);
  const whole = given.every((n) => Number.isFinite(n) && n > 0);
  if (/^\d+$/.test(text) && Number(text) > 0) return [Number(text)];
  if (kind === 'uniform' || kind === 'lognormal') {
    const wanted = kind === 'uniform' ? 'uniform:LEAST:MOST' : 'lognormal:MEAN:VARIATION:MOST';
    if (!whole || given.length !== (kind === 'uniform' ? 2 : 3) || (kind === 'uniform' && given[0]! > given[1]!))
      throw new UsageError(`--lengths must be ${wanted}, got '${text}'`);
    if (kind === 'lognormal') return logNormalLengths(DRAWN, given[0]!, given[1]!, given[2]!, seed);
    const random = new Random(seed);
    const [low, high] = [Math.round(given[0]!), Math.round(given[1]!)];
    return Array.from({ length: DRAWN }, () => low + random.below(high - low + 1));
  }
  return readNumbers(text, 'lengths').map((n) => {
    const row = typeof n === 'number' ? [n] : n;
    if (!row.slice(0, 2).every((x) => Number.isInteger(x) && x > 0))
      throw new SkepError(
        'INVALID_INPUT',
        `${text}: lengths must be whole numbers above 0, got ${JSON.stringify(n).slice(0, 40)}`,
      );
    return row.length === 1 ? row[0]! : [row[0]!, row[1]!];
  });
}
