// Compares what came with what should have come, the way ONNX's own test runner does: types and shapes equal, every
// element within |got − want| ≤ atol + rtol·|want|, NaN equal to NaN. The answer is in words.
import type { HostValue } from '../operators/operator.js';
import { decode } from '../tensor/convert.js';
import { formatShape } from '../tensor/errors.js';
import { sameShape, stridesOf } from '../tensor/shape.js';
import { bytesOf, Tensor } from '../tensor/tensor.js';
import { typeInfo } from '../tensor/types.js';

export interface Tolerance {
  readonly rtol: number;
  readonly atol: number;
}

/** What is different, or undefined when nothing is. */
export function difference(got: HostValue | undefined, want: HostValue, tolerance: Tolerance): string | undefined {
  if (got === undefined) return 'was not computed';
  if (want === null || got === null)
    return want === got ? undefined : `expected ${describe(want)}, got ${describe(got)}`;
  if (want instanceof Tensor)
    return got instanceof Tensor ? ofTensors(got, want, tolerance) : `expected ${describe(want)}, got ${describe(got)}`;
  if (got instanceof Tensor) return `expected ${describe(want)}, got ${describe(got)}`;
  if (got.length !== want.length) return `expected ${describe(want)}, got ${describe(got)}`;
  for (const [i, w] of want.entries()) {
    const found = difference(got[i], w, tolerance);
    if (found !== undefined) return `element ${i}: ${found}`;
  }
  return undefined;
}

function ofTensors(got: Tensor, want: Tensor, { rtol, atol }: Tolerance): string | undefined {
  if (got.type !== want.type || !sameShape(got.dims, want.dims))
    return `expected ${describe(want)}, got ${describe(got)}`;
  if (want.type === 'string') {
    const wanted = want.data as string[];
    const at = (got.data as string[]).findIndex((s, i) => s !== wanted[i]);
    return at < 0 ? undefined : `at ${place(at, want)}: expected '${wanted[at]}', got '${(got.data as string[])[at]}'`;
  }
  if (typeInfo(want.type).bits < 8 || (typeInfo(want.type).bits === 8 && typeInfo(want.type).kind === 'float')) {
    // Too few bits for a tolerance to mean anything.
    const wanted = bytesOf(want);
    const at = bytesOf(got).findIndex((b, i) => b !== wanted[i]);
    return at < 0 ? undefined : `byte ${at}: expected ${wanted[at]}, got ${bytesOf(got)[at]}`;
  }
  const g = decode(got);
  const w = decode(want);
  let wrong = 0;
  let worst = -1;
  let excess = -1;
  for (let i = 0; i < w.length; i++) {
    const a = g[i]!;
    const b = w[i]!;
    if (a === b || (Number.isNaN(a) && Number.isNaN(b))) continue;
    const off = Math.abs(a - b) - (atol + rtol * Math.abs(b));
    if (off <= 0) continue;
    wrong++;
    // NaN and infinities are worse than any number.
    const weight = Number.isFinite(off) ? off : Number.POSITIVE_INFINITY;
    if (weight > excess) {
      excess = weight;
      worst = i;
    }
  }
  if (worst < 0) return undefined;
  return `${wrong} of ${w.length} elements differ; the worst at ${place(worst, want)}: expected ${w[worst]}, got ${g[worst]}`;
}

/** The index of element `linear`, as `[0, 3, 1]`. */
function place(linear: number, { dims }: Tensor): string {
  return formatShape(stridesOf(dims).map((s, axis) => Math.floor(linear / s) % dims[axis]!));
}

/** `float32 [1, 3]`, `a sequence of 2`, `an empty optional`. */
export function describe(value: HostValue): string {
  if (value === null) return 'an empty optional';
  if (value instanceof Tensor) return `${value.type} ${formatShape(value.dims)}`;
  return `a sequence of ${value.length}`;
}
