// ONNX test cases on disk: finding them, and running one. Two layouts, both upstream's:
//
//   CASE/model.onnx, CASE/test_data_set_N/{input,output}_M.pb     the usual one
//   CASE.onnx, CASE_output_M.pb                                   `light` models: element i of n of an input is i / n
//
// A case passes when every output of every data set agrees; it is unsupported when Skep says so of its model.
import { existsSync, readdirSync, statSync } from 'node:fs';
import path from 'node:path';
import { type Graph, type Node, subgraphsOf, type ValueInfo } from '../graph/graph.js';
import type { HostValue } from '../operators/operator.js';
import { LocalModel, type LocalOptions } from '../runtime/local.js';
import { SkepError } from '../tensor/errors.js';
import { readValueProto } from '../tensor/sequence-proto.js';
import { sizeOf } from '../tensor/shape.js';
import { Tensor } from '../tensor/tensor.js';
import { difference, type Tolerance } from './compare.js';
import { operatorName } from './compilation.js';
import { readBytes, readModelFile, within } from './files.js';

export interface TestCase {
  /** Where it is, relative to where the search began: `node/test_abs`. */
  readonly name: string;
  /** The model's file. */
  readonly model: string;
}

export interface CaseResult {
  readonly name: string;
  readonly status: 'pass' | 'fail' | 'unsupported';
  /** '' for a pass. */
  readonly why: string;
}

/** What became of the cases that contain an operator. */
export interface OperatorTotal {
  readonly operator: string;
  readonly passed: number;
  readonly failed: number;
  readonly unsupported: number;
}

/** Results added up by operator, in alphabetical order. A case counts for each operator in it once. */
export function totalsByOperator(results: readonly (CaseResult & { readonly operators: readonly string[] })[]) {
  const totals = new Map<string, { operator: string; passed: number; failed: number; unsupported: number }>();
  for (const { status, operators } of results)
    for (const operator of operators) {
      const total = totals.get(operator) ?? { operator, passed: 0, failed: 0, unsupported: 0 };
      total[status === 'pass' ? 'passed' : status === 'fail' ? 'failed' : 'unsupported']++;
      totals.set(operator, total);
    }
  return [...totals.values()].sort((a, b) => (a.operator < b.operator ? -1 : 1)) satisfies OperatorTotal[];
}

/** The operators of a case's model, each once: `Conv`, `com.microsoft:Gelu`. None where the model cannot be read. */
export function operatorsOf({ model }: TestCase): string[] {
  const found = new Set<string>();
  const visit = (graph: Graph) => {
    for (const node of graph.nodes) {
      found.add(operatorName(node));
      for (const [, sub] of subgraphsOf(node)) visit(sub);
    }
  };
  try {
    visit(readModelFile(model).graph);
  } catch (error) {
    if (!(error instanceof SkepError)) throw error;
  }
  return [...found];
}

/** The cases under a folder, or the one it is, by name. */
export function findCases(root: string): TestCase[] {
  if (!existsSync(root)) throw new SkepError('INVALID_INPUT', `${root}: there is no such folder`);
  if (!statSync(root).isDirectory()) throw new SkepError('INVALID_INPUT', `${root}: is a file, not a folder of cases`);
  const found: TestCase[] = [];
  const visit = (folder: string, name: string) => {
    const entries = readdirSync(folder, { withFileTypes: true });
    const names = new Set(entries.map((e) => e.name));
    if (names.has('model.onnx')) {
      found.push({ name: name || path.basename(path.resolve(root)), model: path.join(folder, 'model.onnx') });
      return;
    }
    for (const e of entries) {
      const inner = name === '' ? e.name : `${name}/${e.name}`;
      // A link could lead back to where we are.
      if (e.isDirectory()) visit(path.join(folder, e.name), inner);
      else if (e.name.endsWith('.onnx') && names.has(`${e.name.slice(0, -5)}_output_0.pb`))
        found.push({ name: inner.slice(0, -5), model: path.join(folder, e.name) });
    }
  };
  visit(root, '');
  return found.sort((a, b) => (a.name < b.name ? -1 : 1));
}

type Values = ReadonlyMap<string, HostValue>;

/** Upstream's tolerance, and what DFT and STFT need, whose results are compared near zero. */
export const tolerances = { usual: { rtol: 1e-3, atol: 1e-7 }, fourier: { rtol: 1e-3, atol: 1e-3 } };

/** Runs a case. Never throws for what is wrong with it. `tolerance` overrides the usual one. */
export function runCase({ name, model }: TestCase, options: LocalOptions, tolerance?: Tolerance): CaseResult {
  try {
    const why = checkCase(model, options, tolerance);
    return { name, status: why === undefined ? 'pass' : 'fail', why: why ?? '' };
  } catch (error) {
    const status = error instanceof SkepError && error.code === 'UNSUPPORTED' ? 'unsupported' : 'fail';
    if (error instanceof SkepError) return { name, status, why: error.message };
    return { name, status, why: error instanceof Error ? (error.stack ?? error.message) : String(error) };
  }
}

function checkCase(file: string, options: LocalOptions, given: Tolerance | undefined): string | undefined {
  const { graph } = readModelFile(file);
  const model = new LocalModel(graph, options);
  const fourier = usesOperator(graph, (n) => n.op === 'DFT' || n.op === 'STFT');
  const tolerance = given ?? (fourier ? tolerances.fourier : tolerances.usual);
  if (path.basename(file) !== 'model.onnx')
    return compare(model, ramps(graph), readValues(`${file.slice(0, -5)}_output`, graph.outputs), tolerance);
  const folder = path.dirname(file);
  const sets = readdirSync(folder).filter((f) => /^test_data_set_\d+$/.test(f));
  sets.sort((a, b) => Number(a.slice(14)) - Number(b.slice(14)));
  if (sets.length === 0) return 'has no test_data_set_N';
  for (const set of sets) {
    // Files are numbered as the model's inputs are.
    const feeds = readValues(path.join(folder, set, 'input'), graph.inputs);
    const why = compare(model, feeds, readValues(path.join(folder, set, 'output'), graph.outputs), tolerance);
    if (why !== undefined) return sets.length === 1 ? why : `${set}: ${why}`;
  }
  return undefined;
}

function compare(model: LocalModel, feeds: Values, wanted: Values, tolerance: Tolerance): string | undefined {
  if (wanted.size === 0) return 'has no output_N.pb to compare with';
  const outputs = model.run(feeds);
  for (const [name, want] of wanted) {
    const why = difference(outputs.get(name), want, tolerance);
    if (why !== undefined) return `output '${name}': ${why}`;
  }
  return undefined;
}

/** What `light` models are fed: 0, 1/n, 2/n, …; dimensions left open are 1. */
function ramps(graph: Graph): Values {
  const feeds = new Map<string, HostValue>();
  for (const { name, type } of graph.inputs) {
    if (graph.initializers.has(name)) continue;
    if (type?.kind !== 'tensor' || type.type !== 'float32' || type.dims === undefined)
      throw new SkepError('UNSUPPORTED', `input '${name}': only float32 tensors can be made up`);
    const dims = type.dims.map((d) => (typeof d === 'number' ? d : 1));
    const n = sizeOf(dims);
    feeds.set(
      name,
      new Tensor(
        'float32',
        Float32Array.from({ length: n }, (_, i) => i / n),
        dims,
      ),
    );
  }
  return feeds;
}

/** The values in PREFIX_0.pb, PREFIX_1.pb, …, by the names they are declared under. */
function readValues(prefix: string, declared: readonly ValueInfo[]): Values {
  const values = new Map<string, HostValue>();
  for (const [i, { name, type }] of declared.entries()) {
    const file = `${prefix}_${i}.pb`;
    if (existsSync(file))
      values.set(
        name,
        within(file, () => readValueProto(readBytes(file), type?.kind ?? 'tensor')),
      );
  }
  return values;
}

function usesOperator(graph: Graph, test: (node: Node) => boolean): boolean {
  return graph.nodes.some((n) => test(n) || subgraphsOf(n).some(([, g]) => usesOperator(g, test)));
}
