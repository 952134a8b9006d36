// Getting kernels ready on the caller's thread: compiled off it, and for the 256-bit option tested by a thread that ends
// afterwards.
import { Worker } from 'node:worker_threads';
import { type Build, compileKernels } from '../kernels/module.js';
import type { Widened } from '../runtime/wide.js';
import { SkepError } from '../tensor/errors.js';
import type { TesterData } from './thread.js';

/** Compiled kernels. */
export interface PreparedKernels {
  readonly module: WebAssembly.Module;
  /** The same with 256-bit instructions. */
  readonly wide: WebAssembly.Module | undefined;
  /** Why there are none though asked for. */
  readonly refused: string | undefined;
}

/** The kernels of a build; `wide`: with 256-bit instructions where they exist and pass their test. */
export async function prepareKernels(build: Build, wide: boolean): Promise<PreparedKernels> {
  const module = await compileKernels(build);
  if (!wide) return { module, wide: undefined, refused: undefined };
  const widened = await new Promise<Widened>((resolve, reject) => {
    const worker = new Worker(new URL('./worker.js', import.meta.url), {
      workerData: { role: 'tester', build } satisfies TesterData,
      execArgv: [],
      name: 'skep tester',
    });
    worker.once('message', resolve);
    worker.once('error', reject);
    worker.once('exit', (code) => reject(new SkepError('INTERNAL', `the kernels' self-test ended with code ${code}`)));
  });
  return { module, wide: undefined, refused: undefined, ...widened };
}
