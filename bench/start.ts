// From nothing to the first answer, and the most memory held: every engine in new processes of its own, in turn.
//
//   node dist/bench/start.js [--rounds 7] [--peers web,node] [--json]
//
// A start is importing the engine, loading the model and the first run, without Node's own start.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import type { Start } from './lib/child.js';
import { machine, median } from './lib/machine.js';
import { modelCases } from './lib/networks.js';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '7' },
    peers: { type: 'string', default: 'web,node' },
    json: { type: 'boolean', default: false },
  },
});

const child = fileURLToPath(new URL('./lib/child.js', import.meta.url));
const names: Readonly<Record<string, string>> = { skep: 'skep', web: 'onnxruntime-web', node: 'onnxruntime-node' };
const engines = ['skep', ...values.peers.split(',').filter((p) => p !== '')];

/** What start.js prints with --json. */
export interface StartResult {
  readonly suite: 'start';
  readonly machine: string;
  readonly date: string;
  readonly cases: readonly { readonly name: string; readonly engines: Readonly<Record<string, Start>> }[];
}

const folder = mkdtempSync(path.join(tmpdir(), 'skep-start-'));
const cases: StartResult['cases'][number][] = [];
if (!values.json) console.log(`${machine()}\nms and MiB, medians of ${values.rounds} processes\n`);
try {
  for (const [key, runs] of [
    ['PP-OCR cls', 15],
    ['ResNet-50', 3],
  ] as const) {
    const { name, model, feeds } = modelCases.find((c) => c.name === key)!.work();
    const file = typeof model === 'string' ? model : path.join(folder, 'model.onnx');
    if (typeof model !== 'string') writeFileSync(file, model);
    const [input, { dims }] = Object.entries(feeds)[0]!;
    const found = new Map<string, Start[]>(engines.map((e) => [e, []]));
    for (let round = 0; round < Number(values.rounds); round++)
      for (const engine of engines) {
        const args = [...process.execArgv, child, engine, file, input, dims.join(), String(runs)];
        const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' });
        if (status !== 0) throw new Error(`${engine} ended with ${status}: ${stderr}`);
        found.get(engine)!.push(JSON.parse(stdout.trim().split('\n').at(-1)!) as Start);
      }
    const middle = (starts: readonly Start[], key: keyof Start) => median(starts.map((s) => s[key]));
    const rows = [...found].map(([engine, starts]) => {
      const row: Start = {
        import: middle(starts, 'import'),
        load: middle(starts, 'load'),
        first: middle(starts, 'first'),
        warm: middle(starts, 'warm'),
        peakBytes: middle(starts, 'peakBytes'),
      };
      return [names[engine] ?? engine, row] as const;
    });
    cases.push({ name, engines: Object.fromEntries(rows) });
    if (values.json) continue;
    console.log(name);
    for (const [engine, s] of rows) {
      const total = s.import + s.load + s.first;
      console.log(
        `  ${engine.padEnd(18)} start ${total.toFixed(0)} (import ${s.import.toFixed(0)}, load ${s.load.toFixed(0)}, first run ${s.first.toFixed(1)}); ` +
          `warm ${s.warm.toFixed(2)}, first / warm ${(s.first / s.warm).toFixed(1)}; peak ${(s.peakBytes / 2 ** 20).toFixed(0)}`,
      );
    }
  }
} finally {
  rmSync(folder, { recursive: true });
}
if (values.json) {
  const result: StartResult = {
    suite: 'start',
    machine: machine(),
    date: new Date().toISOString().slice(0, 10),
    cases,
  };
  console.log(JSON.stringify(result, null, 1));
}
