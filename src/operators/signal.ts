// Signal processing: window functions and MelWeightMatrix. The transforms are in fourier.ts.
import { decode, encode } from '../tensor/convert.js';
import { formatShape } from '../tensor/errors.js';
import { sizeOf } from '../tensor/shape.js';
import { Tensor } from '../tensor/tensor.js';
import { int } from './attributes.js';
import { typeAttribute } from './generators.js';
import { type InferCall, type Operator, operator } from './operator.js';
import { outputOf } from './pick.js';
import { fromNumbers } from './reference.js';

/** One number an input holds. */
export function scalarOf(call: InferCall<unknown>, i: number): number {
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
  MelWeightMatrix,
];
