// The test runner: every dist/test/**/*.test.js file in a process of its own, under a watchdog, several at a time.
// uvu has no timeout, hangs on a live worker and prints no grand total; this adds just these three things.
//
//   node test/run.mjs [PATTERN…] [--jobs N] [--timeout SECONDS] [--dir DIR]
//
// A file passes when its process exits 0 by itself within the time limit and uvu reports every test passed. The
// last line is `N passed, N failed`, counting tests; a file that dies, hangs or runs no test counts as one failure. Of a
// file that passes only the lines with SKIPPED or NOTE in them are shown.
import { spawn } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const root = path.resolve(fileURLToPath(import.meta.url), '../..');
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { jobs: { type: 'string' }, timeout: { type: 'string' }, dir: { type: 'string' } },
});
const jobs = Math.max(1, Number(values.jobs ?? availableParallelism()));
const limit = 1000 * Number(values.timeout ?? 300);
const dir = path.resolve(root, values.dir ?? 'dist/test');

const files = readdirSync(dir, { recursive: true })
  .map(String)
  .filter((f) => f.endsWith('.test.js') && (positionals.length === 0 || positionals.some((p) => f.includes(p))))
  .sort();

let passed = 0;
let failed = 0;

/** Runs one file; resolves with its counts and prints its output when something is wrong. */
function runFile(file) {
  return new Promise((resolve) => {
    const started = Date.now();
    const child = spawn(process.execPath, [...process.execArgv, path.join(dir, file)], {
      cwd: root,
      env: { ...process.env, FORCE_COLOR: '0' },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let output = '';
    let late = false;
    child.stdout.on('data', (d) => (output += d));
    child.stderr.on('data', (d) => (output += d));
    const watchdog = setTimeout(() => {
      late = true;
      child.kill('SIGKILL');
    }, limit);
    child.on('close', (code, signal) => {
      clearTimeout(watchdog);
      let total = 0;
      let good = 0;
      for (const m of output.matchAll(/Total:\s+(\d+)/g)) total += Number(m[1]);
      for (const m of output.matchAll(/Passed:\s+(\d+)/g)) good += Number(m[1]);
      let bad = total - good;
      let why = '';
      if (late) why = `did not end within ${limit / 1000} s`;
      else if (code !== 0 && bad === 0) why = `exited with ${signal ?? `code ${code}`}`;
      // A file whose data or peer is absent says so in a line of its own.
      else if (total === 0 && !/^SKIPPED\b/m.test(output)) why = 'ran no test';
      if (why !== '') bad += 1;
      passed += good;
      failed += bad;
      const seconds = ((Date.now() - started) / 1000).toFixed(1);
      console.log(
        `${bad === 0 ? 'ok  ' : 'FAIL'} ${file}  ${good}/${total}  ${seconds} s${why === '' ? '' : `  ${why}`}`,
      );
      if (bad !== 0) console.log(output.replace(/^/gm, '     '));
      else for (const [said] of output.matchAll(/\b(SKIPPED|NOTE)\b.*/g)) console.log(`     ${said}`);
      resolve();
    });
  });
}

if (files.length === 0) {
  console.log('no test file matches');
  failed = 1;
}
const queue = [...files];
await Promise.all(
  Array.from({ length: Math.min(jobs, queue.length) }, async () => {
    for (let f = queue.shift(); f !== undefined; f = queue.shift()) await runFile(f);
  }),
);
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed === 0 ? 0 : 1;
