// Lowering of broadcasting element-wise functions. How to picture it: axes along which every operand moves alike are
// merged, so that most nodes become rows of one long inner axis; within a row an operand is a vector or one repeated
// element. Semantics of the operators are in arithmetic.ts and logic.ts.
import { type BroadcastOp, broadcastCodes, broadcastTypes } from '../kernels/broadcast.js';
import { unaryBlock } from '../kernels/unary.js';
import { broadcastStrides, sizeOf } from '../tensor/shape.js';
import type { Address, LowerCall } from './operator.js';

/** An operand: where it is, and the shape that broadcasts to the output's. */
export interface Operand {
  readonly at: Address;
  readonly dims: readonly number[];
}

/** Output axes merged as far as all operands allow. */
export interface Rows {
  /** Elements of a row. */
  readonly inner: number;
  /** By operand: whether it moves within a row. */
  readonly vector: readonly boolean[];
  /** The axes over the rows. */
  readonly dims: readonly number[];
  /** By operand: strides of those axes, in elements. */
  readonly strides: readonly (readonly number[])[];
}

/** Merges the axes of `dims`, to which each of `shapes` broadcasts. */
export function rowsOf(dims: readonly number[], shapes: readonly (readonly number[])[]): Rows {
  const strides = shapes.map((s) => broadcastStrides(s, dims));
  const outDims: number[] = [];
  const out: number[][] = shapes.map(() => []);
  for (let axis = 0; axis < dims.length; axis++) {
    const d = dims[axis]!;
    if (d === 1) continue;
    const last = outDims.length - 1;
    if (last >= 0 && strides.every((s, k) => out[k]![last] === s[axis]! * d)) {
      outDims[last]! *= d;
      for (const [k, s] of strides.entries()) out[k]![last] = s[axis]!;
    } else {
      outDims.push(d);
      for (const [k, s] of strides.entries()) out[k]!.push(s[axis]!);
    }
  }
  const inner = outDims.pop() ?? 1;
  const vector = out.map((s) => (s.pop() ?? 0) !== 0);
  return { inner, vector, dims: outDims, strides: out };
}

/** The kernel's types for operands that are only moved, by size. */
function typeCode(type: string, moved: boolean): number | undefined {
  if (Object.hasOwn(broadcastTypes, type)) return broadcastTypes[type as keyof typeof broadcastTypes];
  if (!moved) return undefined;
  const bySize: Record<string, number> = { uint8: 3, int8: 3, uint32: 1, uint64: 2, float64: 2 };
  return bySize[type];
}

/** How a fused activation is given to the kernel. */
export interface Epilogue {
  readonly code: number;
  readonly alpha: number;
  readonly beta: number;
}

/**
 * Appends y = op(a, b), or c ? a : b for `where`, on operands of `type` that broadcast to `dims`, into output 0.
 * Gives false when the kernel does not take the type.
 */
export function lowerBroadcast<A>(
  call: LowerCall<A>,
  op: BroadcastOp,
  type: string,
  dims: readonly number[],
  operands: readonly Operand[],
  epilogue: Epilogue = { code: 0, alpha: 0, beta: 0 },
): boolean {
  const code = typeCode(type, op === 'where');
  if (code === undefined) return false;
  const size = sizeOf(dims);
  const [a, b, c] = operands;
  const {
    inner,
    vector,
    dims: outer,
    strides,
  } = rowsOf(
    dims,
    operands.map((o) => o.dims),
  );
  call.threadScratch(32);
  call.step(
    'broadcast',
    {
      a: a!.at,
      b: b!.at,
      c: c === undefined ? 0 : c.at,
      y: call.out(0),
      op: broadcastCodes[op],
      type: code,
      size,
      inner,
      vectorA: vector[0] ? 1 : 0,
      vectorB: vector[1] ? 1 : 0,
      vectorC: vector[2] ? 1 : 0,
      rank: outer.length,
      dims: outer,
      stridesA: strides[0]!,
      stridesB: strides[1]!,
      stridesC: strides[2] ?? outer.map(() => 0),
      activation: epilogue.code,
      alpha: epilogue.alpha,
      beta: epilogue.beta,
    },
    { units: Math.ceil(size / unaryBlock), grain: 4, flops: size },
  );
  return true;
}
