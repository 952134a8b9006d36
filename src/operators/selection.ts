// Operators that find elements by their values: TopK, NonZero, Unique, Compress, NonMaxSuppression. How many they find
// depends on data (all but TopK), so their shapes are 'dynamic' and they have references only.
import { decode } from '../tensor/convert.js';
import { formatShape } from '../tensor/errors.js';
import { sizeOf, stridesOf } from '../tensor/shape.js';
import { Tensor } from '../tensor/tensor.js';
import { typeInfo } from '../tensor/types.js';
import { int } from './attributes.js';
import { type InferCall, type Operator, operator } from './operator.js';
import { axisOf, elementsOf, fromElements, move, pick, ramp, roomFor } from './pick.js';

type Comparable = number | bigint | string;

/** Elements as values that compare by < and >: numbers, 64-bit integers as BigInts, strings. */
function comparable(t: Tensor): ArrayLike<Comparable> {
  return typeInfo(t.type).kind === 'string' || t.type === 'int64' || t.type === 'uint64'
    ? (t.data as unknown as ArrayLike<Comparable>)
    : decode(t);
}

/** Ascending; NaN above everything. */
function compare(a: Comparable, b: Comparable): number {
  const an = typeof a === 'number' && Number.isNaN(a);
  const bn = typeof b === 'number' && Number.isNaN(b);
  if (an || bn) return Number(an) - Number(bn);
  return a < b ? -1 : a > b ? 1 : 0;
}

interface TopKAttributes {
  readonly axis: number;
  readonly k: number | undefined;
  readonly largest: number;
}

function topKShape(call: InferCall<TopKAttributes>) {
  const { type, dims } = call.input(0);
  const axis = axisOf(call, call.attributes.axis, dims.length);
  const given = call.ints(1);
  const k = given === undefined ? call.attributes.k : given[0];
  if (k === undefined || (given !== undefined && given.length !== 1)) throw call.error('k must be given as one value');
  const n = dims[axis]!;
  if (k < 0 || k > n) throw call.error(`k = ${k} is outside [0, ${n}], the size of axis ${axis}`);
  return { type, dims: dims.with(axis, k), axis, k, n, inner: sizeOf(dims.slice(axis + 1)) };
}

const TopK = operator({
  name: 'TopK',
  since: [1, 10, 11, 24],
  inputs: [1, 2],
  attributes: { axis: int(-1), k: int(), largest: int(1), sorted: int(1) },
  infer(call) {
    const { type, dims } = topKShape(call);
    return [
      { type, dims },
      { type: 'int64', dims },
    ];
  },
  reference(call) {
    const t = call.tensor(0);
    const { dims, k, n, inner } = topKShape(call);
    const values = comparable(t);
    const sign = call.attributes.largest !== 0 ? -1 : 1;
    const source = new Int32Array(sizeOf(dims));
    const indices = new BigInt64Array(source.length);
    const lines = n === 0 ? 0 : t.size / n;
    for (let line = 0; line < lines; line++) {
      const outer = Math.floor(line / inner);
      const lane = line % inner;
      const at = (i: number) => (outer * n + i) * inner + lane;
      const order = [...ramp(0, 1, n)].sort((a, b) => sign * compare(values[at(a)]!, values[at(b)]!) || a - b);
      for (let i = 0; i < k; i++) {
        source[(outer * k + i) * inner + lane] = at(order[i]!);
        indices[(outer * k + i) * inner + lane] = BigInt(order[i]!);
      }
    }
    return [pick(t, dims, (i) => source[i]!), new Tensor('int64', indices, dims)];
  },
  lower(call) {
    const { type, dims, k, n, inner } = topKShape(call);
    if (type !== 'float32') return false;
    if (sizeOf(dims) === 0) return true;
    const largest = call.attributes.largest !== 0 ? 1 : 0;
    call.step(
      'topK',
      { input: call.in(0), values: call.out(0), indices: call.out(1), n, k, inner, largest },
      { units: sizeOf(dims) / k, grain: Math.max(1, Math.floor(4096 / n)) },
    );
    return true;
  },
});

const NonZero = operator({
  name: 'NonZero',
  since: [9, 13],
  inputs: [1, 1],
  attributes: {},
  infer: () => 'dynamic',
  reference(call) {
    const t = call.tensor(0);
    const values = comparable(t);
    const found: number[] = [];
    for (let i = 0; i < t.size; i++) if (values[i] !== 0 && values[i] !== 0n && values[i] !== '') found.push(i);
    const strides = stridesOf(t.dims);
    const out = t.dims.flatMap((d, a) => found.map((i) => Math.floor(i / strides[a]!) % d));
    return [new Tensor('int64', out, [t.dims.length, found.length])];
  },
});

const Compress = operator({
  name: 'Compress',
  since: [9, 11],
  inputs: [2, 2],
  attributes: { axis: int() },
  infer: () => 'dynamic',
  reference(call) {
    const t = call.tensor(0);
    const condition = call.tensor(1);
    if (condition.type !== 'bool' || condition.dims.length !== 1)
      throw call.error(`condition must be a list of bools, got ${condition.type} ${formatShape(condition.dims)}`);
    const { axis } = call.attributes;
    const a = axis === undefined ? 0 : axisOf(call, axis, t.dims.length);
    const dims = axis === undefined ? [t.size] : t.dims;
    const flags = condition.data as Uint8Array;
    if (flags.length > dims[a]!)
      throw call.error(`condition has ${flags.length} elements for ${dims[a]} slices`, 'INVALID_INPUT');
    const kept = [...flags.keys()].filter((i) => flags[i] !== 0);
    const inner = sizeOf(dims.slice(a + 1));
    return [
      pick(t, dims.with(a, kept.length), (i) => {
        const slice = Math.floor(i / inner);
        const outer = Math.floor(slice / kept.length);
        return (outer * dims[a]! + kept[slice % kept.length]!) * inner + (i % inner);
      }),
    ];
  },
});

const Unique = operator({
  name: 'Unique',
  since: [11],
  inputs: [1, 1],
  attributes: { axis: int(), sorted: int(1) },
  infer: () => 'dynamic',
  reference(call) {
    const t = call.tensor(0);
    const { axis, sorted } = call.attributes;
    const dims = axis === undefined ? [t.size] : t.dims;
    const a = axis === undefined ? 0 : axisOf(call, axis, t.dims.length);
    const n = dims[a]!;
    const inner = sizeOf(dims.slice(a + 1));
    const outer = sizeOf(dims.slice(0, a));
    const values = comparable(t);
    const at = (o: number, slice: number, i: number) => (o * n + slice) * inner + i;
    const compareSlices = (x: number, y: number): number => {
      for (let o = 0; o < outer; o++)
        for (let i = 0; i < inner; i++) {
          const c = compare(values[at(o, x, i)]!, values[at(o, y, i)]!);
          if (c !== 0) return c;
        }
      return 0;
    };
    // Sorted with first occurrences in front of their equals, so that groups are runs.
    const order = [...ramp(0, 1, n)].sort((x, y) => compareSlices(x, y) || x - y);
    const groups: number[][] = [];
    order.forEach((slice, i) => {
      if (i > 0 && compareSlices(order[i - 1]!, slice) === 0) groups.at(-1)!.push(slice);
      else groups.push([slice]);
    });
    if (sorted === 0) groups.sort((x, y) => x[0]! - y[0]!);
    const firsts = groups.map((g) => g[0]!);
    const inverse = new Array<number>(n);
    groups.forEach((g, k) => {
      for (const slice of g) inverse[slice] = k;
    });
    const out = dims.with(a, groups.length);
    const from = elementsOf(t);
    const to = roomFor(t.type, sizeOf(out));
    for (let o = 0; o < outer; o++)
      for (let k = 0; k < firsts.length; k++)
        for (let i = 0; i < inner; i++) move(to, (o * firsts.length + k) * inner + i, from, at(o, firsts[k]!, i));
    return [
      fromElements(t.type, out, to),
      new Tensor('int64', firsts),
      new Tensor('int64', inverse),
      new Tensor(
        'int64',
        groups.map((g) => g.length),
      ),
    ];
  },
});

/** Boxes as flat [y1, x1, y2, x2] with ordered corners: detectors give thousands, judged against each other. */
function cornersOf(boxes: ArrayLike<number>, first: number, n: number, centred: boolean): Float64Array {
  const corners = new Float64Array(4 * n);
  for (let i = 0; i < n; i++) {
    const from = 4 * (first + i);
    const [a, b, c, d] = [boxes[from]!, boxes[from + 1]!, boxes[from + 2]!, boxes[from + 3]!];
    // Centred: x, y, width, height; otherwise two opposite corners in any order.
    corners[4 * i] = centred ? b - d / 2 : Math.min(a, c);
    corners[4 * i + 1] = centred ? a - c / 2 : Math.min(b, d);
    corners[4 * i + 2] = centred ? b + d / 2 : Math.max(a, c);
    corners[4 * i + 3] = centred ? a + c / 2 : Math.max(b, d);
  }
  return corners;
}

function areaOf(corners: Float64Array, i: number): number {
  return (corners[i + 2]! - corners[i]!) * (corners[i + 3]! - corners[i + 1]!);
}

/** Intersection over union of the boxes whose corners begin at `i` and at `j`. */
function overlap(corners: Float64Array, i: number, j: number): number {
  const h = Math.min(corners[i + 2]!, corners[j + 2]!) - Math.max(corners[i]!, corners[j]!);
  const w = Math.min(corners[i + 3]!, corners[j + 3]!) - Math.max(corners[i + 1]!, corners[j + 1]!);
  if (h <= 0 || w <= 0) return 0;
  return (h * w) / (areaOf(corners, i) + areaOf(corners, j) - h * w);
}

/** Whether box `i` overlaps none of those kept by more than `iou`. */
function fits(corners: Float64Array, kept: readonly number[], i: number, iou: number): boolean {
  for (let k = 0; k < kept.length; k++) if (!(overlap(corners, 4 * kept[k]!, 4 * i) <= iou)) return false;
  return true;
}

const NonMaxSuppression = operator({
  name: 'NonMaxSuppression',
  since: [10, 11],
  inputs: [2, 5],
  attributes: { center_point_box: int(0) },
  infer: () => 'dynamic',
  reference(call) {
    const [boxes, scores] = [call.tensor(0), call.tensor(1)];
    const [batch, n, four] = boxes.dims as [number, number, number];
    const [scoreBatch, classes, scoreN] = scores.dims as [number, number, number];
    if (boxes.dims.length !== 3 || four !== 4 || scores.dims.length !== 3 || scoreBatch !== batch || scoreN !== n)
      throw call.error(`boxes ${formatShape(boxes.dims)} and scores ${formatShape(scores.dims)} do not fit`);
    const scalar = (i: number) => (call.has(i) && call.tensor(i).size > 0 ? decode(call.tensor(i))[0]! : undefined);
    const most = Math.max(0, scalar(2) ?? 0);
    const iou = scalar(3) ?? 0;
    const threshold = scalar(4);
    const [b, s] = [boxes.data as Float32Array, scores.data as Float32Array];
    const centred = call.attributes.center_point_box !== 0;
    const selected: number[] = [];
    for (let image = 0; image < batch; image++) {
      const corners = cornersOf(b, image * n, n, centred);
      for (let c = 0; c < classes; c++) {
        const own = s.subarray((image * classes + c) * n, (image * classes + c + 1) * n);
        const candidates: number[] = [];
        for (let i = 0; i < n; i++) if (threshold === undefined || own[i]! > threshold) candidates.push(i);
        candidates.sort((x, y) => own[y]! - own[x]! || x - y);
        const kept: number[] = [];
        for (const i of candidates) {
          if (kept.length >= most) break;
          if (fits(corners, kept, i, iou)) kept.push(i);
        }
        for (const i of kept) selected.push(image, c, i);
      }
    }
    return [new Tensor('int64', selected, [selected.length / 3, 3])];
  },
});

export const selections: readonly Operator[] = [TopK, NonZero, Compress, Unique, NonMaxSuppression];
