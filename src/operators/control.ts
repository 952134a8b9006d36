// Control flow: If, Loop, Scan (versions 8 and 9 on), SequenceMap. Their subgraphs run through `call.run`, which binds
// captured names; how a subgraph is run (interpreted or compiled) is the caller's affair. Shapes of results depend on the
// subgraphs and the data, so `infer` says 'dynamic'. An If whose condition is known is inlined by the compiler.
import type { Graph, ValueInfo } from '../graph/graph.js';
import { decode } from '../tensor/convert.js';
import { formatShape, SkepError } from '../tensor/errors.js';
import { sameShape, stridesOf } from '../tensor/shape.js';
import { Tensor, zeros } from '../tensor/tensor.js';
import type { DataType } from '../tensor/types.js';
import { graph, int, ints, required } from './attributes.js';
import { join } from './joining.js';
import { type Call, type HostValue, type Operator, operator, type ReferenceCall } from './operator.js';
import { axisOf, outputOf, pickStrided, reshaped } from './pick.js';

/** The one bool of a condition. */
function condition(call: Call<unknown>, value: HostValue | undefined, what: string): boolean {
  if (!(value instanceof Tensor) || value.type !== 'bool' || value.size !== 1)
    throw call.error(
      `${what} must be one bool, got ${value instanceof Tensor ? `${value.type} ${formatShape(value.dims)}` : 'no tensor'}`,
    );
  return decode(value)[0] !== 0;
}

function tensorOf(call: Call<unknown>, value: HostValue | undefined, what: string): Tensor {
  if (!(value instanceof Tensor)) throw call.error(`${what} must be a tensor`);
  return value;
}

const If = operator({
  name: 'If',
  since: [1, 11, 13, 16, 19, 21, 23, 24, 25],
  inputs: [1, 1],
  attributes: { then_branch: required(graph()), else_branch: required(graph()) },
  infer: () => 'dynamic',
  reference(call) {
    const { then_branch, else_branch } = call.attributes;
    return call.run(condition(call, call.host(0), 'the condition') ? then_branch : else_branch, []);
  },
});

/**
 * Stacks equal tensors along a new axis; of none, makes an empty one from what the body's output declares, or where that is
 * nothing, from what the body gave when it was tried.
 */
function stack(
  call: Call<unknown>,
  parts: readonly Tensor[],
  axis: number,
  declared: ValueInfo,
  tried?: HostValue,
): Tensor {
  const first = parts[0];
  if (first === undefined) {
    const type = declared.type?.kind === 'tensor' ? declared.type : undefined;
    const seen = tried instanceof Tensor ? tried : undefined;
    const dims = type?.dims?.map((d) => (typeof d === 'number' ? d : 0)) ?? seen?.dims ?? [];
    return zeros(type?.type ?? seen?.type ?? 'float32', dims.toSpliced(axisOf(call, axis, dims.length + 1), 0, 0));
  }
  const at = axisOf(call, axis, first.dims.length + 1);
  const dims = first.dims.toSpliced(at, 0, parts.length);
  outputOf(call, first.type, dims);
  parts.forEach((p, i) => {
    if (p.type !== first.type || !sameShape(p.dims, first.dims))
      throw call.error(
        `output '${declared.name}' is ${first.type} ${formatShape(first.dims)} at first and ${p.type} ${formatShape(p.dims)} at iteration ${i}`,
      );
  });
  return join(
    parts.map((p) => reshaped(p, p.dims.toSpliced(at, 0, 1))),
    dims,
    at,
  );
}

/**
 * What a body that never ran would give: it is run on zeros where its scan outputs declare no shape. Undefined where they
 * do, or where it does not run on zeros.
 */
function tryBody(
  call: ReferenceCall<unknown>,
  body: Graph,
  scanned: readonly ValueInfo[],
  inputs: () => readonly HostValue[],
): readonly HostValue[] | undefined {
  if (scanned.every(({ type }) => type?.kind === 'tensor' && type.dims !== undefined)) return undefined;
  try {
    return call.run(body, inputs());
  } catch (error) {
    if (error instanceof SkepError && ['INVALID_MODEL', 'INVALID_INPUT', 'UNSUPPORTED'].includes(error.code))
      return undefined;
    throw error;
  }
}

/** Iterations whose scan outputs may be kept. Each is a tensor of its own until they are stacked. */
const SCAN_LIMIT = 1 << 22;

/** Adds one iteration's scan outputs; throws as soon as what they will be stacked to is more than an output may be. */
function collect(call: Call<unknown>, lists: readonly Tensor[][], results: readonly HostValue[]): void {
  lists.forEach((list, k) => {
    const t = tensorOf(call, results[k], `scan output ${k}`);
    if (list.length === SCAN_LIMIT)
      throw call.error(`scan output ${k} has more than ${SCAN_LIMIT} iterations`, 'UNSUPPORTED');
    list.push(t);
    if (t.type !== 'string') outputOf(call, t.type, [list.length, ...t.dims]);
  });
}

/** Element `i` along an axis, which is dropped. */
function slice(t: Tensor, axis: number, i: number): Tensor {
  const strides = stridesOf(t.dims);
  return pickStrided(t, t.dims.toSpliced(axis, 1), strides.toSpliced(axis, 1), i * strides[axis]!);
}

const Loop = operator({
  name: 'Loop',
  since: [1, 11, 13, 16, 19, 21, 23, 24, 25],
  inputs: [0, 0x7fffffff],
  attributes: { body: required(graph()) },
  infer: () => 'dynamic',
  reference(call) {
    const { body } = call.attributes;
    const trips = call.has(0) ? decode(call.tensor(0))[0]! : Number.POSITIVE_INFINITY;
    let going = call.has(1) ? condition(call, call.host(1), 'the condition') : true;
    const states = Math.max(0, call.inputCount - 2);
    if (body.inputs.length !== states + 2 || body.outputs.length < states + 1)
      throw call.error(
        `the body has ${body.inputs.length} inputs and ${body.outputs.length} outputs for ${states} loop-carried values`,
      );
    let carried = Array.from({ length: states }, (_, i) => {
      const v = call.host(i + 2);
      if (v === undefined) throw call.error(`input ${i + 2} is missing`);
      return v;
    });
    const scanned: Tensor[][] = body.outputs.slice(states + 1).map(() => []);
    for (let i = 0; i < trips && going; i++) {
      const iteration = new Tensor('int64', BigInt64Array.of(BigInt(i)), []);
      const results = call.run(body, [iteration, new Tensor('bool', Uint8Array.of(1), []), ...carried]);
      going = condition(call, results[0], "the body's condition");
      carried = results.slice(1, states + 1);
      collect(call, scanned, results.slice(states + 1));
    }
    const declared = body.outputs.slice(states + 1);
    const first = [new Tensor('int64', BigInt64Array.of(0n), []), new Tensor('bool', Uint8Array.of(1), [])];
    const tried =
      scanned[0]?.length === 0
        ? tryBody(call, body, declared, () => [...first, ...carried])?.slice(states + 1)
        : undefined;
    return [...carried, ...scanned.map((list, k) => stack(call, list, 0, declared[k]!, tried?.[k]))];
  },
});

interface ScanAxes {
  readonly inputAxes: readonly number[];
  readonly inputReversed: readonly boolean[];
  readonly outputAxes: readonly number[];
  readonly outputReversed: readonly boolean[];
}

/** One scan over sequences of equal length: final states, then stacked outputs. */
function scan(
  call: ReferenceCall<unknown>,
  body: Graph,
  initial: readonly HostValue[],
  inputs: readonly Tensor[],
  { inputAxes, inputReversed, outputAxes, outputReversed }: ScanAxes,
  limit?: number,
): { readonly states: readonly HostValue[]; readonly outputs: readonly Tensor[] } {
  const axes = inputs.map((t, i) => axisOf(call, inputAxes[i]!, t.dims.length, `axis of scan input ${i}`));
  const length = inputs[0]?.dims[axes[0]!] ?? 0;
  inputs.forEach((t, i) => {
    if (t.dims[axes[i]!] !== length)
      throw call.error(`scan input ${i} has length ${t.dims[axes[i]!]}, scan input 0 has ${length}`);
  });
  let states = initial;
  const parts: Tensor[][] = body.outputs.slice(states.length).map(() => []);
  const steps = Math.min(length, limit ?? length);
  for (let s = 0; s < steps; s++) {
    const elements = inputs.map((t, i) => slice(t, axes[i]!, inputReversed[i] ? steps - 1 - s : s));
    const results = call.run(body, [...states, ...elements]);
    states = results.slice(0, initial.length);
    collect(call, parts, results.slice(initial.length));
  }
  const declared = body.outputs.slice(initial.length);
  const nothing = () => inputs.map((t, i) => zeros(t.type, t.dims.toSpliced(axes[i]!, 1)));
  const tried =
    steps === 0 ? tryBody(call, body, declared, () => [...initial, ...nothing()])?.slice(initial.length) : undefined;
  const outputs = parts.map((list, k) => {
    const ordered = outputReversed[k] ? list.toReversed() : list;
    // Version 8: a sequence shorter than the longest is padded with zeros.
    if (ordered.length > 0)
      while (ordered.length < length) ordered.push(zeros(ordered[0]!.type as DataType, ordered[0]!.dims));
    return stack(call, ordered, outputAxes[k]!, declared[k]!, tried?.[k]);
  });
  return { states, outputs };
}

const Scan = operator({
  name: 'Scan',
  since: [8, 9, 11, 16, 19, 21, 23, 24, 25],
  inputs: [1, 0x7fffffff],
  attributes: {
    body: required(graph()),
    num_scan_inputs: required(int()),
    directions: ints(),
    scan_input_axes: ints(),
    scan_input_directions: ints(),
    scan_output_axes: ints(),
    scan_output_directions: ints(),
  },
  infer: () => 'dynamic',
  reference(call) {
    const a = call.attributes;
    const first = call.opset < 9 ? 1 : 0;
    const states = call.inputCount - first - a.num_scan_inputs;
    const produced = a.body.outputs.length - states;
    if (a.num_scan_inputs < 1 || states < 0 || produced < 0 || a.body.inputs.length !== states + a.num_scan_inputs)
      throw call.error(
        `${a.num_scan_inputs} scan inputs of ${call.inputCount - first} do not fit a body with ${a.body.inputs.length} inputs and ${a.body.outputs.length} outputs`,
      );
    const initial = Array.from({ length: states }, (_, i) => call.tensor(first + i));
    const inputs = Array.from({ length: a.num_scan_inputs }, (_, i) => call.tensor(first + states + i));
    const listOf = <T>(given: readonly T[] | undefined, count: number, fallback: T, what: string): readonly T[] => {
      if (given !== undefined && given.length !== count)
        throw call.error(`${what} has ${given.length} values for ${count}`);
      return given ?? new Array<T>(count).fill(fallback);
    };
    const reversed = (given: readonly number[] | undefined, count: number, what: string) =>
      listOf(given, count, 0, what).map((d) => d === 1);
    if (first === 0) {
      const { states: final, outputs } = scan(call, a.body, initial, inputs, {
        inputAxes: listOf(a.scan_input_axes, inputs.length, 0, 'scan_input_axes'),
        inputReversed: reversed(a.scan_input_directions, inputs.length, 'scan_input_directions'),
        outputAxes: listOf(a.scan_output_axes, produced, 0, 'scan_output_axes'),
        outputReversed: reversed(a.scan_output_directions, produced, 'scan_output_directions'),
      });
      return [...final, ...outputs];
    }
    // Version 8 has a batch axis in front of everything, and may say the length of each sequence.
    const batch = [...initial, ...inputs][0]!.dims[0] ?? 0;
    const lengths = call.ints(0);
    const results: HostValue[][] = [];
    for (let b = 0; b < batch; b++) {
      const { states: final, outputs } = scan(
        call,
        a.body,
        initial.map((t) => slice(t, 0, b)),
        inputs.map((t) => slice(t, 0, b)),
        {
          inputAxes: inputs.map(() => 0),
          inputReversed: reversed(a.directions, inputs.length, 'directions'),
          outputAxes: new Array<number>(produced).fill(0),
          outputReversed: new Array<boolean>(produced).fill(false),
        },
        lengths?.[b],
      );
      results.push([...final, ...outputs]);
    }
    return a.body.outputs.map((o, k) =>
      stack(
        call,
        results.map((r) => tensorOf(call, r[k], `output ${k}`)),
        0,
        o,
      ),
    );
  },
});

const SequenceMap = operator({
  name: 'SequenceMap',
  since: [17],
  inputs: [1, 0x7fffffff],
  attributes: { body: required(graph()) },
  infer: () => 'dynamic',
  reference(call) {
    const { body } = call.attributes;
    const inputs = Array.from({ length: call.inputCount }, (_, i) => call.host(i));
    const first = inputs[0];
    if (!Array.isArray(first)) throw call.error('input 0 must be a sequence');
    const results = first.map((_, i) =>
      call.run(
        body,
        inputs.map((x, k) => {
          const v = Array.isArray(x) ? (x as readonly HostValue[])[i] : x;
          if (v === undefined) throw call.error(`input ${k} has no element ${i}`);
          return v;
        }),
      ),
    );
    return body.outputs.map((_, k) => results.map((r) => r[k]!));
  },
});

export const control: readonly Operator[] = [If, Loop, Scan, SequenceMap];
