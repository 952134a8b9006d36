// The packed package has no scripts and no devDependencies: nothing of it runs when it is installed, and nothing in it
// refers to files that are not there. `npm pack` reads package.json from the folder it packs, so the file is replaced
// while packing (prepack: `strip`) and put back afterwards (postpack: `restore`).
//
// The whole file is kept beside it first, written under another name and renamed, so that at every moment either
// package.json or the kept one is whole. A pack that was killed in between is repaired by whatever comes first: the next
// `strip`, or `restore` by hand.
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = path.resolve(fileURLToPath(import.meta.url), '../..');
const manifest = path.join(root, 'package.json');
const kept = path.join(root, '.package.json.kept');

/** Puts the whole package.json back, if one is kept. */
function restore() {
  if (existsSync(kept)) renameSync(kept, manifest);
}

/** Keeps the whole package.json and leaves what a user of the package needs. */
function strip() {
  restore();
  const text = readFileSync(manifest, 'utf8');
  const { scripts: _scripts, devDependencies: _devDependencies, overrides: _overrides, ...rest } = JSON.parse(text);
  replace(kept, text);
  replace(manifest, `${JSON.stringify(rest, null, 2)}\n`);
}

function replace(file, text) {
  const fresh = `${file}.new`;
  writeFileSync(fresh, text);
  renameSync(fresh, file);
}

const command = process.argv[2];
if (command === 'strip') strip();
else if (command === 'restore') restore();
else {
  console.error('usage: node .ci/manifest.mjs strip|restore');
  process.exitCode = 2;
}
