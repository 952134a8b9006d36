// ONNX test folders: a case is a folder with model.onnx and test_data_set_N/{input,output}_M.pb. Finding them, and running
// one. A case passes when every output of every data set agrees; it is unsupported when Skep says so of its model.
import { existsSync, readdirSync, statSync } from 'node:fs';
import path from 'node:path';
import { type Graph, type Model, type Node, subgraphsOf, type ValueInfo } from '../graph/graph.js';
import type { HostValue } from '../operators/operator.js';
import { LocalModel, type LocalOptions } from '../runtime/local.js';
import { SkepError } from '../tensor/errors.js';
import { readValueProto } from '../tensor/sequence-proto.js';
import { difference, type Tolerance } from './compare.js';
import { readBytes, readModelFile, within } from './files.js';

export interface TestCase {
  /** The folder relative to where the search began: `node/test_abs`. */
  readonly name: string;
  readonly folder: string;
}

export interface CaseResult {
  readonly name: string;
  readonly status: 'pass' | 'fail' | 'unsupported';
  /** '' for a pass. */
  readonly why: string;
}

/** The cases under a folder, or the one it is, by name. */
export function findCases(root: string): TestCase[] {
  if (!existsSync(root) || !statSync(root).isDirectory())
    throw new SkepError('INVALID_INPUT', `${root}: there is no such folder`);
  if (existsSync(path.join(root, 'model.onnx'))) return [{ name: path.basename(path.resolve(root)), folder: root }];
  const found: TestCase[] = [];
  const visit = (folder: string, name: string) => {
    const entries = readdirSync(folder, { withFileTypes: true });
    if (name !== '' && entries.some((e) => e.name === 'model.onnx')) found.push({ name, folder });
    else
      for (const e of entries)
        if (e.isDirectory()) visit(path.join(folder, e.name), name === '' ? e.name : `${name}/${e.name}`);
  };
  visit(root, '');
  return found.sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** Upstream's tolerance, and what DFT and STFT need, whose results are compared near zero. */
export const tolerances = { usual: { rtol: 1e-3, atol: 1e-7 }, fourier: { rtol: 1e-3, atol: 1e-3 } };

/** Runs a case. Never throws for what is wrong with it. `tolerance` overrides the usual one. */
export function runCase({ name, folder }: TestCase, options: LocalOptions, tolerance?: Tolerance): CaseResult {
  try {
    const why = checkCase(folder, options, tolerance);
    return { name, status: why === undefined ? 'pass' : 'fail', why: why ?? '' };
  } catch (error) {
    const status = error instanceof SkepError && error.code === 'UNSUPPORTED' ? 'unsupported' : 'fail';
    if (error instanceof SkepError) return { name, status, why: error.message };
    return { name, status, why: error instanceof Error ? (error.stack ?? error.message) : String(error) };
  }
}

function checkCase(folder: string, options: LocalOptions, given: Tolerance | undefined): string | undefined {
  const source = readModelFile(path.join(folder, 'model.onnx'));
  const model = new LocalModel(source.graph, options);
  const fourier = usesOperator(source.graph, (n) => n.op === 'DFT' || n.op === 'STFT');
  const tolerance = given ?? (fourier ? tolerances.fourier : tolerances.usual);
  const sets = readdirSync(folder).filter((f) => /^test_data_set_\d+$/.test(f));
  sets.sort((a, b) => Number(a.slice(14)) - Number(b.slice(14)));
  if (sets.length === 0) return 'has no test_data_set_N';
  for (const set of sets) {
    const why = checkSet(model, source, path.join(folder, set), tolerance);
    if (why !== undefined) return sets.length === 1 ? why : `${set}: ${why}`;
  }
  return undefined;
}

function checkSet(model: LocalModel, { graph }: Model, folder: string, tolerance: Tolerance): string | undefined {
  // Files are numbered as the model's inputs are, those that an initializer gives as a default left out or not.
  const feeds = readSet(folder, 'input', graph.inputs);
  const wanted = readSet(folder, 'output', graph.outputs);
  if (wanted.size === 0) return 'has no output_N.pb to compare with';
  const outputs = model.run(feeds);
  for (const [name, want] of wanted) {
    const why = difference(outputs.get(name), want, tolerance);
    if (why !== undefined) return `output '${name}': ${why}`;
  }
  return undefined;
}

function readSet(folder: string, what: 'input' | 'output', declared: readonly ValueInfo[]): Map<string, HostValue> {
  const values = new Map<string, HostValue>();
  for (const [i, { name, type }] of declared.entries()) {
    const file = path.join(folder, `${what}_${i}.pb`);
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
