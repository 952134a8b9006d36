// One engine, one model, one new process: what it takes from nothing to the first answer, and the most memory it held.
// Started by start.ts, which gives the model's path and the case's name; prints one line of JSON.
import { readFileSync } from 'node:fs';
import type { Feed } from './engines.js';
import { onnxruntimeNode, onnxruntimeWeb } from './peers.js';

/** What a child found, milliseconds and bytes. */
export interface Start {
  /** Importing the engine, loading the model, the first run. */
  readonly import: number;
  readonly load: number;
  readonly first: number;
  /** The median of the runs after it. */
  readonly warm: number;
  readonly peakBytes: number;
}

type Run = () => Promise<unknown>;

/** How an engine is imported; gives how it loads a model; gives how that runs. */
const engines: Readonly<Record<string, () => Promise<(model: string, feeds: Record<string, Feed>) => Promise<Run>>>> = {
  async skep() {
    const { Engine, Tensor } = await import('../../src/index.js');
    return async (path, feeds) => {
      const model = await new Engine({ threads: 1 }).load(path);
      return () =>
        model.run(
          Object.fromEntries(Object.entries(feeds).map(([n, f]) => [n, new Tensor(f.type, f.data as never, f.dims)])),
        );
    };
  },
  async web() {
    return ortRun((await onnxruntimeWeb(1))!);
  },
  async node() {
    return ortRun((await onnxruntimeNode())!);
  },
};

function ortRun(ort: NonNullable<Awaited<ReturnType<typeof onnxruntimeNode>>>) {
  return async (path: string, feeds: Record<string, Feed>): Promise<Run> => {
    const options = { intraOpNumThreads: 1, interOpNumThreads: 1, logSeverityLevel: 3 };
    const session = await ort.InferenceSession.create(readFileSync(path), options);
    return () =>
      session.run(
        Object.fromEntries(Object.entries(feeds).map(([n, f]) => [n, new ort.Tensor(f.type, f.data, f.dims)])),
      );
  };
}

const [engine, path, name, dims, runs] = process.argv.slice(2) as [string, string, string, string, string];
const shape = dims.split(',').map(Number);
const size = shape.reduce((a, b) => a * b, 1);
const feed: Feed = { type: 'float32', data: Float32Array.from({ length: size }, (_, i) => Math.sin(i)), dims: shape };
const begin = performance.now();
const load = await engines[engine]!();
const imported = performance.now();
const run = await load(path, { [name]: feed });
const loaded = performance.now();
await run();
const first = performance.now();
const times: number[] = [];
for (let i = 0; i < Number(runs); i++) {
  const start = performance.now();
  await run();
  times.push(performance.now() - start);
}
times.sort((a, b) => a - b);
const found: Start = {
  import: imported - begin,
  load: loaded - imported,
  first: first - loaded,
  warm: times[times.length >> 1] ?? first - loaded,
  peakBytes: process.resourceUsage().maxRSS * 1024,
};
console.log(JSON.stringify(found));
process.exit(0);
