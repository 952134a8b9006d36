// What the tests of the batch-axis proof share: judging a graph, and running merged requests against single ones.
import * as assert from 'uvu/assert';
import { type BatchInput, type BatchProof, proveBatchAxis } from '../../src/compiler/batch-axis.js';
import type { Graph } from '../../src/graph/graph.js';
import type { HostValue } from '../../src/operators/operator.js';
import { sizeOf } from '../../src/tensor/shape.js';
import { bytesOf, Tensor, tensorFromBytes } from '../../src/tensor/tensor.js';
import { assertSameBits, builds, GraphRunner } from '../operators/harness.js';
import { numbers } from './fusion.js';

/** An input for the proof and for the runs: its rows' axis and its shape, of one row. */
export interface Input {
  readonly axis: number | undefined;
  readonly dims: readonly number[];
  /** Integers below this instead of floats. */
  readonly below?: number;
  /** Integers' type; default int64. */
  readonly type?: 'int64' | 'int32' | 'bool';
  /** The elements, the same for all. */
  readonly value?: Tensor;
}

export type Inputs = Readonly<Record<string, Input>>;

/** The proof's verdict. */
export function judge(graph: Graph, inputs: Inputs): BatchProof {
  const infos = Object.entries(inputs).map(
    ([name, { axis, dims, below, type = 'int64', value }]): [string, BatchInput] => [
      name,
      { axis, dims, type: value?.type ?? (below === undefined ? 'float32' : type), ...(value && { value }) },
    ],
  );
  return proveBatchAxis(graph, new Map(infos));
}

/** `count` elements along `axis` from `start`. */
function cut(t: Tensor, axis: number, start: number, count: number): Tensor {
  const inner = sizeOf(t.dims.slice(axis + 1)) * (bytesOf(t).length / Math.max(1, t.size));
  const [outer, along] = [sizeOf(t.dims.slice(0, axis)), t.dims[axis]!];
  const bytes = new Uint8Array(outer * count * inner);
  for (let o = 0; o < outer; o++) {
    const from = (o * along + start) * inner;
    bytes.set(bytesOf(t).subarray(from, from + count * inner), o * count * inner);
  }
  return tensorFromBytes(
    t.type,
    t.dims.map((d, i) => (i === axis ? count : d)),
    bytes,
  );
}

/** Elements for all rows of an input. */
function feedOf({ axis, dims, below, type = 'int64', value }: Input, rows: number, seed: number): Tensor {
  if (value !== undefined) return value;
  const full = dims.map((d, i) => (i === axis ? rows : d));
  const floats = numbers(full, 1 + seed / 3);
  if (below === undefined) return floats;
  const integers = Array.from(floats.data, (x) => Math.floor(((x + 2) * below) / 4.01));
  return type === 'bool' ? new Tensor(type, Uint8Array.from(integers), full) : new Tensor(type, integers, full);
}

/** Judged mergeable; and merged, every request's rows have the bits of a run of its own. */
export function merges(graph: Graph, inputs: Inputs, expected: Readonly<Record<string, number>>): void {
  const proof = judge(graph, inputs);
  if (!proof.proven) return assert.unreachable(`${proof.node?.op} '${proof.node?.name}': ${proof.why}`);
  const axes = [...proof.outputs].map(([name, o]) => [name, o === 'shared' ? -1 : o.axis] as const);
  assert.equal(Object.fromEntries(axes), expected);
  const requests = [1, 3, 1, 2];
  const rows = requests.reduce((a, b) => a + b);
  const feeds = Object.entries(inputs).map(([name, input], k): [string, Tensor] => [name, feedOf(input, rows, k)]);
  for (const which of builds) {
    const runner = new GraphRunner(graph, which);
    const merged = runner.run(new Map<string, HostValue>(feeds)).outputs;
    let start = 0;
    for (const count of requests) {
      const own = feeds.map(([name, t]): [string, HostValue] => {
        const { axis } = inputs[name]!;
        return [name, axis === undefined ? t : cut(t, axis, start, count)];
      });
      const alone = runner.run(new Map(own)).outputs;
      for (const [name, o] of proof.outputs) {
        const all = merged.get(name) as Tensor;
        const part = o === 'shared' ? all : cut(all, o.axis, start * o.each, count * o.each);
        assertSameBits(part, alone.get(name)!, `${which} ${name}, rows ${start} to ${start + count}`);
      }
      start += count;
    }
  }
}

/** Judged not mergeable, at a node of this operator, for a reason of these words. */
export function refuses(graph: Graph, inputs: Inputs, op: string | undefined, why: RegExp): void {
  const proof = judge(graph, inputs);
  if (proof.proven) return assert.unreachable(`proven, outputs ${JSON.stringify([...proof.outputs])}`);
  assert.is(proof.node?.op, op, proof.why);
  assert.match(proof.why, why);
}
