// Real and synthetic models against outputs recorded from another runtime: with kernels, in every build this machine can
// run, fused and not; with the reference semantics too where that takes seconds (SKEP_SLOW=1: everywhere). What cannot
// be tried is printed with the reason.
import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type Graph, subgraphsOf } from '../../src/graph/graph.js';
import type { Build } from '../../src/kernels/module.js';
import { readModel } from '../../src/onnx/reader.js';
import { interpret } from '../../src/operators/evaluate.js';
import type { HostValue } from '../../src/operators/operator.js';
import { findOperator } from '../../src/operators/registry.js';
import { SkepError } from '../../src/tensor/errors.js';
import { Tensor } from '../../src/tensor/tensor.js';
import { readTensorProto } from '../../src/tensor/tensor-proto.js';
import { readArchive } from '../archive.js';
import { dataFolder, hasData, root } from '../data.js';
import { assertClose, builds, GraphRunner } from '../operators/harness.js';

interface Generated {
  readonly dims: readonly number[];
  readonly sha256raw: string;
}

interface Golden {
  readonly id: string;
  readonly model: { readonly package?: string; readonly path?: string; readonly sha256: string };
  readonly file?: string;
  readonly reseed?: string;
  readonly state: Readonly<Record<string, string>>;
  readonly constant?: readonly string[];
  readonly rtol: number;
  readonly atol: number;
  readonly steps: readonly {
    readonly inputs: Readonly<Record<string, string | Generated>>;
    readonly outputs: Readonly<Record<string, string>>;
  }[];
}

interface Tools {
  reseed(bytes: Uint8Array): Uint8Array;
  rng(seed: number): () => number;
}

/** Models whose reference run takes long: minutes of plain loops. */
const slowReference = /ppocr|ultraface|reseed/;

const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex');

let archive: Map<string, Uint8Array> | undefined;
const toolsFile = path.join(dataFolder, '../tools/gen-models.mjs');
const tools = existsSync(toolsFile) ? ((await import(pathToFileURL(toolsFile).href)) as Tools) : undefined;

/** Packages that ship a file of another package's, byte for byte. */
const sameFile: Readonly<Record<string, string>> = {
  '@livekit/agents-plugin-silero/dist/silero_vad.onnx': '@ricky0123/vad-web/dist/silero_vad_v6.onnx',
};

/** Where packages that bring models are: ours, and SKEP_MODELS for those that are no dependency. */
const folders = [path.join(root, 'node_modules'), ...(process.env.SKEP_MODELS ? [process.env.SKEP_MODELS] : [])];

/** The model's bytes, or why they are not there. */
function bytesOfModel(golden: Golden): Uint8Array | string {
  let bytes: Uint8Array;
  if (golden.file !== undefined) bytes = readFileSync(path.join(dataFolder, golden.file));
  else if (golden.reseed !== undefined) {
    if (tools === undefined) return `${toolsFile} is not there`;
    archive ??= readArchive(path.join(dataFolder, 'onnx-cases.tar.gz'));
    bytes = tools.reseed(Buffer.from(archive.get(golden.reseed)!));
  } else {
    const file = `${golden.model.package}/${golden.model.path}`;
    const found = [file, sameFile[file] ?? file]
      .flatMap((f) => folders.map((folder) => path.join(folder, f)))
      .find((f) => existsSync(f));
    if (found === undefined) return `the package ${golden.model.package} is not installed`;
    bytes = readFileSync(found);
  }
  assert.is(sha256(bytes), golden.model.sha256, `${golden.id}: the model's bytes`);
  return bytes;
}

/** Operators of a graph that Skep lacks. */
function missing(graph: Graph): Set<string> {
  const names = new Set<string>();
  for (const node of graph.nodes) {
    try {
      findOperator(node);
    } catch (error) {
      if (!(error instanceof SkepError)) throw error;
      names.add(node.op);
    }
    for (const [, g] of subgraphsOf(node)) for (const n of missing(g)) names.add(n);
  }
  return names;
}

/** Operators that run their reference in a model, exactly these: a kernel that comes takes its entry away. */
const withoutKernel: Readonly<Record<string, readonly string[]>> = {
  // The pooling kernel is of float32; here it pools uint8.
  syn_qcnn_qop: ['MaxPool'],
};

type Run = (feeds: ReadonlyMap<string, HostValue>) => ReadonlyMap<string, HostValue>;

function runSteps(golden: Golden, run: Run): void {
  const tensor = (file: string) =>
    readTensorProto(readFileSync(path.join(dataFolder, 'golden', golden.id, file))).tensor;
  const feeds = new Map<string, HostValue>();
  let before: ReadonlyMap<string, HostValue> = new Map();
  golden.steps.forEach((step, i) => {
    for (const [name, output] of Object.entries(golden.state)) if (i > 0) feeds.set(name, before.get(output)!);
    for (const [name, from] of Object.entries(step.inputs))
      feeds.set(name, typeof from === 'string' ? tensor(from) : generated(from));
    before = run(feeds);
    for (const [name, file] of Object.entries(step.outputs))
      assertClose(before.get(name)!, tensor(file), golden, `${golden.id} step ${i} ${name}`);
  });
}

function generated({ dims, sha256raw }: Generated): Tensor {
  const random = tools!.rng(5);
  const data = new Float32Array(dims.reduce((a, b) => a * b, 1));
  for (let i = 0; i < data.length; i++) data[i] = 2 * random() - 1;
  assert.is(sha256(new Uint8Array(data.buffer)), sha256raw);
  return new Tensor('float32', data, dims);
}

/** Runs a graph on kernels, keeping its plans and weights between calls. Only the steps listed may fall back. */
function compiled(id: string, graph: Graph, build: Build, fuse: boolean): Run {
  const runner = new GraphRunner(graph, build, { fuse });
  return (feeds) => {
    const { outputs, references } = runner.run(feeds);
    assert.equal([...new Set(references)], withoutKernel[id] ?? [], 'operators without a kernel');
    return outputs;
  };
}

if (hasData) {
  const manifest = JSON.parse(readFileSync(path.join(dataFolder, 'golden/manifest.json'), 'utf8')) as {
    readonly models: readonly Golden[];
  };
  const only = process.env.SKEP_GOLDEN;
  for (const golden of manifest.models) {
    if (only !== undefined && !golden.id.includes(only)) continue;
    const bytes = bytesOfModel(golden);
    if (typeof bytes === 'string') {
      console.log(`SKIPPED ${golden.id}: ${bytes}`);
      continue;
    }
    const { graph } = readModel(bytes);
    const lacking = missing(graph);
    if (lacking.size > 0) {
      console.log(`SKIPPED ${golden.id}: no ${[...lacking].join(', ')}`);
      continue;
    }
    for (const build of builds) {
      test(`${golden.id} on ${build} kernels`, () => runSteps(golden, compiled(golden.id, graph, build, true)));
      test(`${golden.id} on ${build} kernels, unfused`, () =>
        runSteps(golden, compiled(golden.id, graph, build, false)));
    }
    if (!slowReference.test(golden.id) || process.env.SKEP_SLOW === '1')
      test(`${golden.id} by the reference`, () => runSteps(golden, (feeds) => interpret(graph, feeds)));
    else console.log(`SKIPPED ${golden.id} by the reference: slow; SKEP_SLOW=1 runs it`);
  }
}
test('the golden models are visible or skipped', () => {});
test.run();
