// What follows a product, in one pass over a block that has just been computed and is still in cache:
//
//   y[i, j] = activation(scale * x[i, j] + bias[i, j] + residualScale * residual[i, j])
//
// Bias and residual are read with strides of their own: 0 along an axis they are broadcast over, and 0 or 1 along j.
// Which of the two loops below is taken depends on the node alone, never on the block.
import { activateSpan, CLIP, epilogue, NONE, RELU } from './activation';
import { clamp } from './math';
import { loadLanes, storeLanes } from './simd';

/** The first fields of every kernel with an epilogue. */
@unmanaged
export class Epilogue {
  bias: usize;
  /** Strides in floats. */
  biasRow: i32;
  biasColumn: i32;
  residual: usize;
  residualRow: i32;
  residualColumn: i32;
  residualScale: f32;
  scale: f32;
  activation: i32;
  alpha: f32;
  beta: f32;
}

/** True when a product is not yet the result. */
export function hasEpilogue(e: Epilogue): bool {
  return e.bias != 0 || e.residual != 0 || e.activation != 0 || e.scale != 1;
}

/** The address of element (i, j) behind an address with strides; 0 stays 0. */
// @ts-ignore: decorator
@inline
export function at(p: usize, i: i32, row: i32, j: i32, column: i32): usize {
  return p == 0 ? 0 : p + (<usize>(i * row + j * column) << 2);
}

/**
 * Applies `e` to `rows` rows of `columns` floats: from x (rows `ldx` bytes apart, readable to the next multiple of four
 * columns) to y (rows `ldy` bytes apart; may be x). `bias` and `residual` are the addresses of the block's first element.
 */
export function finish(
  e: Epilogue,
  x: usize,
  ldx: usize,
  y: usize,
  ldy: usize,
  rows: i32,
  columns: i32,
  bias: usize,
  residual: usize,
): void {
  if (e.residual == 0 && e.scale == 1 && (e.bias == 0 || e.biasColumn == 0)) {
    finishSimple(e, x, ldx, y, ldy, rows, columns, bias);
    return;
  }
  const kind = e.activation;
  const alpha = f32x4.splat(e.alpha);
  const beta = f32x4.splat(e.beta);
  const scale = f32x4.splat(e.scale);
  const scaled = e.scale != 1;
  const residualScale = f32x4.splat(e.residualScale);
  const residualScaled = e.residualScale != 1;
  const biasRow = <usize>e.biasRow << 2;
  const residualRow = <usize>e.residualRow << 2;
  const biasSpread = e.biasColumn == 0;
  const residualSpread = e.residualColumn == 0;
  for (; rows > 0; --rows) {
    for (let j = 0; j < columns; j += 4) {
      const n = columns - j;
      const o = <usize>j << 2;
      let v = v128.load(x + o);
      if (scaled) v = f32x4.mul(v, scale);
      if (bias != 0) v = f32x4.add(v, biasSpread ? v128.load32_splat(bias) : loadLanes(bias + o, n));
      if (residual != 0) {
        let z = residualSpread ? v128.load32_splat(residual) : loadLanes(residual + o, n);
        if (residualScaled) z = f32x4.mul(z, residualScale);
        v = f32x4.add(v, z);
      }
      storeLanes(y + o, epilogue(kind, v, alpha, beta), n);
    }
    x += ldx;
    y += ldy;
    bias += bias == 0 ? 0 : biasRow;
    residual += residual == 0 ? 0 : residualRow;
  }
}

/** At most a bias that is one number a row, the commonest case: bounds inline, other activations a row at a time. */
function finishSimple(e: Epilogue, x: usize, ldx: usize, y: usize, ldy: usize, rows: i32, columns: i32, bias: usize): void {
  const kind = e.activation;
  const bounds = kind == RELU || kind == CLIP;
  const low = f32x4.splat(kind == RELU ? 0 : kind == CLIP ? e.alpha : -Infinity);
  const high = f32x4.splat(kind == CLIP ? e.beta : Infinity);
  const span = !bounds && kind != NONE;
  const step = <usize>e.biasRow << 2;
  const whole = <usize>(columns & ~3) << 2;
  const rest = columns & 3;
  for (; rows > 0; --rows) {
    const b = bias == 0 ? f32x4.splat(0) : v128.load32_splat(bias);
    let o: usize = 0;
    for (; o != whole; o += 16) v128.store(y + o, clamp(f32x4.add(v128.load(x + o), b), low, high));
    if (rest > 0) storeLanes(y + o, clamp(f32x4.add(v128.load(x + o), b), low, high), rest);
    if (span) activateSpan(kind, y, y, columns, e.alpha, e.beta);
    x += ldx;
    y += ldy;
    bias += bias == 0 ? 0 : step;
  }
}
