// What pulling from the scheduler costs, live: node dist/bench/live-dispatch.js. Three figures, medians over rounds, on this
// machine as it is: what lies between two tasks of one instance (tasks of about 200 µs, nothing merged), what a lone request
// pays beyond its computing, and how much of its throughput one instance keeps while the caller's event loop is blocked
// 50 ms at a time.
import { availableParallelism, cpus, loadavg } from 'node:os';
import { GraphBuilder } from '../src/graph/builder.js';
import { defaultBuild } from '../src/kernels/module.js';
import { writeModel } from '../src/onnx/writer.js';
import { newMemory } from '../src/runtime/memory.js';
import { Host } from '../src/serving/host.js';
import { prepareKernels } from '../src/serving/prepare.js';
import { Tensor } from '../src/tensor/tensor.js';

const ROUNDS = 7;
const WIDTH = 256;

function layers(count: number): SharedArrayBuffer {
  const g = new GraphBuilder('layers');
  let y = g.input('x', 'float32', ['batch', WIDTH]);
  for (let i = 0; i < count; i++) y = g.matmul(y, g.weights([WIDTH, WIDTH]));
  g.output('y', y);
  const bytes = writeModel(g.model());
  const shared = new SharedArrayBuffer(bytes.length);
  new Uint8Array(shared).set(bytes);
  return shared;
}

const x = new Tensor('float32', new Float32Array(WIDTH).fill(0.01), [1, WIDTH]);
const clock = () => performance.timeOrigin + performance.now();
const sorted = (xs: readonly number[]) => [...xs].sort((a, b) => a - b);
const median = (xs: readonly number[]) => sorted(xs)[Math.floor(xs.length / 2)]!;
const micro = (ms: number) => `${(ms * 1000).toFixed(1)} µs`;

/** When a request was taken and finished by its instance, and when the caller had the answer. */
interface Times {
  readonly submitted: number;
  readonly taken: number;
  readonly finished: number;
  readonly answered: number;
}

function request(host: Host): Promise<Times> {
  return new Promise((resolve, reject) => {
    const submitted = clock();
    host.submit([x], [0], (outcome) => {
      if (outcome.status === 'failed') return reject(outcome.error);
      const taken = submitted + outcome.timing.queued;
      resolve({ submitted, taken, finished: taken + outcome.timing.computing, answered: clock() });
    });
  });
}

const burst = async (host: Host, count: number) =>
  (await Promise.all(Array.from({ length: count }, () => request(host)))).sort((a, b) => a.taken - b.taken);

const computing = (times: readonly Times[]) => times.map((t) => t.finished - t.taken);
/** From the end of one task to the start of the next, where requests are always waiting. */
const gaps = (times: readonly Times[]) => times.slice(1).map((t, i) => t.taken - times[i]!.finished);

/**
 * Requests per millisecond of one instance with a deep queue, and the share of the time that it computes; `blocked`: the
 * caller's loop runs once in 50 ms.
 */
async function throughput(
  host: Host,
  milliseconds: number,
  blocked: boolean,
): Promise<{ rate: number; busy: number; gap: number }> {
  const all: Promise<Times>[] = [];
  const begun = clock();
  const depth = 1500;
  let pending = 0;
  const send = () => {
    while (pending < depth) {
      pending++;
      all.push(request(host).finally(() => pending--));
    }
  };
  while (clock() - begun < milliseconds) {
    send();
    const until = clock() + 50;
    if (blocked) while (clock() < until);
    await new Promise((resolve) => setTimeout(resolve, blocked ? 0 : 5));
  }
  const times = (await Promise.all(all)).sort((a, b) => a.taken - b.taken);
  const span = times.at(-1)!.finished - times[0]!.taken;
  return { rate: times.length / span, busy: computing(times).reduce((a, b) => a + b) / span, gap: median(gaps(times)) };
}

const build = defaultBuild();
const kernels = prepareKernels(build, false);
const source = { kind: 'bytes', bytes: layers(36) } as const;
const memory = { memory: newMemory(), stagingBytes: 0 };
const options = {
  build,
  kernels,
  groups: [{ instances: 1, threads: 1, batch: 1 }],
  threads: 1,
  weights: 'float32' as const,
  winograd: false,
  maxQueue: 4000,
  memory,
};
const { host } = await Host.start(source, options);
console.log(
  `${cpus()[0]?.model}, ${availableParallelism()} cores, Node ${process.version}, load ${loadavg()[0]!.toFixed(1)}`,
);
await burst(host, 500);

const between: number[] = [];
const cells: number[] = [];
for (let i = 0; i < ROUNDS; i++) {
  const times = await burst(host, 1000);
  between.push(median(gaps(times)));
  cells.push(median(computing(times)));
}
console.log(`between two tasks of ${micro(median(cells))}: ${micro(median(between))} (at most 15 wanted)`);

const added: number[] = [];
for (let i = 0; i < 300; i++) {
  const { submitted, taken, finished, answered } = await request(host);
  added.push(answered - submitted - (finished - taken));
}
console.log(
  `added to a lone request: p50 ${micro(median(added))}, p90 ${micro(sorted(added)[270]!)} (p50 at most 250 wanted)`,
);

const kept: number[] = [];
const busy: number[] = [];
const unwoken: number[] = [];
for (let i = 0; i < ROUNDS; i++) {
  const free = await throughput(host, 500, false);
  const blocked = await throughput(host, 500, true);
  kept.push(blocked.rate / free.rate);
  busy.push(blocked.busy);
  unwoken.push(blocked.gap);
}
const rounds = kept.map((k) => k.toFixed(2)).join(' ');
console.log(
  `with the event loop blocked, throughput kept: ${median(kept).toFixed(2)} (at least 0.85 wanted; ${rounds})`,
);
console.log(`  between two tasks, nobody being woken: ${micro(median(unwoken))}`);
console.log(
  `  the instance computes ${(100 * median(busy)).toFixed(0)} % of the time; the blocking thread needs a core of its own`,
);
await host.close();
