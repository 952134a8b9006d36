// Where a model's time goes: milliseconds of every step of its plans, one thread, by kernel and the longest alone. Times
// are the least of several runs, a step at a time, on this thread: no peers, no queue.
//
//   node dist/bench/profile.js PATTERN… [--build plain|fma] [--steps 25] [--runs 10] [--direct] [--json]
//
// --direct: without Winograd convolutions.
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import type { Step } from '../src/compiler/plan.js';
import { type Build, defaultBuild } from '../src/kernels/module.js';
import { readModel } from '../src/onnx/reader.js';
import { LocalModel } from '../src/runtime/local.js';
import { Tensor } from '../src/tensor/tensor.js';
import { machine } from './lib/machine.js';
import { modelCases } from './lib/networks.js';
import { operatorCases } from './lib/operators.js';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    build: { type: 'string', default: defaultBuild() },
    steps: { type: 'string', default: '25' },
    runs: { type: 'string', default: '10' },
    direct: { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
  },
});
const build = values.build as Build;

interface Timed {
  readonly step: Step;
  ms: number;
}

/** The least time each step took. */
function profile(model: LocalModel, feeds: ReadonlyMap<string, Tensor>): Timed[] {
  const timed: Timed[] = [];
  for (let run = 0; run < Number(values.runs); run++) {
    const at: { readonly step: Step; readonly time: number }[] = [];
    model.run(feeds, (step) => at.push({ step, time: performance.now() }));
    const end = performance.now();
    at.forEach(({ step, time }, i) => {
      const ms = (at[i + 1]?.time ?? end) - time;
      const known = timed[i];
      if (known?.step === step) known.ms = Math.min(known.ms, ms);
      else timed[i] = { step, ms };
    });
  }
  return timed;
}

const nameOf = (step: Step) => (step.kind === 'kernel' ? step.kernel : `reference ${step.operator}`);
const rate = (flops: number, ms: number) => (flops === 0 ? '' : `${(flops / ms / 1e6).toFixed(1)} GFLOP/s`);

function shapes(step: Step): string {
  const of = (vs: Step['reads']) => vs.map((v) => v.dims.join('×')).join(' ');
  return `${of(step.reads)} → ${of(step.writes)}`;
}

if (!values.json) console.log(`${machine()}\n${build}, one thread`);
const cases = [...modelCases, ...operatorCases].filter((c) => positionals.some((p) => c.name.includes(p)));
for (const c of cases) {
  const { name, model, feeds } = c.work();
  const bytes = typeof model === 'string' ? readFileSync(model) : model;
  const tensors = Object.entries(feeds).map(([n, f]) => [n, new Tensor(f.type, f.data as never, f.dims)] as const);
  const timed = profile(new LocalModel(readModel(bytes).graph, { build, winograd: !values.direct }), new Map(tensors));
  const total = timed.reduce((sum, t) => sum + t.ms, 0);
  const kernels = new Map<string, { ms: number; flops: number; steps: number }>();
  for (const { step, ms } of timed) {
    const k = kernels.get(nameOf(step)) ?? { ms: 0, flops: 0, steps: 0 };
    kernels.set(nameOf(step), { ms: k.ms + ms, flops: k.flops + step.flops, steps: k.steps + 1 });
  }
  const byKernel = [...kernels].sort((a, b) => b[1].ms - a[1].ms);
  const longest = [...timed].sort((a, b) => b.ms - a.ms).slice(0, Number(values.steps));
  if (values.json) {
    const steps = longest.map(({ step, ms }) => ({
      kernel: nameOf(step),
      ms,
      flops: step.flops,
      shapes: shapes(step),
    }));
    console.log(JSON.stringify({ name, build, total, kernels: Object.fromEntries(kernels), steps }));
    continue;
  }
  console.log(`\n${name}: ${total.toFixed(2)} ms in ${timed.length} steps`);
  for (const [kernel, { ms, flops, steps }] of byKernel)
    console.log(
      `${((100 * ms) / total).toFixed(1).padStart(6)} % ${ms.toFixed(3).padStart(9)} ms ${kernel.padEnd(20)} ×${String(steps).padEnd(4)} ${rate(flops, ms)}`,
    );
  console.log('the longest steps:');
  for (const { step, ms } of longest)
    console.log(
      `${ms.toFixed(3).padStart(9)} ms ${nameOf(step).padEnd(18)} ${rate(step.flops, ms).padEnd(14)} ${shapes(step)}`,
    );
}
