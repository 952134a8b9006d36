// The profiler: measures what the optimizer needs to know, on instances of its own that never look at the queue.
//
//   L[t][b]   an instance of t threads alone, for every t, b = 1, 2, 4 …      all threads first, then one, then the others
//   S[k]      k of them at once, for the pairs of t and k that the machine has room for
//   whole     a configuration: every instance its batch, all at the same time
//
// A row of L ends early where fewer threads are faster, clearly and twice in a row: what is beyond will not be chosen. The
// row of all threads is measured whole, for it is what others are compared with. When the budget is used up or the
// signal comes, what runs is stopped and what has been measured is the answer.
import { availableParallelism } from 'node:os';
import type { Configuration } from '../optimizer/configuration.js';
import { SkepError } from '../tensor/errors.js';
import { Gate } from './gate.js';
import type { Host } from './host.js';
import type { Instance } from './instances.js';
import type { MeasureReport } from './measuring.js';
import { type RequestValues, revive } from './requests.js';
import type { TuneProgress } from './tuning.js';

export interface ProfilerOptions {
  readonly host: Host;
  readonly request: RequestValues;
  readonly threads: number;
  readonly batch: number;
  /** Milliseconds. */
  readonly budget: number;
  readonly signal: AbortSignal | undefined;
  readonly onProgress: ((progress: TuneProgress) => void) | undefined;
  /** Its threads do not keep the process alive. */
  readonly background?: boolean;
  /** What has been measured before, and is not measured again. */
  readonly known?: Measurements | undefined;
}

type Table = { [threads: number]: { [batch: number]: number } };
type Factors = { [threads: number]: { [batch: number]: { [instances: number]: number } } };

/** L[t][b] in ms and S[t][b][k], as a profile has them. */
export interface Measurements {
  readonly latency: Readonly<Table>;
  readonly interference?: Readonly<Factors>;
}

/** Runs of one measurement at least and at most, and how long they should take together, ms. */
const LEAST = 3;
const MOST = 15;
const ENOUGH = 60;
/** A batch that takes so much longer than with fewer threads makes the row end, the second time. */
const WORSE = 1.05;

export class Profiler {
  readonly #options: ProfilerOptions;
  readonly #begun = performance.now();
  readonly #latency: Table;
  readonly #interference: Factors;
  /** Whether rows of the request can be merged; else 1 is the only batch. */
  batches = true;
  /** False once something was left out for lack of time. */
  complete = true;
  #address = 0;
  #gate: Gate | undefined;
  #stopped = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: ProfilerOptions) {
    this.#options = options;
    this.#latency = structuredClone({ ...options.known?.latency });
    this.#interference = structuredClone({ ...options.known?.interference });
  }

  /** What has been measured so far. */
  get measurements(): Measurements {
    const latency = this.#latency;
    const interference = this.#interference;
    return Object.keys(interference).length > 0 ? { latency, interference } : { latency };
  }

  /** Milliseconds left. */
  get left(): number {
    return this.#begun + this.#options.budget - performance.now();
  }

  get measured(): boolean {
    return Object.keys(this.#latency).length > 0;
  }

  /** Calls `work`, during which measurements can be made. */
  async during(work: () => Promise<void>): Promise<void> {
    const { host, request, signal } = this.#options;
    const stop = () => {
      this.#stopped = true;
      this.complete = false;
      this.#gate?.stop();
    };
    if (signal?.aborted) stop();
    signal?.addEventListener('abort', stop, { once: true });
    this.#address = host.stage(request);
    try {
      await work();
    } finally {
      clearTimeout(this.#timer);
      signal?.removeEventListener('abort', stop);
      host.unstage(this.#address);
    }
  }

  /** L[t][b]. Throws what the very first measurement does: a request that cannot run. */
  async measureLatency(): Promise<void> {
    const { threads, batch } = this.#options;
    for (const t of order(threads)) {
      if (this.#over()) return;
      await this.#with([t], async ([instance]) => {
        this.batches = instance!.batches;
        let worse = 0;
        for (let b = 1; b <= (this.batches ? batch : 1); b *= 2) {
          if (this.#over()) return;
          const ms = this.#latency[t]?.[b] ?? (await this.#row(instance!, t, b));
          if (ms === undefined) return;
          worse = t < threads && this.#better(t, b, ms) ? worse + 1 : 0;
          if (worse === 2) return;
        }
      });
    }
  }

  /** S[k] of instances of t threads, as many as there is room for, and two. */
  async measureInterference(): Promise<void> {
    const { threads } = this.#options;
    for (const t of order(threads)) {
      const row = this.#latency[t];
      const most = Math.floor(threads / t);
      if (row === undefined || most < 2) continue;
      const sizes = Object.keys(row).map(Number);
      const pairs = new Set([1, sizes.at(-1)!]);
      for (const k of new Set([most, 2])) {
        if (this.#over()) return;
        await this.#with(new Array<number>(k).fill(t), async (instances) => {
          for (const b of pairs) {
            if (this.#over()) return;
            if (this.#interference[t]?.[b]?.[k] !== undefined) continue;
            const rounds = Math.max(LEAST, Math.min(MOST, Math.ceil(ENOUGH / row[b]!)));
            const times = await this.#measure(
              instances,
              instances.map(() => b),
              rounds,
              rounds,
            );
            if (times === undefined) return;
            const ms = median(times.flat());
            put(this.#interference, t, b, { ...this.#interference[t]?.[b], [k]: ms / row[b]! });
            this.#tell('interference', [{ instances: k, threads: t, batch: b }], ms);
          }
        });
      }
    }
  }

  /** Milliseconds until all instances of a configuration have done a batch, all begun at once; undefined: not in time. */
  async measureWhole(configuration: Configuration): Promise<number | undefined> {
    if (this.#over()) return undefined;
    const all = configuration.flatMap((g) => Array.from({ length: g.instances }, () => g));
    let found: number | undefined;
    await this.#with(
      all.map((g) => g.threads),
      async (instances) => {
        const rows = all.map((g) => g.batch);
        const times = await this.#measure(instances, rows, LEAST, LEAST);
        if (times === undefined) return;
        const spans = times[0]!.map((_, round) => Math.max(...times.map((t) => t[round]!)));
        found = median(spans);
        this.#tell('candidates', configuration, found);
      },
    );
    return found;
  }

  async #row(instance: Instance, t: number, b: number): Promise<number | undefined> {
    try {
      const times = await this.#measure([instance], [b], LEAST, MOST);
      if (times === undefined) return undefined;
      const ms = median(times[0]!);
      put(this.#latency, t, b, ms);
      this.#tell('latency', [{ instances: 1, threads: t, batch: b }], ms);
      return ms;
    } catch (error) {
      // A batch too large for the memory is not chosen; a request that cannot run at all is an error.
      if (b === 1) throw error;
      return undefined;
    }
  }

  /** Whether a row of fewer threads is clearly faster. */
  #better(t: number, b: number, ms: number): boolean {
    return Object.entries(this.#latency).some(([other, row]) => Number(other) < t && row[b]! * WORSE < ms);
  }

  /** Starts measuring instances with so many threads each, and ends them afterwards. */
  async #with(threads: readonly number[], work: (instances: readonly Instance[]) => Promise<void>): Promise<void> {
    const { host, background = false } = this.#options;
    const spin = threads.reduce((a, b) => a + b, 0) <= availableParallelism();
    const settled = await Promise.allSettled(threads.map((t) => host.measurer(t, spin, this.#address, background)));
    const started = settled.flatMap((s) => (s.status === 'fulfilled' ? [s.value] : []));
    try {
      for (const s of settled) if (s.status === 'rejected') throw s.reason;
      await work(started);
    } finally {
      host.retire(started);
      await Promise.all(started.map((i) => i.gone));
    }
  }

  /** The times of each instance; undefined when it was stopped before all were through. */
  async #measure(
    instances: readonly Instance[],
    rows: readonly number[],
    least: number,
    most: number,
  ): Promise<(readonly number[])[] | undefined> {
    const gate = new Gate();
    this.#gate = gate;
    if (this.#stopped) gate.stop();
    const settled = await Promise.allSettled(
      instances.map(
        (instance, i) =>
          new Promise<MeasureReport & { readonly kind: 'measured' }>((resolve, reject) => {
            instance.onReport = (report) => {
              if (report.kind === 'measured') resolve(report);
              else {
                gate.stop();
                reject(revive(report.error));
              }
            };
            instance.order({
              ...{ kind: 'measure', rows: rows[i]!, members: instances.length, gate: gate.buffer },
              ...{ least, most, milliseconds: ENOUGH },
            });
          }),
      ),
    );
    for (const s of settled) if (s.status === 'rejected') throw s.reason;
    const reports = settled.map((s) => (s as PromiseFulfilledResult<MeasureReport & { kind: 'measured' }>).value);
    if (reports.some((r) => r.stopped && r.times.length < least)) return undefined;
    this.#limit();
    return reports.map((r) => r.times);
  }

  /** From the first measurement on the budget may stop what runs. */
  #limit(): void {
    this.#timer ??= setTimeout(
      () => {
        this.#stopped = true;
        this.#gate?.stop();
      },
      Math.max(0, this.left),
    );
  }

  /** Whether there is no time for more. */
  #over(): boolean {
    const over = this.#stopped || (this.left <= 0 && this.measured);
    if (over) this.complete = false;
    return over;
  }

  #tell(phase: TuneProgress['phase'], configuration: Configuration, milliseconds: number): void {
    const elapsed = (performance.now() - this.#begun) / 1000;
    this.#options.onProgress?.({ phase, configuration, milliseconds, elapsed, budget: this.#options.budget / 1000 });
  }
}

/** All threads, one, and the others by how often they are a good number: powers of two, even ones, the rest. */
function order(threads: number): number[] {
  const all = Array.from({ length: threads }, (_, i) => i + 1);
  const rank = (t: number) =>
    t === threads ? 0 : t === 1 ? 1 : Number.isInteger(Math.log2(t)) ? 2 : t % 2 === 0 ? 3 : 4;
  return all.sort((a, b) => rank(a) - rank(b) || a - b);
}

function put<T>(table: { [t: number]: { [b: number]: T } }, t: number, b: number, value: T): void {
  const row = table[t] ?? {};
  row[b] = value;
  table[t] = row;
}

function median(times: readonly number[]): number {
  const sorted = [...times].sort((a, b) => a - b);
  return sorted[sorted.length >> 1]!;
}

/** Nothing was measured: why. */
export function nothingMeasured(signal: AbortSignal | undefined): SkepError {
  if (signal?.aborted) return new SkepError('ABORTED', 'measuring was aborted', { cause: signal.reason });
  return new SkepError('TIMEOUT', 'nothing could be measured within the budget');
}
