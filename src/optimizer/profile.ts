// A profile: what was measured about one model on one machine, and all that the optimizer and the queueing model know.
//
//   L[t][b]  milliseconds of one batch of b rows on one instance of t threads, alone on the machine
//   S[k]     the factor by which that grows while k instances run at once (S[1] = 1)
//
// Picture a table with a row for every thread count and a column for every measured batch size. Between columns the time
// is piecewise linear and made monotone (a larger batch never costs less: a dip is measurement noise). Between rows
// nothing is guessed: L is not monotone in t (thread counts that do not divide the work are slower), so a thread count
// that was not measured cannot be chosen. Measuring is the profiler's business; this file only checks and looks up.
import { OptimizerError, quote } from './errors.js';

/** `{ [threads]: { [batch]: milliseconds } }` */
export type LatencyTable = { readonly [threads: number]: { readonly [batch: number]: number } };

/** Factors by the number of busy instances, S[k]: `{ [k]: factor }`. */
export type FactorTable = { readonly [instances: number]: number };

/** S[k] for the whole model, or S[t][b][k] for the few (t, b) where it was measured. */
export type InterferenceTable = FactorTable | { readonly [threads: number]: { readonly [batch: number]: FactorTable } };

/** The JSON form of a profile. `latency` in ms; `cells` holds one profile a cell type for a model of several cells. */
export interface ProfileJson {
  readonly format: 'skep-profile';
  readonly version: 1;
  readonly latency?: LatencyTable;
  readonly interference?: InterferenceTable;
  readonly cells?: { readonly [cellType: string]: Omit<ProfileJson, 'format' | 'version' | 'cells'> };
}

/** What the functions of this layer take as a profile: parsed, its JSON form, or the bare table L[t][b] in ms. */
export type ProfileInput = Profile | LatencyTable | ProfileJson | { readonly latency: LatencyTable };

/** Most threads and the largest batch a profile or a question may name; a bound on work, far above real machines. */
export const MAX_THREADS = 1024;
export const MAX_BATCH = 65_536;
const MAX_MS = 1e12;
const MAX_FACTOR = 1e6;
const MAX_SIZES = 256;
const MAX_CELLS = 1024;

interface Row {
  readonly sizes: Float64Array; // measured batch sizes, ascending
  readonly measured: Float64Array; // ms as measured
  readonly monotone: Float64Array; // its running maximum
}

/** Factors at the measured k, ascending, with S[1] = 1 in front, nondecreasing. */
interface Factors {
  readonly counts: readonly number[];
  readonly values: readonly number[];
}

interface FactorPoint {
  readonly threads: number;
  readonly batch: number; // 0: any
  readonly factors: Factors;
}

/** A checked, immutable profile. Times in milliseconds. */
export class Profile {
  readonly #rows: ReadonlyMap<number, Row>;
  readonly #points: readonly FactorPoint[];
  /** Measured thread counts, ascending. */
  readonly threads: readonly number[];
  /** Profiles of the cell types of a model of several cells; empty otherwise. */
  readonly cells: ReadonlyMap<string, Profile>;

  private constructor(
    rows: ReadonlyMap<number, Row>,
    points: readonly FactorPoint[],
    cells: ReadonlyMap<string, Profile>,
  ) {
    this.#rows = rows;
    this.#points = points;
    this.threads = [...rows.keys()];
    this.cells = cells;
  }

  /** Checks any input, also a hostile one. Throws OptimizerError INVALID_PROFILE that says where. */
  static from(input: unknown): Profile {
    if (input instanceof Profile) return input;
    const top = record(input, 'profile');
    const wrapped = Object.hasOwn(top, 'latency') || Object.hasOwn(top, 'cells') || Object.hasOwn(top, 'format');
    if (!wrapped) return new Profile(parseRows(top, 'profile'), [], new Map());
    if (top.format !== undefined && top.format !== 'skep-profile') {
      fail(`profile.format: expected "skep-profile", got ${quote(top.format)}`);
    }
    if (top.version !== undefined && top.version !== 1) fail(`profile.version: expected 1, got ${quote(top.version)}`);
    const cells = new Map<string, Profile>();
    if (top.cells !== undefined) {
      const entries = Object.entries(record(top.cells, 'profile.cells'));
      if (entries.length > MAX_CELLS) fail(`profile.cells: at most ${MAX_CELLS} cell types, got ${entries.length}`);
      for (const [name, cell] of entries) {
        const where = `profile.cells[${quote(name)}]`;
        const body = record(cell, where);
        cells.set(name, new Profile(parseRows(body.latency, `${where}.latency`), parsePoints(body, where), new Map()));
      }
    }
    const rows = top.latency === undefined && cells.size > 0 ? new Map() : parseRows(top.latency, 'profile.latency');
    return new Profile(rows, parsePoints(top, 'profile'), cells);
  }

  /** The profile of one cell type; throws INVALID_ARGUMENT with the names there are. */
  cell(name: string): Profile {
    const cell = this.cells.get(name);
    if (cell) return cell;
    const names = [...this.cells.keys()].join(', ') || 'none';
    throw new OptimizerError('INVALID_ARGUMENT', `profile has no cell type ${quote(name)}; it has: ${names}`);
  }

  /** Measured batch sizes of one thread count, ascending; empty when that thread count was not measured. */
  sizes(threads: number): readonly number[] {
    return Array.from(this.#rows.get(threads)?.sizes ?? []);
  }

  /** Largest measured batch of one thread count; 0 when it was not measured. */
  largest(threads: number): number {
    return this.#rows.get(threads)?.sizes.at(-1) ?? 0;
  }

  /** L[t][b] in ms exactly as measured, undefined where it was not. */
  measured(threads: number, batch: number): number | undefined {
    const row = this.#rows.get(threads);
    const i = row === undefined ? -1 : row.sizes.indexOf(batch);
    return i < 0 ? undefined : row?.measured[i];
  }

  /**
   * L[t][b] in ms for any b up to the largest measured: monotone piecewise linear over b; below the smallest measured b,
   * that one's time. Infinity where nothing is known: an unmeasured t, or a b beyond the row.
   */
  latency(threads: number, batch: number): number {
    const row = this.#rows.get(threads);
    if (row === undefined) return Number.POSITIVE_INFINITY;
    const { sizes, monotone } = row;
    const last = sizes.length - 1;
    if (!(batch <= sizes[last])) return Number.POSITIVE_INFINITY;
    let low = 0;
    let high = last;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (sizes[middle] < batch) low = middle + 1;
      else high = middle;
    }
    if (low === 0 || sizes[low] === batch) return monotone[low];
    const share = (batch - sizes[low - 1]) / (sizes[low] - sizes[low - 1]);
    return monotone[low - 1] + share * (monotone[low] - monotone[low - 1]);
  }

  /** True when some S[k] was measured. Without, every factor is 1. */
  get hasInterference(): boolean {
    return this.#points.length > 0;
  }

  /** The most instances with which some S[k] was measured; beyond them it is extrapolated. 1 when there is none. */
  get measuredInstances(): number {
    return this.#points.reduce((most, p) => Math.max(most, ...p.factors.counts), 1);
  }

  /**
   * S[t][b][k]: how much slower one instance is while k run at once; at least 1, never less for more instances. Between
   * measured k linear; past the last, the last slope goes on. Where (t, b) was not measured the nearest that was, by
   * thread count, then by batch.
   */
  factor(instances: number, threads: number, batch: number): number {
    let best: FactorPoint | undefined = this.#points[0];
    if (best === undefined || best.batch === 0) return best === undefined ? 1 : factorAt(best.factors, instances);
    let distance = Number.POSITIVE_INFINITY;
    for (const point of this.#points) {
      const d = 1e3 * Math.abs(Math.log(point.threads / threads)) + Math.abs(Math.log(point.batch / batch));
      if (d < distance) {
        distance = d;
        best = point;
      }
    }
    return factorAt(best.factors, instances);
  }

  /**
   * The same times with every S[k] multiplied by what live batches showed: `corrections` maps k to observed over expected.
   * Between and beyond the observed k the nearest smaller one's applies. Factors stay at least 1 and do not fall with k.
   */
  corrected(corrections: ReadonlyMap<number, number>): Profile {
    if (corrections.size === 0) return this;
    const known = [...corrections.keys()].filter((k) => k > 1).sort((x, y) => x - y);
    const points =
      this.#points.length > 0 ? this.#points : [{ threads: 1, batch: 0, factors: { counts: [1], values: [1] } }];
    const changed = points.map((point) => {
      const counts = [...new Set([...point.factors.counts, ...known])].sort((x, y) => x - y);
      let multiplier = 1;
      let highest = 1;
      const values = counts.map((k) => {
        multiplier = corrections.get(k) ?? multiplier;
        if (k > 1) highest = Math.max(highest, factorAt(point.factors, k) * multiplier);
        return highest;
      });
      return { ...point, factors: { counts, values } };
    });
    return new Profile(this.#rows, changed, this.cells);
  }

  /** The same profile with every time multiplied by `scale` (a machine that has become slower or faster). */
  scaled(scale: number): Profile {
    const rows = new Map<number, Row>();
    for (const [t, row] of this.#rows) {
      rows.set(t, {
        sizes: row.sizes,
        measured: row.measured.map((ms) => ms * scale),
        monotone: row.monotone.map((ms) => ms * scale),
      });
    }
    return new Profile(rows, this.#points, new Map([...this.cells].map(([name, cell]) => [name, cell.scaled(scale)])));
  }

  /** The JSON form; `Profile.from` reads it back unchanged. */
  toJSON(): ProfileJson {
    const cells: { [name: string]: Omit<ProfileJson, 'format' | 'version' | 'cells'> } = Object.create(null);
    for (const [name, cell] of this.cells) cells[name] = cell.#body();
    return { format: 'skep-profile', version: 1, ...this.#body(), ...(this.cells.size > 0 ? { cells } : {}) };
  }

  #body(): Omit<ProfileJson, 'format' | 'version' | 'cells'> {
    const latency: { [t: number]: { [b: number]: number } } = {};
    for (const [t, row] of this.#rows) {
      latency[t] = {};
      for (let i = 0; i < row.sizes.length; i++) latency[t][row.sizes[i]] = row.measured[i];
    }
    const interference: { [t: number]: { [b: number]: FactorTable } } = {};
    for (const point of this.#points) {
      const factors = Object.fromEntries(point.factors.counts.map((k, i) => [k, point.factors.values[i]]));
      if (point.batch === 0) return { latency, interference: factors };
      interference[point.threads] ??= {};
      interference[point.threads][point.batch] = factors;
    }
    return this.#points.length > 0 ? { latency, interference } : this.#rows.size > 0 ? { latency } : {};
  }
}

function factorAt({ counts, values }: Factors, k: number): number {
  if (k <= 1) return 1;
  let i = 1;
  while (i < counts.length - 1 && counts[i] < k) i++;
  if (i >= counts.length) return values[values.length - 1]; // only S[1] is known
  const slope = (values[i] - values[i - 1]) / (counts[i] - counts[i - 1]);
  return values[i] + slope * (k - counts[i]);
}

function fail(message: string): never {
  throw new OptimizerError('INVALID_PROFILE', message);
}

function record(value: unknown, where: string): { readonly [key: string]: unknown } {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    fail(
      `${where}: expected an object, got ${value === null ? 'null' : Array.isArray(value) ? 'an array' : typeof value}`,
    );
  }
  return value as { readonly [key: string]: unknown };
}

/** The entries of an object keyed by positive integers, ascending. */
function numbered(value: unknown, where: string, what: string, highest: number): [number, unknown][] {
  const entries = Object.entries(record(value, where));
  const result = entries.map(([key, entry]): [number, unknown] => {
    const n = /^[1-9]\d{0,6}$/.test(key) ? Number(key) : Number.NaN;
    if (!(n <= highest)) fail(`${where}: expected ${what} from 1 to ${highest} as a key, got ${quote(key)}`);
    return [n, entry];
  });
  if (result.length === 0) fail(`${where}: empty`);
  return result.sort((x, y) => x[0] - y[0]);
}

function positive(value: unknown, where: string, what: string, highest: number): number {
  if (typeof value === 'number' && value > 0 && value <= highest) return value;
  return fail(`${where}: expected ${what} above 0 and at most ${highest}, got ${quote(value)}`);
}

function parseRows(value: unknown, where: string): Map<number, Row> {
  const rows = new Map<number, Row>();
  for (const [t, row] of numbered(value, where, 'a thread count', MAX_THREADS)) {
    const entries = numbered(row, `${where}[${t}]`, 'a batch size', MAX_BATCH);
    if (entries.length > MAX_SIZES) fail(`${where}[${t}]: at most ${MAX_SIZES} batch sizes, got ${entries.length}`);
    const measured = Float64Array.from(entries, ([b, ms]) =>
      positive(ms, `${where}[${t}][${b}]`, 'milliseconds', MAX_MS),
    );
    let highest = 0;
    const monotone = measured.map((ms) => {
      highest = Math.max(highest, ms);
      return highest;
    });
    rows.set(t, { sizes: Float64Array.from(entries, ([b]) => b), measured, monotone });
  }
  return rows;
}

function parseFactors(entries: readonly [number, unknown][], where: string): Factors {
  const counts = [1];
  const values = [1];
  for (const [k, factor] of entries) {
    const value = positive(factor, `${where}[${k}]`, 'a factor', MAX_FACTOR);
    if (k === 1) continue; // S[1] is 1 by definition: L was measured alone
    counts.push(k);
    values.push(Math.max(values[values.length - 1], value));
  }
  return { counts, values };
}

function parsePoints(body: { readonly interference?: unknown }, within: string): FactorPoint[] {
  if (body.interference === undefined) return [];
  const where = `${within}.interference`;
  const entries = numbered(body.interference, where, 'a count', MAX_THREADS);
  if (typeof entries[0][1] === 'number') return [{ threads: 1, batch: 0, factors: parseFactors(entries, where) }];
  const points: FactorPoint[] = [];
  for (const [t, row] of entries) {
    for (const [b, factors] of numbered(row, `${where}[${t}]`, 'a batch size', MAX_BATCH)) {
      const place = `${where}[${t}][${b}]`;
      const counts = numbered(factors, place, 'an instance count', MAX_THREADS);
      points.push({ threads: t, batch: b, factors: parseFactors(counts, place) });
      if (points.length > MAX_SIZES) fail(`${where}: at most ${MAX_SIZES} measured (threads, batch) pairs`);
    }
  }
  return points;
}
