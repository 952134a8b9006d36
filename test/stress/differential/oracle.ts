// onnxruntime-web as an oracle, in a thread of its own: a model that crashes or hangs it costs that thread and not the
// run. The same file is the thread's program. It answers one model at a time.
import { existsSync } from 'node:fs';
import { isMainThread, parentPort, Worker } from 'node:worker_threads';
import { onnxruntimeWeb } from '../../../bench/lib/peers.js';
import { Tensor } from '../../../src/tensor/tensor.js';
import type { DataType } from '../../../src/tensor/types.js';

interface Plain {
  readonly type: DataType;
  readonly data: unknown;
  readonly dims: readonly number[];
}

interface Question {
  readonly model: Uint8Array;
  readonly feeds: Readonly<Record<string, Plain>>;
}

export type Answer = { readonly outputs: Readonly<Record<string, Tensor>> } | { readonly error: string };

type Reply = { readonly outputs: Readonly<Record<string, Plain>> } | { readonly error: string };

/** How long a model may take before its thread is ended. */
const PATIENCE = 30_000;

/** True when onnxruntime-web is installed beside the benchmarks. */
export function isInstalled(): boolean {
  // Not resolved from there: a package of that name further up is a stand-in that runs nothing.
  return existsSync(new URL('../../../../bench/node_modules/onnxruntime-web/package.json', import.meta.url));
}

/** Asks onnxruntime-web. `close` ends the thread. */
export class Oracle {
  #worker: Worker | undefined;

  async ask(model: Uint8Array, feeds: ReadonlyMap<string, unknown>): Promise<Answer> {
    const plain: Record<string, Plain> = {};
    for (const [name, t] of feeds) if (t instanceof Tensor) plain[name] = { type: t.type, data: t.data, dims: t.dims };
    this.#worker ??= new Worker(new URL(import.meta.url), { stdout: true, stderr: true });
    const worker = this.#worker;
    const reply = await new Promise<Reply>((resolve) => {
      const timer = setTimeout(() => end('it hangs'), PATIENCE);
      const end = (error: string) => {
        this.#worker = undefined;
        void worker.terminate();
        settle({ error: `crash: ${error}` });
      };
      const failed = (error: unknown) => end(String(error));
      const exited = () => end('exit');
      const settle = (answer: Reply) => {
        clearTimeout(timer);
        worker.off('message', settle).off('error', failed).off('exit', exited);
        resolve(answer);
      };
      worker.on('message', settle).on('error', failed).on('exit', exited);
      worker.postMessage({ model, feeds: plain } satisfies Question);
    });
    if ('error' in reply) {
      // A WebAssembly trap leaves the engine in no state to go on.
      if (/memory access|unreachable|Aborted|table index|null function|stack/i.test(reply.error)) await this.close();
      return reply;
    }
    const outputs: Record<string, Tensor> = {};
    for (const [name, t] of Object.entries(reply.outputs))
      outputs[name] = new Tensor(t.type, t.data as Uint8Array, t.dims);
    return { outputs };
  }

  async close(): Promise<void> {
    const worker = this.#worker;
    this.#worker = undefined;
    await worker?.terminate();
  }
}

async function serve(): Promise<void> {
  const ort = await onnxruntimeWeb(1);
  Object.assign(ort.env, { logLevel: 'fatal' });
  parentPort!.on('message', async ({ model, feeds }: Question) => {
    try {
      const session = await ort.InferenceSession.create(model, {
        graphOptimizationLevel: 'disabled',
        logSeverityLevel: 4,
      });
      try {
        const inputs = Object.fromEntries(
          Object.entries(feeds).map(([name, t]) => [name, new ort.Tensor(t.type, t.data, t.dims)]),
        );
        const found = await session.run(inputs);
        const outputs: Record<string, Plain> = {};
        for (const [name, t] of Object.entries(found)) {
          const { type, data, dims } = t as unknown as Plain;
          outputs[name] = {
            type,
            data:
              type === 'float16'
                ? new Uint16Array((data as Uint16Array).buffer.slice(0))
                : Array.isArray(data)
                  ? data
                  : (data as Uint8Array).slice(),
            dims,
          };
        }
        parentPort!.postMessage({ outputs } satisfies Reply);
      } finally {
        await session.release();
      }
    } catch (error) {
      parentPort!.postMessage({ error: String(error instanceof Error ? error.message : error) } satisfies Reply);
    }
  });
}

if (!isMainThread) await serve();
