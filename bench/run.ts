// `npm run bench`: every suite with the build this Node runs by itself, then docs/performance.md. Each suite is a process of
// its own, so that no engine's threads or memory meet the next suite.
//
//   npm run bench [-- PATTERN…]        other flags of the suites too, e.g. --rounds 31
import { type SpawnSyncOptionsWithStringEncoding, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const fileOf = (name: string) => fileURLToPath(new URL(`./${name}.js`, import.meta.url));

/** Runs a script of this folder with Node's own flags; its standard output. */
function run(script: string, args: readonly string[]): string {
  const options: SpawnSyncOptionsWithStringEncoding = {
    encoding: 'utf8',
    maxBuffer: 2 ** 26,
    stdio: ['ignore', 'pipe', 'inherit'],
  };
  const { status, stdout } = spawnSync(process.execPath, [...process.execArgv, fileOf(script), ...args], options);
  if (status !== 0) throw new Error(`${script} ended with ${status}`);
  return stdout;
}

const folder = mkdtempSync(path.join(tmpdir(), 'skep-bench-'));
try {
  const files = ['operators', 'models'].map((suite) => {
    console.error(`${suite} …`);
    const file = path.join(folder, `${suite}.json`);
    writeFileSync(file, run(suite, [...process.argv.slice(2), '--json']));
    return file;
  });
  const target = fileURLToPath(new URL('../../docs/performance.md', import.meta.url));
  writeFileSync(target, run('report', files));
  console.error(`wrote ${target}`);
} finally {
  rmSync(folder, { recursive: true });
}
