// Which requests may share a task, and along which axes: the batch-axis proof (compiler/batch-axis.ts) in use. A request's
// *kind* says what it must agree in with others: the types and shapes of its inputs but for the batch axis, the elements of
// inputs that have no such axis, and the outputs wanted. Requests of one kind are one cell type to the scheduler.
//
//   declared  x [batch, 3, h, w]      request  x [2, 3, 64, 96]  ─▶  kind "0 │ x float32[*,3,64,96] │ logits", 2 rows
//
// Where the batch axis is, is first guessed from the declared dimensions, which costs nothing; whether merging along it is
// right, is proved only when a second request of the kind is there: a proof takes as long as some runs (50 ms for a
// network of 500 nodes), and a caller who sends one request at a time never needs it. Pure of threads and scheduling.
import { createHash } from 'node:crypto';
import { type BatchInput, type BatchOutput, proveBatchAxis } from '../compiler/batch-axis.js';
import { type Cut, describeStages, timesOf } from '../compiler/cell-stages.js';
import type { Graph, Node, ValueInfo } from '../graph/graph.js';
import type { ModelMemory } from '../runtime/memory.js';
import { bytesIn, type Carried, copyOut, isStaged, type Staged } from '../runtime/staged.js';
import { formatNode } from '../tensor/errors.js';
import { sizeOf } from '../tensor/shape.js';
import type { Tensor } from '../tensor/tensor.js';
import type { DataType } from '../tensor/types.js';
import { type Axes, candidateAxes } from './axes.js';

/** Whether requests of a kind may be merged. */
export type Verdict =
  | {
      readonly proven: true;
      readonly axes: Axes;
      readonly outputs: ReadonlyMap<string, BatchOutput | 'shared'>;
    }
  | { readonly proven: false; readonly node: Node | undefined; readonly why: string };

/** `model.batching` and `skep inspect`: may concurrent requests be computed together? */
export type Batching =
  | {
      readonly proven: true;
      /**
       * By input: the axis along which requests are joined; null: merged requests must give the same tensor. Where requests
       * are cut into cells: the axis of an input's times; null: each request has its own tensor.
       */
      readonly axes: Readonly<Record<string, number | null>>;
      /** The stages of a recurrent model's requests in words: those of one stage are computed together, whatever their lengths. */
      readonly cells?: readonly string[];
    }
  | {
      readonly proven: false;
      /** The node where the proof ended, in words; undefined when it is about inputs or outputs. */
      readonly node: string | undefined;
      readonly why: string;
    };

/** A request as the scheduler sees it. */
export interface Kind {
  /** Equal for requests that may share a task, if the proof says so. */
  readonly key: string;
  readonly axes: Axes;
  /** Rows the request has along the axes, at least 1. */
  readonly rows: number;
}

/** The elements of an input without a batch axis are part of the key up to this many bytes; above, their digest is. */
const KEY_BYTES = 1024;

/** Elements given to the proof: what decides shapes and branches is small. */
const VALUE_ELEMENTS = 64;

/** Verdicts kept. */
const VERDICTS = 256;

/** An input of one request; its elements where they are known and few, for shapes and branches may depend on them. */
export interface RequestInput {
  readonly name: string;
  readonly type: DataType;
  readonly dims: readonly number[];
  readonly value?: Tensor;
}

/** Rows of a request along the axes; undefined where it has none, or its inputs disagree. */
export function rowsAlong(axes: Axes, dims: readonly (readonly number[] | undefined)[]): number | undefined {
  let rows: number | undefined;
  for (const [i, axis] of axes.entries()) {
    if (axis === undefined || dims[i] === undefined) continue;
    const n = dims[i][axis];
    if (n === undefined || n < 1 || (rows !== undefined && n !== rows)) return undefined;
    rows = n;
  }
  return rows;
}

/** Proves that requests like this one may be merged along the axes, or says why not. Inputs not fed are undefined. */
export function proveAxes(graph: Graph, inputs: readonly (RequestInput | undefined)[], axes: Axes): Verdict {
  const given = new Map<string, BatchInput>();
  inputs.forEach((input, i) => {
    if (input === undefined) return;
    const { type, dims, value } = input;
    const axis = axes[i];
    given.set(input.name, { type, dims, axis, ...(axis === undefined && value !== undefined && { value }) });
  });
  const proof = proveBatchAxis(graph, given);
  return proof.proven ? { proven: true, axes, outputs: proof.outputs } : proof;
}

/** What can be said of a model for inputs of these shapes: the first candidate that is proved, or why the first is not. */
export function batchingOf(
  graph: Graph,
  declared: readonly ValueInfo[],
  inputs: readonly (RequestInput | undefined)[],
): Batching {
  let first: Verdict | undefined;
  const dims = inputs.map((i) => i?.dims);
  for (const axes of candidateAxes(declared)) {
    if (rowsAlong(axes, dims) === undefined) continue;
    const verdict = proveAxes(graph, inputs, axes);
    first ??= verdict;
    if (verdict.proven) return describe(declared, verdict);
  }
  return describe(declared, first ?? { proven: false, node: undefined, why: 'no input has an axis for a batch' });
}

/** What is said of requests that are cut so. */
export function batchingOfCut(declared: readonly ValueInfo[], cut: Cut): Batching {
  const times = timesOf(cut);
  const axes = Object.fromEntries(declared.map((v) => [v.name, times.get(v.name) ?? null]));
  return { proven: true, axes, cells: describeStages(cut) };
}

function describe(declared: readonly ValueInfo[], verdict: Verdict): Batching {
  if (!verdict.proven) return { proven: false, node: verdict.node && formatNode(verdict.node), why: verdict.why };
  return { proven: true, axes: Object.fromEntries(declared.map((v, i) => [v.name, verdict.axes[i] ?? null])) };
}

/** Judges the requests of one model. An instance has its own. */
export class Judge {
  readonly #graph: Graph;
  readonly #inputs: readonly ValueInfo[];
  readonly #memory: ModelMemory;
  readonly #candidates: readonly Axes[];
  readonly #verdicts = new Map<string, Verdict>();
  /** The candidate to guess first: another than the first once that one has been proved instead. */
  #guess = 0;
  #batching: Batching | undefined;

  constructor(graph: Graph, inputs: readonly ValueInfo[], memory: ModelMemory) {
    this.#graph = graph;
    this.#inputs = inputs;
    this.#memory = memory;
    this.#candidates = candidateAxes(inputs);
  }

  /** What the last proof said; undefined before the first. */
  get batching(): Batching | undefined {
    return this.#batching;
  }

  /** The kind of a request; undefined when it can only run by itself. `values` in the order of the model's inputs. */
  kindOf(values: readonly (Carried | undefined)[], wanted: Int32Array): Kind | undefined {
    // Strings, sequences and optionals are no rows.
    if (!values.every((v) => v === undefined || isStaged(v))) return undefined;
    const staged = values as readonly (Staged | undefined)[];
    const dims = staged.map((v) => v?.dims);
    for (let i = 0; i < this.#candidates.length; i++) {
      const candidate = (this.#guess + i) % this.#candidates.length;
      const axes = this.#candidates[candidate]!;
      const rows = rowsAlong(axes, dims);
      if (rows !== undefined) return { key: this.#key(candidate, staged, wanted), axes, rows };
    }
    return undefined;
  }

  /** Rows of a request, as far as can be said without sorting it; 1 where requests are not merged. */
  rowsOf(values: readonly (Carried | undefined)[]): number {
    if (this.#batching?.proven === false || this.#candidates.length === 0) return 1;
    const axes = this.#candidates[this.#guess]!;
    const dims = values.map((v) => (isStaged(v) ? v.dims : undefined));
    return rowsAlong(axes, dims) ?? 1;
  }

  /**
   * Whether requests like this one may be merged along its kind's axes. When another candidate is proved instead, requests
   * that come later are sorted by that one.
   */
  judge(kind: Kind, values: readonly (Carried | undefined)[]): Verdict {
    const known = this.#verdicts.get(kind.key);
    if (known !== undefined) return known;
    const inputs = values.map((v, i) => (isStaged(v) ? this.#inputOf(this.#inputs[i]!.name, v) : undefined));
    const verdict = proveAxes(this.#graph, inputs, kind.axes);
    this.#verdicts.set(kind.key, verdict);
    if (this.#verdicts.size > VERDICTS) this.#verdicts.delete(this.#verdicts.keys().next().value!);
    let told: Verdict = verdict;
    for (const [i, axes] of this.#candidates.entries()) {
      if (told.proven) break;
      if (
        axes === kind.axes ||
        rowsAlong(
          axes,
          inputs.map((x) => x?.dims),
        ) === undefined
      )
        continue;
      const other = proveAxes(this.#graph, inputs, axes);
      if (!other.proven) continue;
      this.#guess = i;
      told = other;
    }
    this.#batching = describe(this.#inputs, told);
    return verdict;
  }

  #key(candidate: number, values: readonly (Staged | undefined)[], wanted: Int32Array): string {
    const axes = this.#candidates[candidate]!;
    let key = `${candidate}|${wanted.join()}`;
    values.forEach((v, i) => {
      if (v === undefined) key += '|';
      else if (axes[i] === undefined) key += `|${v.type}[${v.dims.join()}]${this.#elements(v)}`;
      else key += `|${v.type}[${v.dims.map((d, axis) => (axis === axes[i] ? '*' : d)).join()}]`;
    });
    return key;
  }

  /** The elements of an input that must be the same for all, as text. */
  #elements(value: Staged): string {
    const bytes = Buffer.from(this.#memory.bytes(value.address, bytesIn(value)));
    return bytes.length <= KEY_BYTES ? bytes.toString('latin1') : digest(bytes).toString('latin1');
  }

  #inputOf(name: string, v: Staged): RequestInput {
    const { type, dims } = v;
    return { name, type, dims, ...(sizeOf(dims) <= VALUE_ELEMENTS && { value: copyOut(this.#memory, v) as Tensor }) };
  }
}

/** 32 bytes that stand for any number of bytes. */
export function digest(bytes: Buffer | string): Buffer {
  return createHash('sha256').update(bytes).digest();
}
