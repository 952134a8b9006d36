// Signal processing: window functions, DFT, STFT, MelWeightMatrix. The transforms here are sums written out, O(n²): the
// definition itself. Frames are cut and windowed before they are transformed.
import { decode, encode } from '../tensor/convert.js';
import { formatShape } from '../tensor/errors.js';
import { sizeOf } from '../tensor/shape.js';
import { Tensor } from '../tensor/tensor.js';
import { int } from './attributes.js';
import { typeAttribute } from './generators.js';
import { type InferCall, type Operator, operator } from './operator.js';
import { axisOf, outputOf } from './pick.js';
import { fromNumbers } from './reference.js';

/** One number an input holds. */
function scalarOf(call: InferCall<unknown>, i: number): number {
  const t = call.value(i);
  if (t.size !== 1) throw call.error(`input ${i} must be a scalar, got shape ${formatShape(t.dims)}`);
  return decode(t)[0]!;
}

/** A window that is a sum of cosines: Σ a_k cos(2πkn / N). */
function windowFunction(name: string, coefficients: readonly number[]): Operator {
  return operator({
    name,
    since: [17],
    inputs: [1, 1],
    attributes: { output_datatype: int(1), periodic: int(1) },
    infer: (call) => [
      outputOf(call, typeAttribute(call, call.attributes.output_datatype, 'float32'), [scalarOf(call, 0)]),
    ],
    reference(call) {
      const n = scalarOf(call, 0);
      const type = typeAttribute(call, call.attributes.output_datatype, 'float32');
      outputOf(call, type, [n]);
      const period = call.attributes.periodic !== 0 ? n : n - 1;
      const at = (i: number) => coefficients.reduce((s, a, k) => s + a * Math.cos((2 * Math.PI * k * i) / period), 0);
      // A symmetric window of one sample has no period: it is its peak.
      return [
        fromNumbers(
          type,
          [n],
          Float64Array.from({ length: n }, (_, i) => (period === 0 ? 1 : at(i))),
        ),
      ];
    },
  });
}

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
});

const MelWeightMatrix = operator({
  name: 'MelWeightMatrix',
  since: [17],
  inputs: [5, 5],
  attributes: { output_datatype: int(1) },
  infer(call) {
    const type = typeAttribute(call, call.attributes.output_datatype, 'float32');
    return [outputOf(call, type, [Math.floor(scalarOf(call, 1) / 2) + 1, scalarOf(call, 0)])];
  },
  reference(call) {
    const [mels, length, rate, low, high] = [0, 1, 2, 3, 4].map((i) => scalarOf(call, i)) as [
      number,
      number,
      number,
      number,
      number,
    ];
    const type = typeAttribute(call, call.attributes.output_datatype, 'float32');
    const dims = [Math.floor(length / 2) + 1, mels];
    outputOf(call, type, dims);
    const mel = (hz: number) => 2595 * Math.log10(1 + hz / 700);
    const step = (mel(high) - mel(low)) / (mels + 2);
    // Band edges in bins of the spectrum: mels + 2 of them, each band spans three.
    const edges = Array.from({ length: mels + 2 }, (_, i) => {
      const hz = 700 * (10 ** ((i * step + mel(low)) / 2595) - 1);
      return Math.floor(((length + 1) * hz) / rate);
    });
    const y = new Float64Array(sizeOf(dims));
    const put = (bin: number, m: number, w: number) => {
      if (bin >= 0 && bin < dims[0]!) y[bin * mels + m] = w;
    };
    for (let m = 0; m < mels; m++) {
      const [lower, centre, upper] = edges.slice(m, m + 3) as [number, number, number];
      if (centre === lower) put(centre, m, 1);
      else for (let b = lower; b <= centre; b++) put(b, m, (b - lower) / (centre - lower));
      if (upper > centre) for (let b = centre; b < upper; b++) put(b, m, (upper - b) / (upper - centre));
    }
    return [new Tensor(type, encode(type, y), dims)];
  },
});

export const signals: readonly Operator[] = [
  windowFunction('HannWindow', [0.5, -0.5]),
  windowFunction('HammingWindow', [25 / 46, -21 / 46]),
  windowFunction('BlackmanWindow', [0.42, -0.5, 0.08]),
  DFT,
  STFT,
  MelWeightMatrix,
];
