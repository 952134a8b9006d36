// What tests ask of a network's graph: how many parameters and multiply-adds it has, and rows of its inputs.
import type { Graph, Node } from '../../src/graph/graph.js';
import { evaluate, infer } from '../../src/operators/evaluate.js';
import type { TensorInfo } from '../../src/operators/operator.js';
import { sizeOf } from '../../src/tensor/shape.js';
import type { Tensor } from '../../src/tensor/tensor.js';
import { sliceOf } from '../operators/invariance.js';

/** Numbers that training finds: weights, without the statistics of batch normalization, as frameworks count them. */
export function parametersOf(graph: Graph): number {
  const statistics = new Set(
    graph.nodes.filter((n) => n.op === 'BatchNormalization').flatMap((n) => n.inputs.slice(3)),
  );
  let count = 0;
  for (const [name, t] of graph.initializers)
    if (t.type === 'float32' && t.dims.length > 0 && !statistics.has(name)) count += t.size;
  return count;
}

/** Multiply-adds of convolutions, products and recurrences, by the operators' shape rules, for inputs like these. */
export function multiplyAddsOf(graph: Graph, feeds: ReadonlyMap<string, Tensor>): number {
  const known = new Map<string, TensorInfo>();
  for (const [name, value] of graph.initializers) known.set(name, { type: value.type, dims: value.dims, value });
  for (const [name, { type, dims }] of feeds) known.set(name, { type, dims });
  let count = 0;
  for (const node of graph.nodes) {
    const inputs = node.inputs.map((n) => (n === '' ? undefined : known.get(n)));
    const dims = inputs.map((t) => t?.dims ?? []);
    for (const [i, found] of outputsOf(node, inputs).entries()) if (node.outputs[i]) known.set(node.outputs[i], found);
    count += multiplyAdds(node.op, dims, known.get(node.outputs.find((o) => o !== '')!)!.dims);
  }
  return count;
}

function outputsOf(node: Node, inputs: readonly (TensorInfo | undefined)[]): readonly TensorInfo[] {
  if (node.op === 'Shape') {
    const { dims } = inputs[0]!;
    return evaluate(
      { ...node, op: 'Constant', inputs: [], attributes: { value_ints: { kind: 'ints', value: dims } } },
      [],
      never,
    ).map(asInfo);
  }
  const small = (t: TensorInfo | undefined) => t === undefined || (t.value !== undefined && t.value.size <= 4096);
  if (inputs.every(small))
    return evaluate(
      node,
      inputs.map((t) => t?.value),
      never,
    ).map(asInfo);
  return (infer(node, inputs) as readonly TensorInfo[]).map((t) => t);
}

function asInfo(value: unknown): TensorInfo {
  const t = value as Tensor;
  return { type: t.type, dims: t.dims, value: t };
}

function never(): never {
  throw new Error('no subgraphs here');
}

function multiplyAdds(op: string, [a, b, c]: (readonly number[])[], out: readonly number[]): number {
  if (op === 'Conv') return sizeOf(out) * sizeOf(b!.slice(1));
  if (op === 'MatMul') return sizeOf(out) * a!.at(-1)!;
  if (op === 'LSTM') return a![0]! * a![1]! * (sizeOf(b!) + sizeOf(c!));
  return 0;
}

/** Rows [from, from + count) of every input with a batch axis. */
export function rowsOf(
  graph: Graph,
  feeds: ReadonlyMap<string, Tensor>,
  from: number,
  count: number,
): Map<string, Tensor> {
  return new Map(
    graph.inputs.map(({ name, type }) => {
      const axis = type?.kind === 'tensor' ? (type.dims?.indexOf('batch') ?? -1) : -1;
      const t = feeds.get(name)!;
      return [name, axis < 0 ? t : sliceOf(t, axis, from, count)];
    }),
  );
}
