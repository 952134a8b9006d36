// Gemm: Y = alpha · A' · B' + beta · C, where A' and B' may be transposed and C broadcasts to Y (one way). Before version
// 7, C broadcasts by its attribute `broadcast`, with the same result. `skep:Gemm` adds a residual and an activation.
import { decode } from '../tensor/convert.js';
import { formatShape } from '../tensor/errors.js';
import { broadcastShapes, broadcastStrides, sameShape } from '../tensor/shape.js';
import { float, int } from './attributes.js';
import { activationOf, type BoundActivation, type Epilogue, epilogueAttributes, type Term } from './epilogue.js';
import {
  type Address,
  type InferCall,
  type LowerCall,
  type Operator,
  operator,
  type ReferenceCall,
} from './operator.js';
import { lowerProduct, multiplyInto } from './product.js';
import { fromNumbers } from './reference.js';

const attributes = { alpha: float(1), beta: float(1), transA: int(0), transB: int(0) };

interface GemmAttributes {
  readonly alpha: number;
  readonly beta: number;
  readonly transA: number;
  readonly transB: number;
}

function shapeOf(call: InferCall<GemmAttributes>): { m: number; n: number; k: number } {
  const a = call.input(0);
  const b = call.input(1);
  const { transA, transB } = call.attributes;
  if (a.dims.length !== 2 || b.dims.length !== 2)
    throw call.error(`A and B must be matrices, got ${formatShape(a.dims)} and ${formatShape(b.dims)}`);
  if (a.type !== b.type) throw call.error(`A and B must be of one type, got ${a.type} and ${b.type}`);
  const [m, k] = (transA ? [a.dims[1], a.dims[0]] : a.dims) as [number, number];
  const [bk, n] = (transB ? [b.dims[1], b.dims[0]] : b.dims) as [number, number];
  if (k !== bk)
    throw call.error(
      `inner dimensions differ: A ${formatShape(a.dims)}${transA ? ' transposed' : ''}, B ${formatShape(b.dims)}${transB ? ' transposed' : ''}`,
    );
  const c = call.optional(2);
  if (c !== undefined) {
    const dims = broadcastShapes(c.dims, [m, n]);
    if (dims === undefined || !sameShape(dims, [m, n]))
      throw call.error(`C ${formatShape(c.dims)} does not broadcast to ${formatShape([m, n])}`);
  }
  const z = call.optional(3);
  if (z !== undefined && !sameShape(z.dims, [m, n]))
    throw call.error(`expected Z of shape ${formatShape([m, n])}, got ${formatShape(z.dims)}`);
  return { m, n, k };
}

function reference(call: ReferenceCall<GemmAttributes>, activation?: BoundActivation) {
  const { m, n, k } = shapeOf(call);
  const { alpha, beta, transA, transB } = call.attributes;
  const a = { data: decode(call.tensor(0)), offset: 0, row: transA ? 1 : k, column: transA ? m : 1 };
  const b = { data: decode(call.tensor(1)), offset: 0, row: transB ? 1 : n, column: transB ? k : 1 };
  const y = new Float64Array(m * n);
  multiplyInto(y, 0, a, b, m, n, k);
  const c = call.has(2) ? decode(call.tensor(2)) : undefined;
  const [cRow, cColumn] =
    c === undefined ? [0, 0] : (broadcastStrides(call.tensor(2).dims, [m, n]) as [number, number]);
  const z = call.has(3) ? decode(call.tensor(3)) : undefined;
  for (let i = 0, o = 0; i < m; i++)
    for (let j = 0; j < n; j++, o++) {
      let x = alpha * y[o]!;
      if (c !== undefined) x += beta * c[i * cRow + j * cColumn]!;
      if (z !== undefined) x += z[o]!;
      y[o] = activation === undefined ? x : activation.activation.apply(x, activation.alpha, activation.beta);
    }
  return [fromNumbers(call.tensor(0).type, [m, n], y)];
}

/** C where it lies, scaled by beta once a model when it is constant; undefined when beta still has to be applied. */
function scaledC(call: LowerCall<GemmAttributes>): Address | undefined {
  const { beta } = call.attributes;
  if (beta === 1) return call.in(2);
  const { value } = call.input(2);
  if (value === undefined) return undefined;
  const c = decode(value);
  return call.constant(`C times ${beta}`, c.length * 4, (bytes) => {
    const into = new Float32Array(bytes.buffer, bytes.byteOffset, c.length);
    for (let i = 0; i < c.length; i++) into[i] = Math.fround(beta) * c[i]!;
  });
}

function lower(call: LowerCall<GemmAttributes>, activation?: BoundActivation): boolean {
  const { m, n, k } = shapeOf(call);
  if (call.input(0).type !== 'float32') return false;
  const { alpha, beta, transA, transB } = call.attributes;
  let epilogue: Epilogue = { scale: alpha, ...(activation && { activation }) };
  if (call.has(3)) epilogue = { ...epilogue, residual: { at: call.in(3), row: n, column: 1 } };
  if (call.has(2) && beta !== 0) {
    const at = scaledC(call);
    const [row, column] = broadcastStrides(call.input(2).dims, [m, n]) as [number, number];
    const term = (where: Address): Term => ({ at: where, row, column: column as 0 | 1 });
    if (at !== undefined) epilogue = { ...epilogue, bias: term(at) };
    else if (!call.has(3)) epilogue = { ...epilogue, residual: term(call.in(2)), residualScale: beta };
    else return false;
  }
  lowerProduct(call, {
    a: { input: 0, matrices: 1, stride: m * k, row: transA ? 1 : k, column: transA ? m : 1 },
    b: { input: 1, matrices: 1, stride: k * n, row: transB ? 1 : n, column: transB ? k : 1 },
    c: call.out(0),
    m,
    n,
    k,
    epilogue,
  });
  return true;
}

function infer(call: InferCall<GemmAttributes>) {
  const { m, n } = shapeOf(call);
  return [{ type: call.input(0).type, dims: [m, n] }];
}

const gemm = operator({
  name: 'Gemm',
  since: [1, 6, 7, 9, 11, 13],
  inputs: [2, 3],
  attributes,
  infer,
  reference: (call) => reference(call),
  lower: (call) => lower(call),
});

/** A, B, C?, Z? (of the result's shape): activation(alpha · A' · B' + beta · C + Z). */
const fusedGemm = operator({
  name: 'Gemm',
  domain: 'skep',
  since: [1],
  inputs: [2, 4],
  attributes: { ...attributes, ...epilogueAttributes },
  infer,
  reference: (call) => reference(call, activationOf(call)),
  lower: (call) => lower(call, activationOf(call)),
});

export const gemmOperators: readonly Operator[] = [gemm, fusedGemm];
