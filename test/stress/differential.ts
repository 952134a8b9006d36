// Random valid nodes of every operator, run by the reference, by the kernels of every build and by onnxruntime-web where
// it is installed (`npm ci --prefix bench`): `node dist/test/stress/differential.js [--runs 200] [--seed 1] [--op NAME]
// [--invalid]`. Prints operator × runs × answers of the oracle × divergences, the first of each kind in full, and exits 1
// when there are any. A case is made again by its operator, seed and number. With --invalid nodes are damaged first, and
// what is asked of Skep is an answer that its engines agree on or a refusal in words.
import { parseArgs } from 'node:util';
import type { HostValue } from '../../src/operators/operator.js';
import { allOperators } from '../../src/operators/registry.js';
import { SkepError } from '../../src/tensor/errors.js';
import { Tensor } from '../../src/tensor/tensor.js';
import { assertClose, builds, type NodeTest, runKernels, runReference } from '../operators/harness.js';
import { damage } from './differential/damage.js';
import { exceptions } from './differential/exceptions.js';
import { families } from './differential/families.js';
import { type Case, Generator } from './differential/generator.js';
import { questionOf } from './differential/model.js';
import { isInstalled, Oracle } from './differential/oracle.js';

const { values: flags } = parseArgs({
  options: {
    runs: { type: 'string', default: '100' },
    seed: { type: 'string', default: '1' },
    op: { type: 'string' },
    case: { type: 'string' },
    invalid: { type: 'boolean', default: false },
    lenient: { type: 'boolean', default: false },
    full: { type: 'boolean', default: false },
  },
});
const runs = Number(flags.runs);
const seed = Number(flags.seed);
/** The newest operator set that the oracle knows. */
const NEWEST = 26;

type Result = { readonly outputs: readonly HostValue[] } | { readonly error: unknown };

function attempt(run: () => readonly HostValue[]): Result {
  try {
    return { outputs: run() };
  } catch (error) {
    return { error };
  }
}

function difference(got: readonly HostValue[], want: readonly HostValue[], c: Case): string | undefined {
  try {
    want.forEach((w, i) => {
      if (c.shapeOnly) {
        const [a, b] = [got[i] as Tensor, w as Tensor];
        if (a.type !== b.type || String(a.dims) !== String(b.dims))
          throw new Error(`output ${i}: got ${a.type} [${a.dims}], want ${b.type} [${b.dims}]`);
        return;
      }
      let { rtol = 1e-5, atol = 1e-6 } = c;
      if (w instanceof Tensor && w.type === 'float16') {
        rtol = Math.max(rtol, 4e-3);
        atol = Math.max(atol, 2e-3);
      }
      assertClose(got[i]!, w, { rtol, atol }, `output ${i}`);
    });
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

/** A refusal that says what is wrong, where. */
function inWords(error: unknown): boolean {
  return error instanceof SkepError && ['INVALID_MODEL', 'UNSUPPORTED', 'INVALID_INPUT'].includes(error.code);
}

interface Finding {
  readonly kind: string;
  readonly text: string;
}

function show(t: HostValue | undefined): string {
  if (t === undefined) return '-';
  if (!(t instanceof Tensor)) return JSON.stringify(t);
  const n = flags.full ? 1e6 : 24;
  const data =
    t.type === 'string'
      ? JSON.stringify(t.data.slice(0, n))
      : Array.from(t.data as Float32Array)
          .slice(0, n)
          .join(' ');
  return `${t.type}[${t.dims}] ${data}`;
}

function describe(c: NodeTest): string {
  const attrs = Object.entries(c.attributes ?? {}).map(
    ([k, a]) => `${k}=${a.kind === 'graph' ? '…' : a.kind === 'tensor' ? show(a.value) : JSON.stringify(a.value)}`,
  );
  return `${c.op} opset ${c.opset} {${attrs.join(', ')}} ${c.outputs ?? 1} outputs, constants [${c.constants ?? []}]\n${c.inputs.map((x, i) => `      x${i} ${show(x)}`).join('\n')}`;
}

const oracle = isInstalled() ? new Oracle() : undefined;
if (oracle === undefined) console.log('onnxruntime-web is not installed (npm ci --prefix bench): Skep alone');
let answered = 0;
let lenient = 0;

async function judge(c: Case): Promise<Finding[]> {
  const found: Finding[] = [];
  const reference = attempt(() => runReference(c));
  if ('error' in reference && !inWords(reference.error))
    found.push({ kind: 'the reference fails', text: String((reference.error as Error)?.stack) });
  for (const build of builds) {
    const kernels = attempt(() => runKernels(c, build).outputs);
    if ('error' in kernels) {
      if (!inWords(kernels.error))
        found.push({ kind: `${build} kernels fail`, text: String((kernels.error as Error)?.stack) });
      else if (!('error' in reference)) found.push({ kind: `${build} kernels refuse`, text: String(kernels.error) });
    } else if ('error' in reference)
      found.push({ kind: `only ${build} kernels answer`, text: String(reference.error) });
    else {
      const d = difference(kernels.outputs, reference.outputs, c);
      if (d !== undefined) found.push({ kind: `${build} kernels differ from the reference`, text: d });
    }
  }
  if (oracle === undefined || (flags.invalid && !flags.lenient)) return found;
  if (flags.invalid && 'error' in reference) return found;
  let question: ReturnType<typeof questionOf>;
  try {
    question = questionOf(
      c,
      'error' in reference ? new Array<HostValue>(c.outputs ?? 1).fill(null) : reference.outputs,
    );
  } catch (error) {
    if (flags.invalid) return found;
    throw error;
  }
  const answer = await oracle.ask(question.bytes, question.feeds);
  if ('error' in answer) {
    if (/NOT_IMPLEMENTED|Could not find an impl|not implemented|ShapeInferenceError.*opset|crash/i.test(answer.error))
      return found;
    if (!('error' in reference)) {
      lenient++;
      if (flags.lenient)
        found.push({
          kind: 'the oracle refuses',
          text: `${answer.error}\n      skep: ${reference.outputs.map(show).join(' | ')}`,
        });
    }
    return found;
  }
  answered++;
  if (flags.invalid) return found;
  if ('error' in reference) {
    found.push({ kind: 'refused', text: String(reference.error) });
    return found;
  }
  const want = question.collect(answer.outputs);
  const d = difference(reference.outputs, want, c);
  if (d !== undefined)
    found.push({
      kind: 'differs from the oracle',
      text: `${d}\n      skep ${reference.outputs.map(show).join(' | ')}\n      ort  ${want.map(show).join(' | ')}`,
    });
  return found;
}

let total = 0;
for (const op of allOperators()) {
  const name = op.domain === '' ? op.name : `${op.domain}:${op.name}`;
  const make = families[name];
  // Those of domain skep are what fusion makes of the others.
  if (op.domain === 'skep' || (flags.op !== undefined && !flags.op.split(',').includes(name))) continue;
  if (make === undefined) {
    console.log(`${name}: no generator`);
    continue;
  }
  const opsets =
    op.domain === '' && op.ended === undefined
      ? [...new Set([...op.since.filter((v) => v <= NEWEST), Math.max(op.since[0]!, NEWEST)])]
      : op.since;
  const kinds = new Map<string, { count: number; first: string }>();
  answered = lenient = 0;
  let divergences = 0;
  let known = 0;
  for (let i = 0; i < runs; i++) {
    if (flags.case !== undefined && i !== Number(flags.case)) continue;
    const g = new Generator(seed * 1_000_003 + i * 7919 + op.name.length);
    const opset = g.pick(opsets);
    let c: Case = { op: op.name, domain: op.domain, opset, ...make(g, opset) };
    if (flags.invalid) c = damage(g, c);
    const except = exceptions(c);
    for (const { kind, text } of await judge(c)) {
      if (except !== undefined && /oracle|refused/.test(kind)) {
        known++;
        continue;
      }
      divergences++;
      const entry = kinds.get(kind) ?? { count: 0, first: `case ${i}: ${text}\n    ${describe(c)}` };
      kinds.set(kind, { ...entry, count: entry.count + 1 });
    }
  }
  total += divergences;
  console.log(
    `${name}: ${runs} runs, ${answered} answers, ${divergences} divergences${known ? `, ${known} known` : ''}${lenient ? `, ${lenient} refused by the oracle` : ''}`,
  );
  for (const [kind, { count, first }] of kinds) console.log(`  ${kind} × ${count}\n    ${first}`);
}
await oracle?.close();
process.exitCode = total > 0 ? 1 : 0;
