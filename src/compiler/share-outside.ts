// How much of a cut request's work does not go step by step: what decides whether cutting it is worth it. A rough count of
// operations, by the shapes of the heavy operators alone.
import type { Node } from '../graph/graph.js';
import type { TensorInfo } from '../operators/operator.js';
import { sizeOf } from '../tensor/shape.js';
import type { Stage } from './cell-stages.js';

/** The share of operations, 0 to 1, that lie in stages which run once a request. */
export function shareOutside(stages: readonly Stage[], known: ReadonlyMap<string, TensorInfo>): number {
  let inside = 0;
  let outside = 0;
  for (const stage of stages) {
    const flops = (stage.graph?.nodes ?? []).reduce((n, node) => n + flopsOf(node, known), 0);
    if (stage.kind === 'steps') inside += 2 * stage.times * stage.rows * stage.directions * stage.width * stage.hidden;
    else if (stage.kind === 'rows') inside += flops;
    else outside += flops;
  }
  return outside === 0 ? 0 : outside / (outside + inside);
}

/** About so many operations; 0 for what is light. */
function flopsOf(node: Node, known: ReadonlyMap<string, TensorInfo>): number {
  const dims = (name: string | undefined) => known.get(name ?? '')?.dims ?? [];
  const out = sizeOf(dims(node.outputs[0]));
  switch (node.op) {
    case 'Conv':
    case 'ConvTranspose':
    case 'ConvInteger':
    case 'QLinearConv': {
      const w = dims(node.inputs[node.op === 'QLinearConv' ? 3 : 1]);
      return 2 * out * sizeOf(w.slice(1));
    }
    case 'MatMul':
    case 'Gemm':
    case 'MatMulInteger':
      return 2 * out * (dims(node.inputs[0]).at(-1) ?? 1);
    case 'Projection':
      return 2 * sizeOf(dims(node.outputs[0])) * (dims(node.inputs[0]).at(-1) ?? 1);
    default:
      return out;
  }
}
