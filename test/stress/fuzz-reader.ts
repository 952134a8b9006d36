// Reads mutated models by the hundred thousand: `node dist/test/stress/fuzz-reader.js [FILES] [SEED]`. Exits 1 at the
// first file that is neither loaded nor refused in words, takes longer than ten seconds (a hang), or leaves the process above its
// memory bound; prints the seed and the number of the file, which make it again.
import { writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Random } from '../../src/graph/random.js';
import { judge, mutate, seeds } from '../onnx/fuzz.js';

const files = Number(process.argv[2] ?? 100_000);
const seed = Number(process.argv[3] ?? 1);
const MEMORY = 1024 * 2 ** 20;
const SLOW = 10_000;

const models = seeds();
const count = { loaded: 0, refused: 0 };
let slowest = 0;
let peak = 0;
const started = performance.now();
for (let i = 0; i < files; i++) {
  // A generator of its own for each file, so that any one can be made again.
  const bytes = mutate(new Random(seed * 2 ** 32 + i), models[i % models.length]!, models);
  const fail = (why: string, error?: unknown): never => {
    const kept = path.join(tmpdir(), `fuzz-${seed}-${i}.onnx`);
    writeFileSync(kept, bytes);
    console.error(`file ${i} of seed ${seed}: ${why}; kept as ${kept}`);
    if (error !== undefined) console.error(error);
    process.exit(1);
  };
  const from = performance.now();
  try {
    count[judge(bytes)]++;
  } catch (error) {
    fail('neither loaded nor refused', error);
  }
  const took = performance.now() - from;
  slowest = Math.max(slowest, took);
  if (took > SLOW) fail(`took ${took.toFixed(0)} ms`);
  if (i % 256 === 0) {
    peak = Math.max(peak, process.memoryUsage.rss());
    if (peak > MEMORY) fail(`the process takes ${(peak / 2 ** 20).toFixed(0)} MiB`);
  }
  if (i % 10_000 === 9_999) console.log(`${i + 1} files, ${count.loaded} loaded, ${count.refused} refused`);
}
console.log(
  `${files} mutated models in ${((performance.now() - started) / 1000).toFixed(1)} s: ${count.loaded} loaded, ` +
    `${count.refused} refused; slowest ${slowest.toFixed(0)} ms, peak ${(peak / 2 ** 20).toFixed(0)} MiB`,
);
