// What the code does with each operator and element type, found by doing it: a few random valid nodes of every operator
// (the generators of test/stress) are given another element type, run by the reference, compiled, and looked at.
//
//   refused by its rules or its reference  →  the type is not supported
//   a step without a kernel, or a cut      →  reference; with kernel steps alone → kernel; no step at all → a view
import type { ConstantPool } from '../../src/compiler/plan.js';
import { feedOf, Program } from '../../src/compiler/program.js';
import type { HostValue, Operator, TensorInfo } from '../../src/operators/operator.js';
import { allOperators } from '../../src/operators/registry.js';
import { inputsOfOneType } from '../../src/operators/signatures.js';
import { decode, encode } from '../../src/tensor/convert.js';
import { SkepError } from '../../src/tensor/errors.js';
import { Tensor, zeros } from '../../src/tensor/tensor.js';
import { type DataType, dataTypes, typeInfo } from '../../src/tensor/types.js';
import { graphOf, runReference } from '../operators/harness.js';
import { families } from '../stress/differential/families.js';
import { type Case, Generator } from '../stress/differential/generator.js';

/** How nodes of one element type are computed; `mixed`: some forms of the operator by a kernel, some by the reference. */
export type Way = 'kernel' | 'view' | 'mixed' | 'reference';

export interface OperatorRow {
  /** `Conv`, or `com.microsoft:Gelu`. */
  readonly name: string;
  readonly versions: readonly number[];
  /** By element type of the main input (of the output, where there is no input). */
  readonly types: ReadonlyMap<DataType, Way>;
}

/** Random nodes tried an operator. */
const SAMPLES = 12;

const pool: ConstantPool = {
  place(_, bytes, fill) {
    fill(new Uint8Array(bytes));
    return 64;
  },
};

function retyped(value: HostValue | undefined, type: DataType): HostValue | undefined {
  if (Array.isArray(value)) return value.map((v: HostValue) => retyped(v, type)!);
  if (!(value instanceof Tensor) || value.type === type) return value;
  if (type === 'string') return new Tensor('string', new Array<string>(value.size).fill('a'), value.dims);
  const info = typeInfo(type);
  if (info.kind === 'complex') return zeros(type, value.dims);
  if (value.type === 'string') return zeros(type, value.dims);
  const numbers = Array.from(decode(value), (x) => {
    if (info.kind === 'bool') return x !== 0 ? 1 : 0;
    if (info.kind === 'unsigned') return Math.min(Math.abs(Math.trunc(x)), 2 ** info.bits - 1);
    return x;
  });
  return new Tensor(type, encode(type, numbers, { saturate: true }), value.dims);
}

function typeOf(value: HostValue | undefined): DataType | undefined {
  if (value instanceof Tensor) return value.type;
  return Array.isArray(value) ? typeOf(value[0]) : undefined;
}

/** The node with another element type, wherever the operator wants the same type. */
function withType(c: Case, type: DataType): Case {
  const first = c.inputs.findIndex((x) => typeOf(x) !== undefined);
  if (first < 0) return c;
  const declared = inputsOfOneType({ domain: c.domain ?? '', op: c.op, opset: c.opset }, c.inputs.length);
  const main = declared?.[0] ?? first;
  const same = (i: number) =>
    declared === undefined ? typeOf(c.inputs[i]) === typeOf(c.inputs[main]) : declared.includes(i);
  return { ...c, inputs: c.inputs.map((x, i) => (same(i) ? retyped(x, type) : x)) };
}

/** Compiles the node with the kernels of a build every machine has. */
function wayOf(c: Case): Way {
  // What is constant is folded; the operator itself is asked about.
  const constants = (c.constants ?? []).filter((i) => i > 0);
  const { graph, feeds } = graphOf({ ...c, constants });
  const program = new Program(graph, { build: 'plain', fuse: false }, pool);
  const known = new Map([...feeds].map(([name, v]) => [name, feedOf(v)] as const));
  const wanted = graph.outputs.map((o) => o.name);
  let segment = program.begin(known, wanted);
  while (segment.cut?.kind === 'value') {
    const { name } = segment.cut;
    const value = feeds.get(name) as Tensor;
    const info: TensorInfo = { type: value.type, dims: value.dims, value };
    segment = program.resume(segment, new Map([[name, info]]));
  }
  if (segment.cut !== undefined) return 'reference';
  const { steps } = segment.plan;
  if (steps.length === 0) return 'view';
  return steps.every((s) => s.kind === 'kernel') ? 'kernel' : 'reference';
}

function together(ways: ReadonlySet<Way>): Way {
  if (ways.has('reference')) return ways.size > 1 ? 'mixed' : 'reference';
  return ways.has('kernel') ? 'kernel' : 'view';
}

function measure(op: Operator, name: string): OperatorRow {
  const make = families[name];
  if (make === undefined) throw new Error(`test/stress/differential has no generator for ${name}`);
  const opset = op.since.at(-1)!;
  const types = new Map<DataType, Set<Way>>();
  for (let i = 0; i < SAMPLES; i++) {
    const made = make(new Generator(i * 7919 + 1), opset);
    const sample: Case = { op: op.name, domain: op.domain, opset, ...made };
    // An empty tensor needs no kernel, and an empty sequence has no type.
    if (sample.inputs.some((x) => x instanceof Tensor && x.size === 0)) continue;
    const fixed = sample.inputs.every((x) => typeOf(x) === undefined);
    for (const type of fixed ? [undefined] : (Object.keys(dataTypes) as DataType[])) {
      const c = type === undefined ? sample : withType(sample, type);
      try {
        const found = type ?? typeOf(runReference(c)[0]);
        if (type !== undefined) runReference(c);
        if (found === undefined) continue;
        const ways = types.get(found) ?? new Set();
        types.set(found, ways.add(wayOf(c)));
      } catch (error) {
        if (!(error instanceof SkepError) || error.code === 'INTERNAL') throw error;
      }
    }
  }
  const order = Object.keys(dataTypes) as DataType[];
  const sorted = [...types].sort(([a], [b]) => order.indexOf(a) - order.indexOf(b));
  return { name, versions: op.since, types: new Map(sorted.map(([t, ways]) => [t, together(ways)])) };
}

/** Every operator a model can contain, by domain and name. */
export function measureOperators(): OperatorRow[] {
  const rows = allOperators()
    .filter((op) => op.domain !== 'skep')
    .map((op) => measure(op, op.domain === '' ? op.name : `${op.domain}:${op.name}`));
  // Those of other domains last.
  const key = ({ name }: OperatorRow) => (name.includes(':') ? `~${name}` : name);
  return rows.sort((a, b) => (key(a) < key(b) ? -1 : 1));
}
