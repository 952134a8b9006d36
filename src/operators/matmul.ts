// MatMul, with NumPy's rules: matrices in the last two dimensions, the others broadcast; a vector on the left is a row,
// on the right a column, and its dimension vanishes from the result. `skep:MatMul` adds a bias [N], a residual of the
// result's shape and an activation.
import { decode, decodeBig } from '../tensor/convert.js';
import { formatShape } from '../tensor/errors.js';
import { broadcastShapes, broadcastStrides, forEachOffset, sameShape, sizeOf } from '../tensor/shape.js';
import { activationOf, applyEpilogue, type BoundActivation, type Epilogue, epilogueAttributes } from './epilogue.js';
import { type Call, type InferCall, type LowerCall, type Operator, operator, type ReferenceCall } from './operator.js';
import { lowerProduct, multiplyInto } from './product.js';
import { fromBigInts, fromNumbers, isInteger } from './reference.js';

/** The matrices of a product. */
export interface MatMulShape {
  readonly m: number;
  readonly n: number;
  readonly k: number;
  /** Broadcast leading dimensions, and each operand's own. */
  readonly batch: readonly number[];
  readonly aBatch: readonly number[];
  readonly bBatch: readonly number[];
  readonly dims: readonly number[];
}

function shapeOf(call: InferCall<unknown>): MatMulShape {
  const a = call.input(0);
  const b = call.input(1);
  if (a.type !== b.type) throw call.error(`A and B must be of one type, got ${a.type} and ${b.type}`);
  return matMulShape(call, a.dims, b.dims);
}

/** The product of tensors of these shapes. */
export function matMulShape(call: Call<unknown>, a: readonly number[], b: readonly number[]): MatMulShape {
  const bad = (why: string) => call.error(`${why}: A ${formatShape(a)}, B ${formatShape(b)}`);
  if (a.length === 0 || b.length === 0) throw bad('scalars have no matrix product');
  const aDims = a.length === 1 ? [1, ...a] : a;
  const bDims = b.length === 1 ? [...b, 1] : b;
  const [m, k] = aDims.slice(-2) as [number, number];
  const [bk, n] = bDims.slice(-2) as [number, number];
  if (k !== bk) throw bad('inner dimensions differ');
  const aBatch = aDims.slice(0, -2);
  const bBatch = bDims.slice(0, -2);
  const batch = broadcastShapes(aBatch, bBatch);
  if (batch === undefined) throw bad('leading dimensions do not broadcast');
  const dims = [...batch, ...(a.length === 1 ? [] : [m]), ...(b.length === 1 ? [] : [n])];
  return { m, n, k, batch, aBatch, bBatch, dims };
}

/** Which matrix of each operand every product takes. */
export function matrixIndices({ batch, aBatch, bBatch }: MatMulShape): { a: number[]; b: number[] } {
  const a: number[] = [];
  const b: number[] = [];
  forEachOffset(batch, [broadcastStrides(aBatch, batch), broadcastStrides(bBatch, batch)], ([i, j]) => {
    a.push(i!);
    b.push(j!);
  });
  return { a, b };
}

function referenceNumbers(call: ReferenceCall<unknown>, s: MatMulShape): Float64Array {
  const { m, n, k } = s;
  const a = decode(call.tensor(0));
  const b = decode(call.tensor(1));
  const y = new Float64Array(sizeOf(s.dims));
  const at = matrixIndices(s);
  at.a.forEach((ai, i) => {
    const left = { data: a, offset: ai * m * k, row: k, column: 1 };
    const right = { data: b, offset: at.b[i]! * k * n, row: n, column: 1 };
    multiplyInto(y, i * m * n, left, right, m, n, k);
  });
  return y;
}

function referenceBigInts(call: ReferenceCall<unknown>, s: MatMulShape): bigint[] {
  const { m, n, k } = s;
  const a = decodeBig(call.tensor(0));
  const b = decodeBig(call.tensor(1));
  const y = new Array<bigint>(sizeOf(s.dims)).fill(0n);
  const at = matrixIndices(s);
  at.a.forEach((ai, batch) => {
    for (let i = 0; i < m; i++)
      for (let j = 0; j < n; j++) {
        let sum = 0n;
        for (let l = 0; l < k; l++) sum += a[(ai * m + i) * k + l]! * b[(at.b[batch]! * k + l) * n + j]!;
        y[(batch * m + i) * n + j] = sum;
      }
  });
  return y;
}

function lowerMatMul(call: LowerCall<unknown>, epilogue: Epilogue): boolean {
  const s = shapeOf(call);
  if (call.input(0).type !== 'float32') return false;
  const { m, n, k } = s;
  const aCount = sizeOf(s.aBatch);
  const bCount = sizeOf(s.bBatch);
  const b = { input: 1, matrices: bCount, stride: k * n, row: n, column: 1 };
  const c = call.out(0);
  if (bCount === 1) {
    // One B for all: the matrices of A are one tall matrix.
    const a = { input: 0, matrices: 1, stride: aCount * m * k, row: k, column: 1 };
    lowerProduct(call, { a, b, c, m: aCount * m, n, k, epilogue });
  } else {
    const at = matrixIndices(s);
    const a = { input: 0, matrices: aCount, stride: m * k, row: k, column: 1 };
    lowerProduct(call, { a, b, c, m, n, k, batches: at.a.length, aIndex: at.a, bIndex: at.b, epilogue });
  }
  return true;
}

const matMul = operator({
  name: 'MatMul',
  since: [1, 9, 13],
  inputs: [2, 2],
  attributes: {},
  infer: (call) => [{ type: call.input(0).type, dims: shapeOf(call).dims }],
  reference(call) {
    const s = shapeOf(call);
    const { type } = call.tensor(0);
    if (isInteger(type)) return [fromBigInts(type, s.dims, referenceBigInts(call, s))];
    return [fromNumbers(type, s.dims, referenceNumbers(call, s))];
  },
  lower: (call) => lowerMatMul(call, {}),
});

function checkFused(call: InferCall<unknown>): MatMulShape {
  const s = shapeOf(call);
  const bias = call.optional(2);
  const z = call.optional(3);
  if (bias !== undefined && !sameShape(bias.dims, [s.n]))
    throw call.error(`expected bias of shape [${s.n}], got ${formatShape(bias.dims)}`);
  if (z !== undefined && !sameShape(z.dims, s.dims))
    throw call.error(`expected Z of shape ${formatShape(s.dims)}, got ${formatShape(z.dims)}`);
  return s;
}

/** A, B, bias [N]?, Z? (of the result's shape): activation(A · B + bias + Z). */
const fusedMatMul = operator({
  name: 'MatMul',
  domain: 'skep',
  since: [1],
  inputs: [2, 4],
  attributes: epilogueAttributes,
  infer: (call) => [{ type: call.input(0).type, dims: checkFused(call).dims }],
  reference(call) {
    const s = checkFused(call);
    const bias = call.has(2) ? decode(call.tensor(2)) : undefined;
    const z = call.has(3) ? decode(call.tensor(3)) : undefined;
    const y = applyEpilogue(referenceNumbers(call, s), bias, (i) => i % s.n, z, activationOf(call));
    return [fromNumbers(call.tensor(0).type, s.dims, y)];
  },
  lower(call) {
    const { n } = checkFused(call);
    const activation: BoundActivation = activationOf(call);
    return lowerMatMul(call, {
      activation,
      ...(call.has(2) && { bias: { at: call.in(2), row: 0, column: 1 } }),
      ...(call.has(3) && { residual: { at: call.in(3), row: n, column: 1 } }),
    });
  },
});

export const matMulOperators: readonly Operator[] = [matMul, fusedMatMul];
