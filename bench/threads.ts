// What a second thread of one instance brings, beside what a second core brings at all: two independent copies of one
// thread each, running at once, are the control of the same round. Its speed-up is that of work that shares nothing.
//
//   node dist/bench/threads.js [--rounds 15] [--build plain|fma] [--json]
import { parseArgs } from 'node:util';
import { Engine, type Model, Tensor } from '../src/index.js';
import { machine, median } from './lib/machine.js';
import { modelCases } from './lib/networks.js';
import { operatorCases } from './lib/operators.js';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '15' },
    build: { type: 'string' },
    json: { type: 'boolean', default: false },
  },
});

/** What threads.js prints with --json; medians over rounds. */
export interface ThreadsResult {
  readonly suite: 'threads';
  readonly machine: string;
  readonly date: string;
  readonly cases: readonly {
    readonly name: string;
    /** One thread's time over two threads'; the same of two copies; the one over the other. */
    readonly speedup: number;
    readonly control: number;
    readonly ratio: number;
  }[];
}

const BURST = 40;
const engine = new Engine({
  threads: 2,
  ...(values.build !== undefined && { build: values.build as 'plain' | 'fma' }),
});
const cases: ThreadsResult['cases'][number][] = [];
if (!values.json) console.log(`${machine()}\n${engine.build}\n`);
for (const key of ['gemm 512', 'ResNet-50', 'PP-OCR det 640']) {
  const { name, model, feeds } = [...operatorCases, ...modelCases].find((c) => c.name === key)!.work();
  const load = (threads: number) => engine.load(model, { configuration: [{ instances: 1, threads, batch: 1 }] });
  const run = (m: Model) =>
    m.run(Object.fromEntries(Object.entries(feeds).map(([n, f]) => [n, new Tensor(f.type, f.data as never, f.dims)])));
  const [one, other, both] = (await Promise.all([load(1), load(1), load(2)])) as [Model, Model, Model];
  const burst = async (models: readonly Model[], calls: number) => {
    const start = performance.now();
    await Promise.all(
      models.map(async (m) => {
        for (let i = 0; i < calls; i++) await run(m);
      }),
    );
    return (performance.now() - start) / calls;
  };
  for (const m of [one, other, both]) await burst([m], 2);
  const calls = Math.max(1, Math.round(BURST / (await burst([one], 1))));
  const speedups: number[] = [];
  const controls: number[] = [];
  const ratios: number[] = [];
  for (let round = 0; round < Number(values.rounds); round++) {
    const alone = await burst([one], calls);
    const two = await burst([both], calls);
    const copies = await burst([one, other], calls);
    const speedup = alone / two;
    const control = (2 * alone) / copies;
    speedups.push(speedup);
    controls.push(control);
    ratios.push(speedup / control);
  }
  for (const m of [one, other, both]) await m.close();
  const found = { name, speedup: median(speedups), control: median(controls), ratio: median(ratios) };
  cases.push(found);
  if (!values.json)
    console.log(
      `${name.padEnd(28)} two threads ×${found.speedup.toFixed(2)}, two copies ×${found.control.toFixed(2)}, ratio ${found.ratio.toFixed(2)}`,
    );
}
await engine.close();
if (values.json) {
  const result: ThreadsResult = {
    suite: 'threads',
    machine: machine(),
    date: new Date().toISOString().slice(0, 10),
    cases,
  };
  console.log(JSON.stringify(result, null, 1));
}
