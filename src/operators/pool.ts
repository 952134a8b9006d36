// Pooling: MaxPool, AveragePool, LpPool over windows, their global forms, and MaxUnpool. `windowsOf` says where windows
// stand for every combination of auto_pad, pads, ceil_mode, strides and dilations; pooling is then one loop.
import { poolCodes, poolScratch } from '../kernels/pool.js';
import { reduceCodes } from '../kernels/reduce.js';
import { decode } from '../tensor/convert.js';
import { formatShape } from '../tensor/errors.js';
import { sizeOf } from '../tensor/shape.js';
import { type AttributesOf, int, ints, required, string } from './attributes.js';
import {
  type InferCall,
  type LowerCall,
  type Operator,
  type OutputInfo,
  operator,
  type ReferenceCall,
} from './operator.js';
import { lowerReduce } from './reduce.js';
import { fromNumbers } from './reference.js';
import { numericRule } from './unary.js';

const specs = {
  kernel_shape: required(ints()),
  strides: ints([]),
  dilations: ints([]),
  pads: ints([]),
  auto_pad: string('NOTSET'),
  ceil_mode: int(0),
  count_include_pad: int(0),
  storage_order: int(0),
  p: int(2),
};
type PoolCall = InferCall<AttributesOf<typeof specs>>;

/** Windows along one axis. */
interface Windows {
  readonly input: number;
  readonly output: number;
  readonly kernel: number;
  readonly stride: number;
  readonly dilation: number;
  /** Padding before the axis; positions before and after it count in averages when `count_include_pad`. */
  readonly before: number;
  readonly after: number;
}

/** Where windows stand along every spatial axis. Throws INVALID_MODEL when attributes do not fit. */
function windowsOf(call: PoolCall): Windows[] {
  const { dims } = call.input(0);
  const { kernel_shape, strides, dilations, pads, auto_pad, ceil_mode } = call.attributes;
  const rank = dims.length - 2;
  if (rank < 1) throw call.error(`input 0 must have at least 3 axes, got ${formatShape(dims)}`);
  const lists = {
    kernel_shape: [kernel_shape, rank],
    strides: [strides, rank],
    dilations: [dilations, rank],
    pads: [pads, 2 * rank],
  } as const;
  for (const [name, [list, length]] of Object.entries(lists)) {
    if (list.length !== length && (list.length > 0 || name === 'kernel_shape'))
      throw call.error(
        `${name} must have ${length} values for an input of shape ${formatShape(dims)}, got ${list.length}`,
      );
    if (list.some((v) => v < (name === 'pads' ? 0 : 1)))
      throw call.error(`${name} ${formatShape(list)} is out of range`);
  }
  if (!['NOTSET', 'VALID', 'SAME_UPPER', 'SAME_LOWER'].includes(auto_pad))
    throw call.error(`auto_pad must be NOTSET, VALID, SAME_UPPER or SAME_LOWER, got '${auto_pad}'`);
  return kernel_shape.map((kernel, i) => {
    const input = dims[i + 2]!;
    const stride = strides[i] ?? 1;
    const dilation = dilations[i] ?? 1;
    const reach = (kernel - 1) * dilation + 1;
    if (reach > 65536) throw call.error(`a window of ${reach} is too large`, 'UNSUPPORTED');
    let [before, after] = auto_pad === 'NOTSET' ? [pads[i] ?? 0, pads[i + rank] ?? 0] : [0, 0];
    // A window in padding alone would have nothing to join.
    if (before >= reach || after >= reach)
      throw call.error(`pads ${formatShape(pads)} must be smaller than the window, ${reach} along axis ${i + 2}`);
    let output: number;
    if (auto_pad.startsWith('SAME')) {
      output = Math.ceil(input / stride);
      const total = Math.max(0, (output - 1) * stride + reach - input);
      before = auto_pad === 'SAME_UPPER' ? Math.floor(total / 2) : Math.ceil(total / 2);
      after = total - before;
    } else {
      const steps = (input + before + after - reach) / stride;
      output = (ceil_mode !== 0 ? Math.ceil(steps) : Math.floor(steps)) + 1;
      // A window must start within the input or the padding before it.
      if (ceil_mode !== 0 && (output - 1) * stride >= input + before) output--;
    }
    if (output < 0 || (output < 1 && input > 0))
      throw call.error(`a window of ${reach} does not fit axis ${i + 2} of ${formatShape(dims)} with its padding`);
    return { input, output, kernel, stride, dilation, before, after };
  });
}

function poolRule(call: PoolCall, indices: boolean): OutputInfo[] {
  const { type } = call.input(0);
  const [{ dims }] = (type === 'int8' || type === 'uint8' ? [call.input(0)] : numericRule(call)) as [OutputInfo];
  const y: OutputInfo = { type, dims: [...dims.slice(0, 2), ...windowsOf(call).map((w) => w.output)] };
  return indices ? [y, { type: 'int64', dims: y.dims }] : [y];
}

/** Positions of a window along an axis that are at least 0 and below `end`: first, and how many. */
function within(w: Windows, at: number, from: number, end: number): { first: number; count: number } {
  const start = at * w.stride - w.before;
  const skipped = start >= from ? 0 : Math.ceil((from - start) / w.dilation);
  const past = Math.min(w.kernel, Math.ceil((end - start) / w.dilation));
  return { first: start + skipped * w.dilation, count: Math.max(0, past - skipped) };
}

/** Positions of a window along an axis that lie in the input. */
function positions(w: Windows, at: number): number[] {
  const { first, count } = within(w, at, 0, w.input);
  return Array.from({ length: count }, (_, k) => first + k * w.dilation);
}

/** How many positions of window `at` count in an average: those in the input, or in the padded input. */
function countOf(w: Windows, at: number, includePad: boolean): number {
  return includePad ? within(w, at, -w.before, w.input + w.after).count : within(w, at, 0, w.input).count;
}

/** Calls visit(input offsets of the window, divisor of an average, output index) for every window of every plane. */
function forEachWindow(
  dims: readonly number[],
  axes: readonly Windows[],
  includePad: boolean,
  visit: (inputs: readonly number[], count: number, output: number, plane: number) => void,
): void {
  const planes = dims[0]! * dims[1]!;
  const size = axes.reduce((a, w) => a * w.input, 1);
  const windows = axes.reduce((a, w) => a * w.output, 1);
  for (let plane = 0; plane < planes; plane++)
    for (let i = 0; i < windows; i++) {
      let rest = i;
      let offsets = [0];
      let count = 1;
      let stride = 1;
      for (let axis = axes.length - 1; axis >= 0; axis--) {
        const w = axes[axis]!;
        const at = rest % w.output;
        rest = Math.floor(rest / w.output);
        const step = stride;
        // Row-major order: outer axes vary slowest.
        offsets = positions(w, at).flatMap((p) => offsets.map((o) => o + p * step));
        count *= countOf(w, at, includePad);
        stride *= w.input;
      }
      visit(
        offsets.map((o) => o + plane * size),
        count,
        plane * windows + i,
        plane,
      );
    }
}

/** The step of a windowed kernel; false when there are more than three spatial axes. */
function lowerPool(call: LowerCall<AttributesOf<typeof specs>>, op: number, includePad: boolean): boolean {
  const { type, dims } = call.input(0);
  const axes = windowsOf(call);
  if (type !== 'float32' || axes.length > 3) return false;
  const one: Windows = { input: 1, output: 1, kernel: 1, stride: 1, dilation: 1, before: 0, after: 0 };
  const [d, h, w] = [...new Array<Windows>(3 - axes.length).fill(one), ...axes] as [Windows, Windows, Windows];
  const counts = (a: Windows) =>
    op === poolCodes.average ? Array.from({ length: a.output }, (_, i) => countOf(a, i, includePad)) : [];
  call.threadScratch(poolScratch(w.output, w.stride, w.kernel, w.dilation));
  const rows = dims[0]! * dims[1]! * d.output * h.output;
  const window = d.kernel * h.kernel * w.kernel;
  call.step(
    'poolF32',
    {
      x: call.in(0),
      y: call.out(0),
      op,
      inD: d.input,
      inH: h.input,
      inW: w.input,
      outD: d.output,
      outH: h.output,
      outW: w.output,
      kernelD: d.kernel,
      kernelH: h.kernel,
      kernelW: w.kernel,
      strideD: d.stride,
      strideH: h.stride,
      strideW: w.stride,
      dilationD: d.dilation,
      dilationH: h.dilation,
      dilationW: w.dilation,
      padD: d.before,
      padH: h.before,
      padW: w.before,
      countD: counts(d),
      countH: counts(h),
      countW: counts(w),
    },
    {
      units: rows,
      grain: Math.max(1, Math.ceil(2048 / Math.max(1, w.output * window))),
      flops: rows * w.output * window,
    },
  );
  return true;
}

/** The largest of every window; output 1 is where it was, in the whole tensor. */
const MaxPool = operator({
  name: 'MaxPool',
  since: [1, 8, 10, 11, 12, 22],
  inputs: [1, 1],
  attributes: specs,
  infer: (call) => poolRule(call, true),
  reference(call) {
    const [y, indices] = poolRule(call, true) as [OutputInfo, OutputInfo];
    const { dims } = call.input(0);
    const x = decode(call.tensor(0));
    const values = new Float64Array(sizeOf(y.dims)).fill(-Infinity);
    const found = new Float64Array(values.length);
    const axes = windowsOf(call);
    forEachWindow(dims, axes, false, (inputs, _count, output, plane) => {
      let best = -1;
      for (const i of inputs) if (best < 0 || x[i]! > x[best]! || Number.isNaN(x[i])) best = i;
      if (best < 0) return;
      values[output] = x[best]!;
      found[output] = call.attributes.storage_order === 0 ? best : columnMajor(best, plane, dims);
    });
    return [fromNumbers(y.type, y.dims, values), fromNumbers('int64', indices.dims, found)];
  },
  lower: (call) => !call.wants(1) && lowerPool(call, poolCodes.max, false),
});

/** An index within its plane counted with the first spatial axis varying fastest. */
function columnMajor(index: number, plane: number, dims: readonly number[]): number {
  const spatial = dims.slice(2);
  const size = sizeOf(spatial);
  let rest = index - plane * size;
  const at: number[] = [];
  for (let axis = spatial.length - 1; axis >= 0; axis--) {
    at[axis] = rest % spatial[axis]!;
    rest = Math.floor(rest / spatial[axis]!);
  }
  let result = 0;
  for (let axis = spatial.length - 1; axis >= 0; axis--) result = result * spatial[axis]! + at[axis]!;
  return plane * size + result;
}

/** A pool of one number a window. */
function pooled(
  call: ReferenceCall<AttributesOf<typeof specs>>,
  includePad: boolean,
  f: (xs: readonly number[], count: number) => number,
) {
  const [y] = poolRule(call, false) as [OutputInfo];
  const x = decode(call.tensor(0));
  const values = new Float64Array(sizeOf(y.dims));
  forEachWindow(call.input(0).dims, windowsOf(call), includePad, (inputs, count, output) => {
    values[output] = f(
      inputs.map((i) => x[i]!),
      count,
    );
  });
  return [fromNumbers(y.type, y.dims, values)];
}

const AveragePool = operator({
  name: 'AveragePool',
  since: [1, 7, 10, 11, 19, 22],
  inputs: [1, 1],
  attributes: specs,
  infer: (call) => poolRule(call, false),
  reference: (call) =>
    pooled(call, call.attributes.count_include_pad !== 0, (xs, count) => xs.reduce((a, b) => a + b, 0) / count),
  lower: (call) => lowerPool(call, poolCodes.average, call.attributes.count_include_pad !== 0),
});

const norm = (xs: readonly number[], p: number) => xs.reduce((a, x) => a + Math.abs(x) ** p, 0) ** (1 / p);

const LpPool = operator({
  name: 'LpPool',
  since: [2, 11, 18, 22],
  inputs: [1, 1],
  attributes: specs,
  infer: (call) => poolRule(call, false),
  reference: (call) => pooled(call, false, (xs) => norm(xs, call.attributes.p)),
  lower(call) {
    const { p } = call.attributes;
    return (p === 1 || p === 2) && lowerPool(call, p === 1 ? poolCodes.l1 : poolCodes.l2, false);
  },
});

function globalRule(call: InferCall<unknown>): OutputInfo[] {
  const [{ type, dims }] = numericRule(call) as [OutputInfo];
  if (dims.length < 2) throw call.error(`input 0 must have at least 2 axes, got ${formatShape(dims)}`);
  return [{ type, dims: dims.map((d, i) => (i < 2 ? d : 1)) }];
}

/** All spatial axes to one element. */
function global(
  name: string,
  since: readonly number[],
  f: (xs: readonly number[], p: number) => number,
  codeOf: (p: number) => number | undefined,
): Operator {
  return operator({
    name,
    since,
    inputs: [1, 1],
    attributes: { p: int(2) },
    infer: globalRule,
    reference(call) {
      const [{ type, dims }] = globalRule(call) as [OutputInfo];
      const x = call.tensor(0);
      const data = decode(x);
      const n = sizeOf(x.dims.slice(2));
      const values = Float64Array.from({ length: sizeOf(dims) }, (_, i) =>
        f(
          Array.from({ length: n }, (_, k) => data[i * n + k]!),
          call.attributes.p,
        ),
      );
      return [fromNumbers(type, dims, values)];
    },
    lower(call) {
      const { type, dims } = call.input(0);
      const code = codeOf(call.attributes.p);
      if (type !== 'float32' || code === undefined) return false;
      const divisor = name === 'GlobalAveragePool' ? sizeOf(dims.slice(2)) : 1;
      // Without spatial axes there is nothing to join: rows of one element.
      const shape = dims.length === 2 ? [...dims, 1] : dims;
      lowerReduce(
        call,
        shape,
        shape.map((_, i) => i >= 2),
        code,
        divisor,
        1,
      );
      return true;
    },
  });
}

const unpoolSpecs = { kernel_shape: required(ints()), strides: ints([]), pads: ints([]) };
type UnpoolCall = InferCall<AttributesOf<typeof unpoolSpecs>>;

function unpoolRule(call: UnpoolCall): OutputInfo[] {
  const [{ type, dims }] = numericRule(call) as [OutputInfo];
  const { kernel_shape, strides, pads } = call.attributes;
  const rank = dims.length - 2;
  if (rank < 1 || kernel_shape.length !== rank)
    throw call.error(`kernel_shape does not fit an input of shape ${formatShape(dims)}`);
  if (sizeOf(call.input(1).dims) !== sizeOf(dims))
    throw call.error(`expected as many indices as values, got shape ${formatShape(call.input(1).dims)}`);
  const given = call.ints(2);
  if (given !== undefined) {
    if (given.length !== dims.length || given.some((d) => d < 0))
      throw call.error(`output_shape ${formatShape(given)} does not fit`);
    return [{ type, dims: given }];
  }
  const spatial = kernel_shape.map(
    (k, i) => (dims[i + 2]! - 1) * (strides[i] ?? 1) + k - (pads[i] ?? 0) - (pads[i + rank] ?? 0),
  );
  if (spatial.some((d) => d < 0)) throw call.error(`the output of shape ${formatShape(spatial)} is negative`);
  return [{ type, dims: [dims[0]!, dims[1]!, ...spatial] }];
}

/** Values put back where MaxPool found them, zeros elsewhere. */
const MaxUnpool = operator({
  name: 'MaxUnpool',
  since: [9, 11, 22],
  inputs: [2, 3],
  attributes: unpoolSpecs,
  infer: unpoolRule,
  reference(call) {
    const [{ type, dims }] = unpoolRule(call) as [OutputInfo];
    const { dims: from } = call.input(0);
    const x = decode(call.tensor(0));
    const indices = decode(call.tensor(1));
    const out = new Float64Array(sizeOf(dims));
    // Indices count in the tensor that was pooled: the shape without output_shape.
    const { kernel_shape, strides, pads } = call.attributes;
    const rank = from.length - 2;
    const pooledDims = [
      ...from.slice(0, 2),
      ...kernel_shape.map(
        (k, i) => (from[i + 2]! - 1) * (strides[i] ?? 1) + k - (pads[i] ?? 0) - (pads[i + rank] ?? 0),
      ),
    ];
    const total = sizeOf(pooledDims);
    for (let i = 0; i < x.length; i++) {
      const index = indices[i]!;
      if (!(index >= 0 && index < total))
        throw call.error(`index ${index} is outside [0, ${total - 1}]`, 'INVALID_INPUT');
      let rest = index;
      let to = 0;
      let stride = 1;
      for (let axis = from.length - 1; axis >= 0; axis--) {
        to += (rest % pooledDims[axis]!) * stride;
        rest = Math.floor(rest / pooledDims[axis]!);
        stride *= dims[axis]!;
      }
      if (to < out.length) out[to] = x[i]!;
    }
    return [fromNumbers(type, dims, out)];
  },
});

const sum = (xs: readonly number[]) => xs.reduce((a, b) => a + b, 0);

export const poolOperators: readonly Operator[] = [
  MaxPool,
  AveragePool,
  LpPool,
  global(
    'GlobalAveragePool',
    [1, 22],
    (xs) => sum(xs) / xs.length,
    () => reduceCodes.sum,
  ),
  global(
    'GlobalMaxPool',
    [1, 22],
    (xs) => xs.reduce((a, b) => Math.max(a, b), -Infinity),
    () => reduceCodes.max,
  ),
  global('GlobalLpPool', [2, 22], norm, (p) => (p === 1 ? reduceCodes.l1 : p === 2 ? reduceCodes.l2 : undefined)),
  MaxUnpool,
];
