// One time step of recurrent layers. The input's share of every gate, X · Wᵀ, has been computed for all steps at once; a
// step adds the state's share H · Rᵀ and applies the gates, in one pass. How to picture the data:
//
//   unit     (direction, 8 neighbouring hidden units): the same columns of every gate, for all rows of the batch
//   R        packed as B, a matrix H×H for each (direction, gate)
//   H        packed as A, so that what a step writes is what the next one multiplies; two buffers in turn
//   lengths  a row that has ended keeps its state, and its outputs are zero; the reverse direction starts at its end
//
// Rows do not mix, so a row's bits do not depend on the batch.
import { activate } from './activation';
import { expandHalf, wideHalf } from './half';
import { sweepInt8, wideInt8 } from './int8';
import { clamp } from './math';
import { loadLanes, storeLanes } from './simd';
import { sweep, sweepPair, sweepTall, wide1x3, wide1x4 } from './tile';

/** Rows of the batch whose gates are in scratch at a time; a multiple of every panel height. */
const BLOCK: i32 = 60;

/** Bytes from one gate's products to the next one's. */
const GATE: usize = 60 * 32;

/** Bytes of all gates' products; behind them, a panel of weights as floats. */
const GATES: usize = 4 * GATE;

@unmanaged
class Recurrent {
  /** The input's share: [direction, time and row in either order, gate, hidden], strides in floats. */
  g: usize;
  gTime: i32;
  gRow: i32;
  gDirection: i32;
  r: usize;
  hIn: usize;
  hOut: usize;
  /** [directions, 2 · gates · hidden]: the input's biases, then the state's. */
  bias: usize;
  lengths: usize;
  y: usize;
  yTime: i32;
  yRow: i32;
  yDirection: i32;
  /** The last state, written by the last step only. */
  hLast: usize;
  lastRow: i32;
  lastDirection: i32;
  batch: i32;
  hidden: i32;
  time: i32;
  times: i32;
  /** Bit d: direction d runs backwards. */
  reverse: i32;
  /** Code, alpha and beta (as bits) of every activation of direction 0, then of direction 1. */
  activations: usize;
  /** Bound on the inputs of gate activations; 0: none. */
  clip: f32;
  /** Rows of a packed state's panel, 4 or 6, and gates multiplied at a time, 1 or 2. */
  height: i32;
  width: i32;
  /** Weights as int8: their scales, a column of every panel of r; the state (or the reset state) quantized, and its scales. */
  rScales: usize;
  quantized: usize;
  rowScales: usize;
  /** Weights as float16: what makes their bits floats; 0: they are not. */
  factor: f32;
}

/** Activation `i`, an entry of the list. */
// @ts-ignore: decorator
@inline
function applyActivation(p: Recurrent, i: i32, x: v128): v128 {
  const entry = p.activations + <usize>(i * 12);
  return activate(load<i32>(entry), x, v128.load32_splat(entry, 4), v128.load32_splat(entry, 8));
}

// @ts-ignore: decorator
@inline
function clipped(p: Recurrent, x: v128): v128 {
  if (p.clip == 0) return x;
  return clamp(x, f32x4.splat(-p.clip), f32x4.splat(p.clip));
}

/** Steps that row `row` takes; clamped, for they come from a tensor. */
// @ts-ignore: decorator
@inline
function lengthOf(p: Recurrent, row: i32): i32 {
  if (p.lengths == 0) return p.times;
  return max(0, min(p.times, load<i32>(p.lengths + (<usize>row << 2))));
}

/** Whether any of these rows goes on: where all have ended the product is left out, for nobody reads it. */
function anyLive(p: Recurrent, first: i32, rows: i32): bool {
  if (p.lengths == 0) return true;
  for (let row = first; row < first + rows; row++) if (p.time < lengthOf(p, row)) return true;
  return false;
}

/** Rows of the packed panel that `row` is in. */
// @ts-ignore: decorator
@inline
function panelRows(p: Recurrent, row: i32): i32 {
  return min(p.height, p.batch - (row - row % p.height));
}

/** Where element (row, hidden unit j) of a direction is in a packed state. */
// @ts-ignore: decorator
@inline
function packedAt(p: Recurrent, base: usize, direction: i32, row: i32, j: i32): usize {
  const within = row % p.height;
  const panel = direction * p.batch + row - within;
  return base + (<usize>(panel * p.hidden + j * panelRows(p, row) + within) << 2);
}

// @ts-ignore: decorator
@inline
function loadPacked(at: usize, step: usize, n: i32): v128 {
  let v = v128.load32_zero(at);
  if (n > 1) v = v128.load_lane<f32>(at + step, v, 1);
  if (n > 2) v = v128.load_lane<f32>(at + 2 * step, v, 2);
  if (n > 3) v = v128.load_lane<f32>(at + 3 * step, v, 3);
  return v;
}

// @ts-ignore: decorator
@inline
function storePacked(at: usize, step: usize, v: v128, n: i32): void {
  v128.store_lane<f32>(at, v, 0);
  if (n > 1) v128.store_lane<f32>(at + step, v, 1);
  if (n > 2) v128.store_lane<f32>(at + 2 * step, v, 2);
  if (n > 3) v128.store_lane<f32>(at + 3 * step, v, 3);
}

/**
 * `gates` gates of a packed state's rows into scratch, [gate, BLOCK rows, 8]; `first` is the first gate's number of `all`,
 * `floats` memory for a panel of weights.
 */
function multiplyState(
  p: Recurrent,
  state: usize,
  direction: i32,
  panel: i32,
  row: i32,
  rows: i32,
  first: i32,
  gates: i32,
  all: i32,
  scratch: usize,
  floats: usize,
): void {
  const k = p.hidden;
  if (p.rScales != 0) {
    const pairs = (k + 1) >> 1;
    const panels = (k + 7) >> 3;
    const stateRow = direction * p.batch + row;
    const a = p.quantized + ((<usize>stateRow * <usize>pairs) << 2);
    let at = (direction * all + first) * panels + panel;
    if (rows == 1) {
      const b = p.r + ((<usize>at * <usize>pairs) << 4);
      const panelBytes = (<usize>panels * <usize>pairs) << 4;
      const scale = p.rowScales + (<usize>stateRow << 2);
      const column = p.rScales + (<usize>at << 5);
      const apart = <usize>panels << 5;
      wideInt8(gates, a, b, panelBytes, pairs, scale, column, apart, scratch, GATE);
      return;
    }
    for (let gate = 0; gate < gates; gate++) {
      const b = p.r + ((<usize>at * <usize>pairs) << 4);
      sweepInt8(a, b, pairs, p.rowScales + (<usize>stateRow << 2), p.rScales + (<usize>at << 5), scratch, 32, rows);
      scratch += GATE;
      at += panels;
    }
    return;
  }
  const panels = (k + 7) >> 3;
  if (p.factor != 0) {
    const a = state + (<usize>((direction * p.batch + row) * k) << 2);
    const panelBytes = <usize>k << 4;
    const gateBytes = <usize>panels * panelBytes;
    let b = p.r + <usize>(direction * all + first) * gateBytes + <usize>panel * panelBytes;
    if (rows == 1) {
      wideHalf(gates, a, b, gateBytes, scratch, GATE, k, p.factor);
      return;
    }
    for (let gate = 0; gate < gates; gate++) {
      expandHalf(b, floats, k, p.factor);
      if (p.height == 6) sweepTall(a, floats, scratch, 32, k, rows);
      else sweep(a, floats, scratch, 32, k, rows);
      scratch += GATE;
      b += gateBytes;
    }
    return;
  }
  const panelBytes = <usize>k << 5;
  const gateBytes = <usize>panels * panelBytes;
  const a = state + (<usize>((direction * p.batch + row) * k) << 2);
  let b = p.r + <usize>(direction * all + first) * gateBytes + <usize>panel * panelBytes;
  if (rows == 1 && gates == 4) {
    wide1x4(a, b, gateBytes, scratch, GATE, k);
    return;
  }
  if (rows == 1 && gates == 3) {
    wide1x3(a, b, gateBytes, scratch, GATE, k);
    return;
  }
  let gate = 0;
  if (rows == 2 || p.width == 2) {
    for (; gate + 2 <= gates; gate += 2) {
      sweepPair(a, b, gateBytes, scratch, GATE, 32, k, rows, p.height);
      scratch += 2 * GATE;
      b += 2 * gateBytes;
    }
  }
  for (; gate < gates; gate++) {
    if (p.height == 6) sweepTall(a, b, scratch, 32, k, rows);
    else sweep(a, b, scratch, 32, k, rows);
    scratch += GATE;
    b += gateBytes;
  }
}

/** The input of a gate's activation before clipping: state's share, input's share, both biases. */
// @ts-ignore: decorator
@inline
function gateSum(product: usize, g: usize, bias: usize, biasGap: usize, n: i32): v128 {
  let x = f32x4.add(loadLanes(g, n), v128.load(product));
  if (bias != 0) x = f32x4.add(f32x4.add(x, loadLanes(bias, n)), loadLanes(bias + biasGap, n));
  return x;
}

/** Stores a row's new state and its output at this step; `live` says whether the row has not ended. */
// @ts-ignore: decorator
@inline
function emit(p: Recurrent, direction: i32, row: i32, j: i32, n: i32, at: i32, live: bool, h: v128): void {
  storePacked(packedAt(p, p.hOut, direction, row, j), <usize>panelRows(p, row) << 2, h, n);
  if (p.y != 0) {
    const y = p.y + (<usize>(at * p.yTime + row * p.yRow + direction * p.yDirection + j) << 2);
    storeLanes(y, live ? h : f32x4.splat(0), n);
  }
  if (p.hLast != 0) storeLanes(p.hLast + (<usize>(row * p.lastRow + direction * p.lastDirection + j) << 2), h, n);
}

/** The time a row reads and writes at this step: its own end counts for the reverse direction. */
// @ts-ignore: decorator
@inline
function timeOf(p: Recurrent, direction: i32, length: i32): i32 {
  if (p.time >= length || ((p.reverse >> direction) & 1) == 0) return p.time;
  return length - 1 - p.time;
}

@unmanaged
class Lstm extends Recurrent {
  /** The cell state before this step (strides in floats), and [directions, batch, hidden] after it. */
  cIn: usize;
  cInRow: i32;
  cInDirection: i32;
  cOut: usize;
  cLast: usize;
  /** [directions, 3 · hidden]: input, output, forget. */
  peephole: usize;
  inputForget: i32;
}

/** Gates i, o, f, c. Units: directions × panels of 8 hidden units. */
export function lstmStep(params: usize, begin: i32, end: i32, scratch: usize): void {
  const p = changetype<Lstm>(params);
  const hidden = p.hidden;
  const panels = (hidden + 7) >> 3;
  const gate = <usize>hidden << 2;
  const gap = gate * 4;
  for (let u = begin; u < end; u++) {
    const direction = u / panels;
    const panel = u - direction * panels;
    const f = direction * 3;
    for (let first = 0; first < p.batch; first += BLOCK) {
      const rows = min(BLOCK, p.batch - first);
      if (anyLive(p, first, rows)) multiplyState(p, p.hIn, direction, panel, first, rows, 0, 4, 4, scratch, scratch + GATES);
      for (let row = first; row < first + rows; row++) {
        const length = lengthOf(p, row);
        const live = p.time < length;
        const at = timeOf(p, direction, length);
        for (let half = 0; half < 2; half++) {
          const j = (panel << 3) + (half << 2);
          const n = min(4, hidden - j);
          if (n <= 0) break;
          const product = scratch + (<usize>(row - first) << 5) + (<usize>half << 4);
          const g = p.g + (<usize>(at * p.gTime + row * p.gRow + direction * p.gDirection + j) << 2);
          const bias = p.bias == 0 ? 0 : p.bias + (<usize>(direction * 8 * hidden + j) << 2);
          const c = loadLanes(p.cIn + (<usize>(row * p.cInRow + direction * p.cInDirection + j) << 2), n);
          let cNew = c;
          let h: v128;
          if (live) {
            const stride = GATE;
            let i = gateSum(product, g, bias, gap, n);
            let o = gateSum(product + stride, g + gate, bias == 0 ? 0 : bias + gate, gap, n);
            let forget = gateSum(product + 2 * stride, g + 2 * gate, bias == 0 ? 0 : bias + 2 * gate, gap, n);
            let cell = gateSum(product + 3 * stride, g + 3 * gate, bias == 0 ? 0 : bias + 3 * gate, gap, n);
            const hole = p.peephole == 0 ? 0 : p.peephole + (<usize>(direction * 3 * hidden + j) << 2);
            if (hole != 0) {
              i = f32x4.add(i, f32x4.mul(loadLanes(hole, n), c));
              forget = f32x4.add(forget, f32x4.mul(loadLanes(hole + 2 * gate, n), c));
            }
            i = applyActivation(p, f, clipped(p, i));
            if (p.inputForget != 0) forget = f32x4.sub(f32x4.splat(1), i);
            else forget = applyActivation(p, f, clipped(p, forget));
            cell = applyActivation(p, f + 1, clipped(p, cell));
            cNew = f32x4.add(f32x4.mul(forget, c), f32x4.mul(i, cell));
            if (hole != 0) o = f32x4.add(o, f32x4.mul(loadLanes(hole + gate, n), cNew));
            o = applyActivation(p, f, clipped(p, o));
            h = f32x4.mul(o, applyActivation(p, f + 2, cNew));
          } else {
            h = loadPacked(packedAt(p, p.hIn, direction, row, j), <usize>panelRows(p, row) << 2, n);
          }
          storeLanes(p.cOut + (<usize>((direction * p.batch + row) * hidden + j) << 2), cNew, n);
          if (p.cLast != 0) {
            storeLanes(p.cLast + (<usize>(row * p.lastRow + direction * p.lastDirection + j) << 2), cNew, n);
          }
          emit(p, direction, row, j, n, at, live, h);
        }
      }
    }
  }
}

@unmanaged
class Gru extends Recurrent {
  /** Between the two halves of a step: the update gate, and the reset state packed. */
  z: usize;
  resetState: usize;
  /** 0: the reset gate acts after the product, a step is one pass; 1: gates z and r; 2: the rest. */
  phase: i32;
}

/** Gates z, r, h. Units: directions × panels of 8 hidden units. */
export function gruStep(params: usize, begin: i32, end: i32, scratch: usize): void {
  const p = changetype<Gru>(params);
  const hidden = p.hidden;
  const panels = (hidden + 7) >> 3;
  const gate = <usize>hidden << 2;
  const gap = gate * 3;
  const stride = GATE;
  const phase = p.phase;
  for (let u = begin; u < end; u++) {
    const direction = u / panels;
    const panel = u - direction * panels;
    const f = direction * 2;
    for (let first = 0; first < p.batch; first += BLOCK) {
      const rows = min(BLOCK, p.batch - first);
      if (anyLive(p, first, rows)) {
        if (phase == 2) multiplyState(p, p.resetState, direction, panel, first, rows, 2, 1, 3, scratch + 2 * stride, scratch + GATES);
        else multiplyState(p, p.hIn, direction, panel, first, rows, 0, phase == 0 ? 3 : 2, 3, scratch, scratch + GATES);
      }
      for (let row = first; row < first + rows; row++) {
        const length = lengthOf(p, row);
        const live = p.time < length;
        const at = timeOf(p, direction, length);
        const step = <usize>panelRows(p, row) << 2;
        for (let half = 0; half < 2; half++) {
          const j = (panel << 3) + (half << 2);
          const n = min(4, hidden - j);
          if (n <= 0) break;
          const product = scratch + (<usize>(row - first) << 5) + (<usize>half << 4);
          const g = p.g + (<usize>(at * p.gTime + row * p.gRow + direction * p.gDirection + j) << 2);
          const bias = p.bias == 0 ? 0 : p.bias + (<usize>(direction * 6 * hidden + j) << 2);
          const zAt = p.z + (<usize>((direction * p.batch + row) * hidden + j) << 2);
          let h = loadPacked(packedAt(p, p.hIn, direction, row, j), step, n);
          if (live) {
            let z = f32x4.splat(0);
            let r = f32x4.splat(0);
            if (phase != 2) {
              z = applyActivation(p, f, clipped(p, gateSum(product, g, bias, gap, n)));
              r = applyActivation(p, f, clipped(p, gateSum(product + stride, g + gate, bias == 0 ? 0 : bias + gate, gap, n)));
            }
            if (phase == 1) {
              storeLanes(zAt, z, n);
              storePacked(packedAt(p, p.resetState, direction, row, j), step, f32x4.mul(r, h), n);
              continue;
            }
            const wb = bias == 0 ? 0 : bias + 2 * gate;
            let x = loadLanes(g + 2 * gate, n);
            let state = v128.load(product + 2 * stride);
            if (phase == 0) {
              if (bias != 0) {
                x = f32x4.add(x, loadLanes(wb, n));
                state = f32x4.add(state, loadLanes(wb + gap, n));
              }
              x = f32x4.add(x, f32x4.mul(r, state));
            } else {
              z = loadLanes(zAt, n);
              x = gateSum(product + 2 * stride, g + 2 * gate, wb, gap, n);
            }
            const next = applyActivation(p, f + 1, clipped(p, x));
            h = f32x4.add(f32x4.mul(f32x4.sub(f32x4.splat(1), z), next), f32x4.mul(z, h));
          } else if (phase == 1) {
            // Nobody reads the reset state of a row that has ended, but a product must not meet garbage.
            storePacked(packedAt(p, p.resetState, direction, row, j), step, h, n);
            continue;
          }
          emit(p, direction, row, j, n, at, live, h);
        }
      }
    }
  }
}

/** H' = f(X · Wᵀ + H · Rᵀ + biases). Units: directions × panels of 8 hidden units. */
export function rnnStep(params: usize, begin: i32, end: i32, scratch: usize): void {
  const p = changetype<Recurrent>(params);
  const hidden = p.hidden;
  const panels = (hidden + 7) >> 3;
  const gap = <usize>hidden << 2;
  for (let u = begin; u < end; u++) {
    const direction = u / panels;
    const panel = u - direction * panels;
    for (let first = 0; first < p.batch; first += BLOCK) {
      const rows = min(BLOCK, p.batch - first);
      if (anyLive(p, first, rows)) multiplyState(p, p.hIn, direction, panel, first, rows, 0, 1, 1, scratch, scratch + GATES);
      for (let row = first; row < first + rows; row++) {
        const length = lengthOf(p, row);
        const live = p.time < length;
        const at = timeOf(p, direction, length);
        for (let half = 0; half < 2; half++) {
          const j = (panel << 3) + (half << 2);
          const n = min(4, hidden - j);
          if (n <= 0) break;
          let h: v128;
          if (live) {
            const product = scratch + (<usize>(row - first) << 5) + (<usize>half << 4);
            const g = p.g + (<usize>(at * p.gTime + row * p.gRow + direction * p.gDirection + j) << 2);
            const bias = p.bias == 0 ? 0 : p.bias + (<usize>(direction * 2 * hidden + j) << 2);
            h = applyActivation(p, direction, clipped(p, gateSum(product, g, bias, gap, n)));
          } else {
            h = loadPacked(packedAt(p, p.hIn, direction, row, j), <usize>panelRows(p, row) << 2, n);
          }
          emit(p, direction, row, j, n, at, live, h);
        }
      }
    }
  }
}
