// Runs the scheduler's tasks on integers instead of tensors: a row is one number, a cell mixes its inputs into it. A
// node that runs too early, twice, on a wrong or a reused row gives another number, so "equal to the recursion below"
// stands for every dependency and every row. Steps without rows write to the request's own memory, as kernels would.
import type { Beam } from '../../src/cellular/beam.js';
import { extendBeam } from '../../src/cellular/beam.js';
import type { Scheduler } from '../../src/cellular/scheduler.js';
import type { Task } from '../../src/cellular/task.js';
import type { Unfolding } from '../../src/cellular/unfold.js';

export function mix(...values: number[]): number {
  let h = 0x811c9dc5 | 0;
  for (const v of values) h = Math.imul(h ^ v, 0x01000193) ^ (h >>> 15);
  return h | 0;
}

/** Where an encoder–decoder's decoder stops: a stop token that depends on what it has computed. */
export const stops = (value: number): boolean => (value & 7) === 0;

/** One step of a beam search: candidates' scores, the parents of the beams that go on, and whether to go on. */
export function selectStep(
  rows: readonly number[],
  width: number,
): { parents: number[]; token: number; more: boolean } {
  const candidates: { parent: number; score: number }[] = [];
  rows.forEach((row, parent) => {
    for (let v = 0; v < 3; v++) candidates.push({ parent, score: mix(row, v) });
  });
  candidates.sort((a, b) => b.score - a.score || a.parent - b.parent);
  const best = candidates.slice(0, width);
  const token = mix(...rows);
  return { parents: best.map((c) => c.parent), token, more: (token & 15) !== 0 };
}

export interface Running {
  readonly unfolding: Unfolding;
  readonly seed: number;
  /** What the request's own memory holds: outputs without a row, and all values in the order they came. */
  readonly own: Map<string, number>;
  /** Nodes and steps that have run. */
  readonly ran: Set<string>;
  result: number[];
}

export const start = (unfolding: Unfolding, seed: number): Running => ({
  unfolding,
  seed,
  own: new Map(),
  ran: new Set(),
  result: [],
});

/** Runs the instance's oldest task (and grows or stops what it says), but does not complete it. */
export function runTask(s: Scheduler, task: Task, rows: Int32Array, requests: ReadonlyMap<number, Running>): void {
  const inputs = new Int32Array(4096);
  const written: [number, number][] = [];
  for (let i = 0; i < task.size; i++) {
    const q = requests.get(task.key(i))!;
    const ran = (name: string, value: number) => {
      if (q.ran.has(name)) throw new Error(`${name} of request ${task.key(i)} runs twice`);
      q.ran.add(name);
      q.result.push(value);
    };
    let value = 0;
    if (task.isChain(i)) {
      value = task.startsFresh(i) || task.row(i) < 0 ? 0 : rows[task.row(i)]!;
      for (let k = 0; k < task.steps(i); k++) {
        const t = task.step(i) + k;
        value = stepValue(task, t, task.row(i) < 0 ? 0 : value, q);
        ran(`${task.part(i)}:${t}`, value);
        q.own.set(`${task.type}:${t}`, value);
        if (q.unfolding.kind === 'encoder-decoder' && task.type === q.unfolding.decoder && stops(value)) {
          s.stop(task.instance, i, k + 1);
          break;
        }
      }
    } else {
      value = nodeValue(task, i, rows, q, inputs);
      ran(`n${task.node(i)}`, value);
    }
    if (task.row(i) >= 0) written.push([task.row(i), value]);
    if (q.unfolding.kind === 'beam' && task.type === q.unfolding.select) advance(s, task, i, rows, q.unfolding, inputs);
  }
  // All of a batch is read before any of it is written, as a kernel does.
  for (const [row, value] of written) rows[row] = value;
}

/** Throws when what the step needs is not there. */
function stepValue(task: Task, t: number, state: number, q: Running): number {
  const u = q.unfolding;
  const own = (name: string): number => {
    const value = q.own.get(name);
    if (value === undefined) throw new Error(`${name} is not there when step ${t} of type ${task.type} runs`);
    return value;
  };
  let below = 0;
  if (u.kind === 'projected' && task.type === u.type) below = own(`${u.projection}:${Math.floor(t / u.chunk)}`);
  if (u.kind === 'stacked' && task.type !== u.types[0]) {
    below = own(`${u.types[u.types.indexOf(task.type) - 1]}:${t}`);
  }
  if (u.kind === 'bidirectional' && task.type === u.merge) {
    below = mix(own(`${u.forward}:${u.length - 1}`), own(`${u.backward}:${u.length - 1}`));
  }
  return mix(q.seed, task.type, t, state, below);
}

function nodeValue(task: Task, i: number, rows: Int32Array, q: Running, inputs: Int32Array): number {
  const count = task.inputRows(i, inputs);
  const values = Array.from(inputs.subarray(0, count), (row) => rows[row]!);
  if (q.unfolding.kind === 'beam' && task.type === q.unfolding.decoder) {
    const { encoder, source } = q.unfolding;
    const state = count === 0 ? q.own.get(`${encoder}:${source - 1}`)! : values[0]!;
    return mix(q.seed, task.tag(i), state, count === 0 ? 0 : values[1]!);
  }
  if (q.unfolding.kind === 'beam') return selectStep(values, q.unfolding.width).token;
  return mix(q.seed, task.type, task.tag(i), ...values);
}

function advance(s: Scheduler, task: Task, i: number, rows: Int32Array, beam: Beam, inputs: Int32Array): void {
  const count = task.inputRows(i, inputs);
  const values = Array.from(inputs.subarray(0, count), (row) => rows[row]!);
  const { parents, more } = selectStep(values, beam.width);
  if (more && task.tag(i) + 1 < beam.maximum) extendBeam(s, task, i, beam, parents);
}

/** What a request must give, by recursion, with no scheduler: all values of its nodes, sorted. */
export function expected(u: Unfolding, seed: number): number[] {
  const out: number[] = [];
  const chain = (type: number, length: number, first = 0, below: (t: number) => number = () => 0): number[] => {
    const values: number[] = [];
    for (let t = 0; t < length; t++) values.push(mix(seed, type, t, t === 0 ? first : values[t - 1]!, below(t)));
    out.push(...values);
    return values;
  };
  switch (u.kind) {
    case 'chain':
      chain(u.type, u.length);
      break;
    case 'projected': {
      const chunks: number[] = [];
      for (let t = 0; t < Math.ceil(u.length / u.chunk); t++) chunks.push(mix(seed, u.projection, t, 0, 0));
      out.push(...chunks);
      chain(u.type, u.length, 0, (t) => chunks[Math.floor(t / u.chunk)]!);
      break;
    }
    case 'stacked': {
      let below: number[] | undefined;
      for (const type of u.types) {
        const under = below;
        below = chain(type, u.length, 0, (t) => (under === undefined ? 0 : under[t]!));
      }
      break;
    }
    case 'bidirectional': {
      const forward = chain(u.forward, u.length);
      const backward = chain(u.backward, u.length);
      if (u.merge !== undefined) chain(u.merge, 1, 0, () => mix(forward.at(-1)!, backward.at(-1)!));
      break;
    }
    case 'encoder-decoder': {
      let state = chain(u.encoder, u.source).at(-1)!;
      for (let t = 0; t < u.maximum; t++) {
        state = mix(seed, u.decoder, t, state, 0);
        out.push(state);
        if (stops(state)) break;
      }
      break;
    }
    case 'beam': {
      const state = chain(u.encoder, u.source).at(-1)!;
      let decoders = [mix(seed, 0, state, 0)];
      for (let t = 0; ; t++) {
        const { parents, token, more } = selectStep(decoders, u.width);
        out.push(...decoders, token);
        if (!more || t + 1 >= u.maximum) break;
        const before = decoders;
        decoders = parents.map((parent, j) => mix(seed, j * 65_536 + t + 1, before[parent]!, token));
      }
      break;
    }
    case 'tree': {
      const value = (i: number): number => {
        const children = Array.from(u.parents, (parent, c) => (parent === i ? c : -1)).filter((c) => c >= 0);
        const v = mix(seed, children.length === 0 ? u.leaf : u.inner, i, ...children.map(value));
        out.push(v);
        return v;
      };
      value(u.parents.length - 1);
      break;
    }
    case 'graph': {
      const values: number[] = [];
      u.nodes.forEach((n, i) => {
        values.push(mix(seed, n.type, i, ...n.inputs.map((j) => values[j]!)));
      });
      out.push(...values);
      break;
    }
    default:
      u satisfies never;
  }
  return out.sort((a, b) => a - b);
}
