// DFT and STFT. The references are the sums of the definition, O(n²). The kernels' form is a matrix product: the transform is
// a constant matrix (with the window multiplied in), and the frames of an STFT are rows that overlap in the signal.
import { packColumnPanels, packedSizeB } from '../kernels/gemm.js';
import { decode } from '../tensor/convert.js';
import { formatShape } from '../tensor/errors.js';
import { sizeOf } from '../tensor/shape.js';
import { int } from './attributes.js';
import { byteStrides, copyView } from './copy.js';
import { type Address, type InferCall, type LowerCall, type Operator, operator } from './operator.js';
import { axisOf, outputOf } from './pick.js';
import { lowerPacked, packRows } from './product.js';
import { fromNumbers } from './reference.js';
import { scalarOf } from './signal.js';

/** Bins k of the transform of n complex samples (interleaved). */
function dft(x: Float64Array, n: number, bins: number, inverse: boolean): Float64Array {
  const y = new Float64Array(2 * bins);
  const sign = inverse ? 1 : -1;
  // Angles repeat every n steps: a table keeps them exact for large products.
  const cos = Float64Array.from({ length: n }, (_, i) => Math.cos((2 * Math.PI * i) / n));
  const sin = Float64Array.from({ length: n }, (_, i) => Math.sin((2 * Math.PI * i) / n));
  for (let k = 0; k < bins; k++) {
    let [re, im] = [0, 0];
    for (let i = 0; i < n; i++) {
      const a = (i * k) % n;
      const [c, s] = [cos[a]!, sign * sin[a]!];
      re += x[2 * i]! * c - x[2 * i + 1]! * s;
      im += x[2 * i]! * s + x[2 * i + 1]! * c;
    }
    y[2 * k] = inverse ? re / n : re;
    y[2 * k + 1] = inverse ? im / n : im;
  }
  return y;
}

/** Most elements of a transform's matrix; longer transforms take the reference. */
const matrixLimit = 1 << 22;

/** A transform as a matrix: `rows` samples of `parts` numbers to `bins` of `outParts`. */
interface FourierShape {
  readonly rows: number;
  readonly parts: number;
  readonly bins: number;
  readonly outParts: number;
  readonly length: number;
  readonly inverse: boolean;
  /** The samples are half a spectrum, the bins are real. */
  readonly real: boolean;
}

/** The matrix of a transform, its rows scaled by a window, packed for the product once a model. */
function fourierMatrix(call: LowerCall<unknown>, f: FourierShape, window?: ArrayLike<number>): Address {
  const { rows, parts, bins, outParts, length, inverse, real } = f;
  const [k, n] = [rows * parts, bins * outParts];
  const size = packedSizeB(k, n);
  return call.constant(`fourier ${JSON.stringify(f)}`, size * 4, (bytes) => {
    const data = new Float64Array(k * n);
    const sign = inverse ? 1 : -1;
    for (let i = 0; i < rows; i++) {
      // Of half a spectrum, every bin but the first and the middle one stands for its conjugate too.
      const twice = real && i > 0 && 2 * i < length ? 2 : 1;
      const scale = ((inverse ? 1 / length : 1) * twice * (window === undefined ? 1 : window[i]!)) as number;
      for (let b = 0; b < bins; b++) {
        const angle = (2 * Math.PI * ((i * b) % length)) / length;
        const [c, s] = [scale * Math.cos(angle), scale * sign * Math.sin(angle)];
        for (let p = 0; p < parts; p++)
          for (let q = 0; q < outParts; q++)
            data[(i * parts + p) * n + b * outParts + q] = p === q ? c : p === 0 ? s : -s;
      }
    }
    const into = new Float32Array(bytes.buffer, bytes.byteOffset, size);
    packColumnPanels(into, 0, { data, offset: 0, row: n, column: 1 }, k, n);
  });
}

/** Copies [a, b, c, d] to [a, c, b, d]. */
function swapInner(
  call: LowerCall<unknown>,
  from: Address,
  to: Address,
  [a, b, c, d]: readonly [number, number, number, number],
): void {
  const [sa, sb, sc, sd] = byteStrides([a, b, c, d], 4) as [number, number, number, number];
  const dims = [a, c, b, d];
  copyView(call, from, to, { dims, inStrides: [sa, sc, sb, sd], outStrides: byteStrides(dims, 4) }, 4);
}

interface DftAttributes {
  readonly axis: number;
  readonly inverse: number;
  readonly onesided: number;
}

function dftShape(call: InferCall<DftAttributes>) {
  const { type, dims } = call.input(0);
  const parts = dims.at(-1);
  if (dims.length < 2 || (parts !== 1 && parts !== 2))
    throw call.error(`expected [..., 1] (real) or [..., 2] (complex), got ${formatShape(dims)}`);
  // Version 17 has the axis as an attribute (default 1), 20 as an input (default −2).
  const given = call.opset < 20 ? call.attributes.axis : call.has(2) ? scalarOf(call, 2) : -2;
  const axis = axisOf(call, given, dims.length);
  if (axis === dims.length - 1) throw call.error('the axis of real and imaginary parts cannot be transformed');
  const inverse = call.attributes.inverse !== 0;
  const onesided = call.attributes.onesided !== 0;
  const samples = dims[axis]!;
  const length = call.has(1) ? scalarOf(call, 1) : inverse && onesided ? 2 * (samples - 1) : samples;
  if (!(length >= 1)) throw call.error(`dft_length must be positive, got ${length}`);
  if (onesided && inverse && parts !== 2) throw call.error('a one-sided inverse needs complex input');
  if (onesided && !inverse && parts !== 1) throw call.error('a one-sided transform needs real input');
  // One-sided inverse: half a spectrum in, real samples out.
  const real = onesided && inverse;
  const bins = onesided && !inverse ? Math.floor(length / 2) + 1 : length;
  const out = dims.with(axis, bins).with(-1, real ? 1 : 2);
  return { type, dims, out, axis, inverse, length, bins, parts, real, samples };
}

const DFT = operator({
  name: 'DFT',
  since: [17, 20],
  inputs: [1, 3],
  attributes: { axis: int(1), inverse: int(0), onesided: int(0) },
  infer(call) {
    const { type, out } = dftShape(call);
    return [outputOf(call, type, out)];
  },
  reference(call) {
    const { type, dims, out, axis, inverse, length, bins, parts, real, samples } = dftShape(call);
    outputOf(call, type, out);
    const x = decode(call.tensor(0));
    const y = new Float64Array(sizeOf(out));
    const inner = sizeOf(dims.slice(axis + 1, -1));
    const outer = sizeOf(dims.slice(0, axis));
    const outParts = real ? 1 : 2;
    for (let o = 0; o < outer; o++)
      for (let k = 0; k < inner; k++) {
        const line = new Float64Array(2 * length);
        for (let i = 0; i < Math.min(samples, length); i++)
          for (let p = 0; p < parts; p++) line[2 * i + p] = x[((o * samples + i) * inner + k) * parts + p]!;
        // The missing half of a real signal's spectrum is the mirrored conjugate.
        if (real)
          for (let i = Math.floor(length / 2) + 1; i < length; i++) {
            line[2 * i] = line[2 * (length - i)]!;
            line[2 * i + 1] = -line[2 * (length - i) + 1]!;
          }
        const spectrum = dft(line, length, bins, inverse);
        for (let i = 0; i < bins; i++)
          for (let p = 0; p < outParts; p++) y[((o * bins + i) * inner + k) * outParts + p] = spectrum[2 * i + p]!;
      }
    return [fromNumbers(type, out, y)];
  },
  lower(call) {
    const { type, dims, out, axis, inverse, length, bins, parts, real, samples } = dftShape(call);
    const rows = Math.min(samples, length);
    const [outParts, taken] = [real ? 1 : 2, real ? Math.min(rows, Math.floor(length / 2) + 1) : rows];
    const [k, n] = [taken * parts, bins * outParts];
    if (type !== 'float32' || k * n > matrixLimit || k === 0) return false;
    if (sizeOf(out) === 0) return true;
    const matrix = fourierMatrix(call, { rows: taken, parts, bins, outParts, length, inverse, real });
    const inner = sizeOf(dims.slice(axis + 1, -1));
    const outer = sizeOf(dims.slice(0, axis));
    // Lines must be contiguous to be rows of a matrix: other axes are copied behind the transformed one, and back.
    let lines = call.in(0);
    if (inner > 1) {
      lines = call.scratch(sizeOf(dims) * 4);
      swapInner(call, call.in(0), lines, [outer, samples, inner, parts]);
    }
    const m = outer * inner;
    const product = inner > 1 ? call.scratch(sizeOf(out) * 4) : call.out(0);
    const stack = { matrices: 1, stride: m * samples * parts, row: samples * parts, column: 1 };
    lowerPacked(call, { a: packRows(call, lines, stack, m, k), b: matrix, c: product, m, n, k, epilogue: {} });
    if (inner > 1) swapInner(call, product, call.out(0), [outer, inner, bins, outParts]);
    return true;
  },
});

function stftShape(call: InferCall<{ readonly onesided: number }>) {
  const { type, dims } = call.input(0);
  const parts = dims.length === 3 ? dims[2]! : 1;
  if ((dims.length !== 2 && dims.length !== 3) || (parts !== 1 && parts !== 2))
    throw call.error(`expected a signal [batch, length, 1 or 2], got ${formatShape(dims)}`);
  const step = scalarOf(call, 1);
  const length = call.has(3) ? scalarOf(call, 3) : call.has(2) ? sizeOf(call.input(2).dims) : undefined;
  if (length === undefined) throw call.error('window or frame_length must be given');
  if (!(step >= 1) || !(length >= 1))
    throw call.error(`frame_step ${step} and frame_length ${length} must be positive`);
  if (call.has(2) && sizeOf(call.input(2).dims) !== length)
    throw call.error(`window of ${sizeOf(call.input(2).dims)} samples does not fit frames of ${length}`);
  const onesided = call.attributes.onesided !== 0;
  if (onesided && parts === 2) throw call.error('a one-sided transform needs a real signal');
  const [batch, samples] = dims as [number, number];
  const frames = Math.max(0, 1 + Math.floor((samples - length) / step));
  const bins = onesided ? Math.floor(length / 2) + 1 : length;
  return { type, out: [batch, frames, bins, 2], batch, samples, parts, step, length, frames, bins };
}

const STFT = operator({
  name: 'STFT',
  since: [17],
  inputs: [2, 4],
  attributes: { onesided: int(1) },
  infer(call) {
    const { type, out } = stftShape(call);
    return [outputOf(call, type, out)];
  },
  reference(call) {
    const { type, out, batch, samples, parts, step, length, frames, bins } = stftShape(call);
    outputOf(call, type, out);
    const x = decode(call.tensor(0));
    const window = call.has(2) ? decode(call.tensor(2)) : new Float64Array(length).fill(1);
    const y = new Float64Array(sizeOf(out));
    for (let b = 0; b < batch; b++)
      for (let f = 0; f < frames; f++) {
        const frame = new Float64Array(2 * length);
        for (let i = 0; i < length; i++)
          for (let p = 0; p < parts; p++) frame[2 * i + p] = window[i]! * x[(b * samples + f * step + i) * parts + p]!;
        y.set(dft(frame, length, bins, false), (b * frames + f) * bins * 2);
      }
    return [fromNumbers(type, out, y)];
  },
  lower(call) {
    const { type, out, batch, samples, parts, step, length, frames, bins } = stftShape(call);
    const [k, n] = [length * parts, bins * 2];
    const window = call.optional(2);
    if (type !== 'float32' || k * n > matrixLimit || (window !== undefined && window.value === undefined)) return false;
    if (sizeOf(out) === 0) return true;
    const shape = { rows: length, parts, bins, outParts: 2, length, inverse: false, real: false };
    const matrix = fourierMatrix(call, shape, window?.value && decode(window.value));
    const batches = Array.from({ length: batch }, (_, i) => i);
    // Frames are rows that overlap in the signal.
    const stack = { matrices: batch, stride: samples * parts, row: step * parts, column: 1 };
    const a = packRows(call, call.in(0), stack, frames, k);
    const bIndex = batches.map(() => 0);
    lowerPacked(call, {
      a,
      b: matrix,
      c: call.out(0),
      m: frames,
      n,
      k,
      batches: batch,
      aIndex: batches,
      bIndex,
      epilogue: {},
    });
    return true;
  },
});

export const fouriers: readonly Operator[] = [DFT, STFT];
