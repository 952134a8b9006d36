// Every network of models/ in Skep and in onnxruntime-web, the same file and the same inputs: how far the answers differ,
// how long a warm run takes, what fell back to the reference, and which operators take the time. A case is run in a
// process of its own, for neither engine gives memory back. Exit code 1 when answers differ by more than rounding.
//
//   npm ci --prefix bench && npm run build
//   node dist/bench/agreement.js [NAME…] [--size tiny|small|paper]… [--opset N] [--json]
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { parseArgs, promisify } from 'node:util';
import { networks } from '../models/index.js';
import { type Size, sizes } from '../models/network.js';
import { writeModel } from '../src/onnx/writer.js';
import { LocalModel } from '../src/runtime/local.js';
import type { Tensor } from '../src/tensor/tensor.js';
import { machine } from './lib/machine.js';
import { onnxruntimeWeb } from './lib/peers.js';

/** Sizes of the symbolic axes. At the paper's size one request. */
const axes: Readonly<Record<Size, Readonly<Record<string, number>>>> = {
  tiny: { batch: 3, sequence: 5, source: 6, past: 3, children: 3 },
  small: { batch: 4, sequence: 24, source: 24, past: 8, children: 3 },
  paper: { batch: 1, sequence: 128, source: 24, past: 32, children: 3 },
};

/** The most two engines may differ, in parts of an output's largest number: sums of thousands, rounded in other orders. */
const TOLERANCE = 1e-4;

interface Outcome {
  readonly name: string;
  readonly size: Size;
  /** The largest difference, and the same in parts of the output's largest number. */
  readonly absolute: number;
  readonly relative: number;
  /** Milliseconds of the best warm run. */
  readonly skep: number;
  readonly peer: number;
  /** Steps of the plan that ran the reference, by operator. */
  readonly references: readonly string[];
  /** Operators by their part of the time, the most first. */
  readonly slowest: readonly string[];
}

async function compare(name: string, size: Size, opset: number): Promise<Outcome> {
  const network = networks.get(name)!;
  const model = network.build({ size, opset });
  const feeds = network.feeds(model, axes[size], { size });
  const ort = await onnxruntimeWeb(1);
  const session = await ort.InferenceSession.create(writeModel(model));
  const theirs = Object.fromEntries([...feeds].map(([n, t]) => [n, new ort.Tensor(t.type, t.data, t.dims)]));
  const want = await session.run(theirs);
  const local = new LocalModel(model.graph);
  const references: string[] = [];
  const got = local.run(feeds, (step) => {
    if (step.kind === 'reference') references.push(step.operator);
  });
  let absolute = 0;
  let relative = 0;
  for (const [output, value] of got) {
    const difference = apart(value as Tensor, want[output]!);
    absolute = Math.max(absolute, difference.absolute);
    relative = Math.max(relative, difference.relative);
  }
  const rounds = size === 'paper' ? 3 : 10;
  let skep = Number.POSITIVE_INFINITY;
  let peer = Number.POSITIVE_INFINITY;
  let times = new Map<string, number>();
  for (let i = 0; i < rounds; i++) {
    const found = new Map<string, number>();
    const started = performance.now();
    let last = { operator: '(start)', at: started };
    const pass = (operator: string) => {
      const now = performance.now();
      found.set(last.operator, (found.get(last.operator) ?? 0) + now - last.at);
      last = { operator, at: now };
    };
    local.run(feeds, (step) => pass(step.operator));
    pass('');
    const took = performance.now() - started;
    if (took < skep) times = found;
    skep = Math.min(skep, took);
    const began = performance.now();
    await session.run(theirs);
    peer = Math.min(peer, performance.now() - began);
  }
  const slowest = [...times]
    .sort((a, b) => b[1] - a[1])
    .slice(0, 5)
    .map(([operator, ms]) => `${operator} ${((100 * ms) / skep).toFixed(0)} %`);
  return { name, size, absolute, relative, skep, peer, references, slowest };
}

function apart(got: Tensor, want: { readonly data: ArrayLike<number>; readonly dims: readonly number[] }) {
  let absolute = `${got.dims}` === `${want.dims}` ? 0 : Number.POSITIVE_INFINITY;
  let most = 0;
  for (let i = 0; i < want.data.length; i++) {
    const w = Number(want.data[i]);
    const difference = Math.abs(Number(got.data[i]) - w);
    // NaN is a difference too.
    if (!(difference <= absolute)) absolute = Number.isNaN(difference) ? Number.POSITIVE_INFINITY : difference;
    most = Math.max(most, Math.abs(w));
  }
  return { absolute, relative: absolute === 0 ? 0 : absolute / most };
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    size: { type: 'string', multiple: true },
    opset: { type: 'string' },
    json: { type: 'boolean' },
    here: { type: 'boolean' },
  },
});
const opset = Number(values.opset ?? 20);
const wanted = (values.size ?? ['tiny']) as Size[];
const unknown = [...positionals.filter((n) => !networks.has(n)), ...wanted.filter((s) => !sizes.includes(s))];
if (unknown.length > 0) throw new Error(`unknown: ${unknown.join(', ')}`);

if (values.here === true) console.log(JSON.stringify(await compare(positionals[0]!, wanted[0]!, opset)));
else {
  if (values.json !== true) console.log(machine());
  const outcomes: Outcome[] = [];
  let failed = 0;
  for (const size of wanted)
    for (const name of positionals.length > 0 ? positionals : networks.keys()) {
      const words = [fileURLToPath(import.meta.url), name, '--size', size, '--opset', `${opset}`, '--here'];
      try {
        const { stdout } = await promisify(execFile)(process.execPath, words, { maxBuffer: 1 << 26 });
        const o = JSON.parse(stdout.trim().split('\n').at(-1)!) as Outcome;
        // JSON writes infinity as null.
        const agrees = o.relative !== null && o.relative <= TOLERANCE;
        if (!agrees) failed++;
        outcomes.push(o);
        if (values.json !== true) printOutcome(o, agrees);
      } catch (error) {
        failed++;
        console.log(`FAILED  ${name} ${size}: ${(error as Error).message.slice(0, 1500)}`);
      }
    }
  if (values.json === true) console.log(JSON.stringify({ machine: machine(), outcomes, failed }, null, 2));
  else console.log(failed === 0 ? 'all agree' : `${failed} do not agree`);
  process.exitCode = failed === 0 ? 0 : 1;
}

function printOutcome(o: Outcome, agrees: boolean): void {
  const differences = `abs ${o.absolute?.toExponential(1)} rel ${o.relative?.toExponential(1)}`;
  const times = `skep ${o.skep.toFixed(2)} ms, onnxruntime-web ${o.peer.toFixed(2)} ms (${(o.peer / o.skep).toFixed(2)}×)`;
  console.log(`${agrees ? 'agrees' : 'DIFFERS'}  ${o.name} ${o.size}: ${differences}; ${times}`);
  if (o.references.length > 0) console.log(`        by the reference: ${[...new Set(o.references)].join(', ')}`);
  console.log(`        ${o.slowest.join(', ')}`);
}
