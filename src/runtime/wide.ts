// The 256-bit option: V8 can fuse neighbouring 128-bit vector instructions into 256-bit ones, nearly twice as fast, by a
// pass behind a flag that says "experimental". So it is off unless asked for, is given few kernels, and what it made of
// them is tested before it serves:
//
//   rehearsal     the whole test in a process of its own: the pass may not only be wrong, it may end the process
//   flags on      a copy of the kernels is compiled by the optimizer alone, each function on its first call
//   test          every probe must have the bits of the code without the pass
//   flags off     what was not called in the test will be compiled without the pass: all that it touched has been tested
//
// V8 keeps compiled code by the module's bytes, so the copy differs by a custom section: both would be one module otherwise.
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { setFlagsFromString } from 'node:v8';
import { type Build, canRun, readKernels } from '../kernels/module.js';
import { tiles } from '../kernels/tile.js';
import { differenceFrom, probeBits } from './self-test.js';

/** The same kernels with 256-bit instructions, or why there are none. */
export type Widened = { readonly wide: WebAssembly.Module } | { readonly refused: string };

/** V8's version, major and minor. */
const v8 = Number.parseFloat(process.versions.v8);

/** The rehearsal may take this long, milliseconds. */
const PATIENCE = 20_000;

/** Why this runtime has no such pass, in words. V8 knows the flag from Node 24 on, for x64. */
function lacksPass(): string | undefined {
  if (process.arch !== 'x64') return `256-bit instructions are for x64, not ${process.arch}`;
  if (v8 < 13.6) return `Node ${process.version} has no 256-bit pass; Node 24 has`;
  return undefined;
}

/** The module's bytes with a custom section of this name at the end. */
function withSection(bytes: Uint8Array, name: string): Uint8Array<ArrayBuffer> {
  const text = new TextEncoder().encode(name);
  const section = [0, text.length + 1, text.length, ...text];
  const out = new Uint8Array(bytes.length + section.length);
  out.set(bytes);
  out.set(section, bytes.length);
  return out;
}

/** Compiles and tests; `bytes` is a build's module. */
function tryWide(build: Build, bytes: Uint8Array): Widened {
  // Before the flags are set: functions are compiled on their first call.
  const wanted = probeBits(build, tiles[0]);
  setFlagsFromString('--experimental-wasm-revectorize');
  setFlagsFromString('--no-liftoff');
  // From V8 14 on (Node 26), code that may be deoptimised wants what Liftoff has counted, and ends the process without it.
  if (v8 >= 14) setFlagsFromString('--no-wasm-deopt');
  try {
    const wide = new WebAssembly.Module(withSection(bytes, '256-bit'));
    const refused = differenceFrom(wanted, build, wide);
    return refused === undefined ? { wide } : { refused };
  } catch (error) {
    return { refused: `the kernels failed: ${(error as Error).message}` };
  } finally {
    if (v8 >= 14) setFlagsFromString('--wasm-deopt');
    setFlagsFromString('--liftoff');
    setFlagsFromString('--no-experimental-wasm-revectorize');
  }
}

/** Runs the test in a process of its own: why it failed, in words. */
function rehearse(build: Build): string | undefined {
  const script = fileURLToPath(new URL('../serving/worker.js', import.meta.url));
  const { NODE_OPTIONS: _, ...env } = process.env;
  const child = spawnSync(process.execPath, [script, build], { timeout: PATIENCE, env, encoding: 'utf8' });
  if (child.error !== undefined) return `the test could not run: ${child.error.message}`;
  if (child.signal !== null) return `the runtime itself failed (${child.signal})`;
  if (child.status === 0) return undefined;
  return child.stderr.match(/\w*Error: .*|^.* gives other bits .*/m)?.[0] ?? `the test ended with code ${child.status}`;
}

/** The part of a process that rehearses. */
export function rehearsal(build: Build): void {
  if (!canRun(build)) throw new Error(`cannot run the '${build}' build`);
  const result = tryWide(build, readKernels(build));
  if ('wide' in result) return;
  process.stderr.write(`${result.refused}\n`);
  process.exitCode = 1;
}

/** What a test may put in the place of what is used. */
export interface WideOptions {
  /** The kernels that are compiled; default the build's own. */
  readonly bytes?: Uint8Array;
  /** Runs a test that may end the process, elsewhere. */
  readonly rehearse?: (build: Build) => string | undefined;
}

/** Compiles a build with 256-bit instructions and tests it. It blocks for some hundred milliseconds. */
export function widen(build: Build, options: WideOptions = {}): Widened {
  const refused = lacksPass() ?? (options.rehearse ?? rehearse)(build);
  return refused === undefined ? tryWide(build, options.bytes ?? readKernels(build)) : { refused };
}
