// Model: what `load` gives. It checks what comes in, keeps the queue limit, and turns each request's end into a promise;
// signals and timeouts end a request at once for the caller, and its computing at the next step. The threads behind it
// are host.ts.
import type { Build } from '../kernels/module.js';
import type { HostValue } from '../operators/operator.js';
import type { Slo } from '../optimizer/choose.js';
import { type Configuration, describe as describeConfiguration } from '../optimizer/configuration.js';
import type { Decision } from '../optimizer/controller.js';
import type { Profile } from '../optimizer/profile.js';
import type { ModelInfo, Source } from '../runtime/source.js';
import { SkepError } from '../tensor/errors.js';
import { Adviser } from './adviser.js';
import type { Batching } from './batching.js';
import { type Feeds, orderFeeds, orderOutputs } from './feeds.js';
import { checkGroups } from './groups.js';
import type { Host, PooledMemory } from './host.js';
import { LiveController } from './live-controller.js';
import { digestOf, loadProfile, type ProfileKey } from './profile-store.js';
import { onAbort } from './signals.js';
import { type ModelStatistics, Statistics } from './statistics.js';
import { tune } from './tuner.js';
import type { ConfigurationChange, StoredProfileOptions, TuneObjective, TuneOptions, TuneResult } from './tuning.js';

/** An input or output of a model. `type` is an element type, or words for what is no tensor; `shape` is undefined where unknown. */
export interface ModelValue {
  readonly name: string;
  readonly type: string;
  readonly shape: readonly (number | string | null)[] | undefined;
  /** True for an input that has a default. */
  readonly optional: boolean;
}

/** Options of one request. */
export interface RunOptions {
  /** Aborting it rejects the request with `ABORTED` at once; computing stops at the next step. */
  readonly signal?: AbortSignal;
  /** Milliseconds after which the request is rejected with `TIMEOUT`. */
  readonly timeout?: number;
  /** Names of the outputs wanted; all by default. What only others need is not computed. */
  readonly outputs?: readonly string[];
  /** Told just before the promise resolves where the time went, ms: until an instance took the request, and on the instance. */
  readonly onTiming?: (timing: { readonly queued: number; readonly computing: number }) => void;
}

/** Outputs by name. Tensors, but for models that give sequences or optionals. */
// biome-ignore lint/suspicious/noExplicitAny: what an output is depends on the model; a Tensor in all but rare ones
export type Outputs = Record<string, any>;

/** How a request ended that was answered. */
interface Answer {
  readonly values: readonly HostValue[];
  readonly timing: { readonly queued: number; readonly computing: number };
}

/** What the engine gives a model it has loaded. */
export interface ModelParts {
  readonly name: string;
  readonly host: Host;
  readonly info: ModelInfo;
  readonly build: Build;
  readonly source: Source;
  /** What of the options decides how fast it is. */
  readonly variant: Promise<Omit<ProfileKey, 'model' | 'threads'>>;
  /** What the model may use of the engine's threads: all. */
  readonly threads: number;
  readonly maxQueue: number;
  /** What instances there are is left to the load, and what it is to be good for. */
  readonly auto: boolean;
  readonly objective: TuneObjective;
  readonly slo: Slo | undefined;
  readonly onClosed: (memory: PooledMemory | undefined) => void;
}

/** A loaded model. Made by `load` and `Engine.load`. Concurrent `run` calls are the normal case. */
export class Model {
  readonly name: string;
  readonly inputs: readonly ModelValue[];
  readonly outputs: readonly ModelValue[];
  /** The kernels' build: answers of one build are the same bits everywhere. */
  readonly build: Build;
  readonly metadata: ReadonlyMap<string, string>;
  readonly #info: ModelInfo;
  readonly #host: Host;
  readonly #threads: number;
  readonly #maxQueue: number;
  readonly #statistics = new Statistics();
  readonly #onClosed: (memory: PooledMemory | undefined) => void;
  readonly #listeners = new Set<(change: ConfigurationChange) => void>();
  /** Requests the caller still waits for. */
  #waiting = 0;
  #warned = false;
  readonly #source: Source;
  readonly #variant: Promise<Omit<ProfileKey, 'model' | 'threads'>>;
  #digest: Promise<string> | undefined;
  readonly #adviser = new Adviser();
  readonly #ending = new AbortController();
  #tunings: Promise<unknown> = Promise.resolve();
  readonly #objective: TuneObjective;
  readonly #slo: Slo | undefined;
  #controller: LiveController | undefined;
  #closed: Promise<void> | undefined;

  constructor(parts: ModelParts) {
    this.name = parts.name;
    this.build = parts.build;
    this.metadata = parts.info.metadata;
    this.#info = parts.info;
    this.#host = parts.host;
    this.#threads = parts.threads;
    this.#source = parts.source;
    this.#variant = parts.variant;
    this.#maxQueue = parts.maxQueue;
    this.#onClosed = parts.onClosed;
    this.#objective = parts.objective;
    this.#slo = parts.slo;
    if (parts.auto) this.#controller = this.#control();
    this.#host.listener = {
      onTask: (task) => this.#controller?.task(task),
      onReplaced: ({ message }) => {
        const { configuration } = this;
        const reason = `an instance has died and another has taken its place: ${message}`;
        emitWarning(this.name, reason);
        this.#tell({ before: configuration, configuration, cause: 'replaced', reason });
      },
    };
    this.inputs = parts.info.inputs.map((v) => ({ ...describe(v), optional: v.optional }));
    this.outputs = parts.info.outputs.map((v) => ({ ...describe(v), optional: false }));
  }

  /** How the model is served. A batch that was not set is what it has grown to. */
  get configuration(): Configuration {
    return this.#host.configuration;
  }

  /**
   * With `configuration: 'auto'`: what the controller decided last, and why, with the load it sees and how far measured
   * times have drifted from the profile. Undefined before the first decision, and when nothing is left to it.
   */
  get decision(): Decision | undefined {
    return this.#controller?.decision;
  }

  /**
   * Whether concurrent requests are computed together: along which axis of each input, or why not and at which node the
   * proof ended. It is about the inputs' shapes, so it is judged when two like requests first meet; undefined before.
   */
  get batching(): Batching | undefined {
    return this.#host.batching;
  }

  /**
   * Runs the model once. Rejects with a SkepError: `INVALID_INPUT` (a feed is missing, not as declared, or of
   * a shape that the graph cannot run on while it could on another: the message names the input), `INVALID_MODEL` (a node
   * breaks its operator's rules, whatever is fed, or it cannot be told whose fault it is), `UNSUPPORTED`, `ABORTED`, `TIMEOUT`, `OVERLOADED` (the queue is full),
   * `CLOSED`, `OUT_OF_MEMORY`.
   */
  async run(feeds: Feeds, options: RunOptions = {}): Promise<Outputs> {
    const { signal, timeout, outputs, onTiming } = options ?? {};
    if (this.#closed !== undefined) throw new SkepError('CLOSED', `model '${this.name}' is closed`);
    if (timeout !== undefined && !(timeout >= 0))
      throw new SkepError('INVALID_INPUT', `timeout must be a number of milliseconds, got ${timeout}`);
    // Checked before anything is submitted: a listener that fails later would end the process.
    if (signal != null && typeof signal.addEventListener !== 'function')
      throw new SkepError('INVALID_INPUT', 'signal must be an AbortSignal');
    if (outputs != null && !Array.isArray(outputs))
      throw new SkepError('INVALID_INPUT', 'outputs must be an array of output names');
    const wanted = orderOutputs(this.#info, outputs);
    const values = orderFeeds(this.#info, feeds, (message) => this.#warn(message));
    if (signal?.aborted) throw this.#abort(signal);
    if (this.#waiting >= this.#maxQueue) {
      this.#statistics.count('refused');
      throw new SkepError(
        'OVERLOADED',
        `model '${this.name}' has ${this.#waiting} requests waiting, its limit; try again later`,
      );
    }
    if (timeout === 0) {
      // There is no time left: nothing is queued that nobody would wait for.
      this.#statistics.count('timedOut');
      throw new SkepError('TIMEOUT', 'the request took longer than 0 ms');
    }
    this.#waiting++;
    const controller = this.#controller;
    controller?.arrived();
    try {
      const { values: found, timing } = await this.#submit(values, wanted, signal, timeout);
      onTiming?.(timing);
      return Object.fromEntries(wanted.map((o, i) => [this.#info.outputs[o]!.name, found[i]]));
    } catch (error) {
      // Made anew here, after the await, so that its stack shows the caller.
      if (error instanceof SkepError) throw new SkepError(error.code, error.message, { cause: error.cause });
      throw error;
    } finally {
      this.#waiting--;
      controller?.ended();
    }
  }

  /**
   * Serves with other instances from now on; resolves when they do. Nothing stops meanwhile: new instances are built beside
   * the old ones, and these finish what they have begun. Rejects with `INVALID_INPUT`, `OUT_OF_MEMORY`, `CLOSED`; the model
   * is then served as before. `'auto'`: it is left to the load from now on; a configuration ends that.
   */
  async configure(configuration: Configuration | 'auto'): Promise<void> {
    if (this.#closed !== undefined) throw new SkepError('CLOSED', `model '${this.name}' is closed`);
    const controller = this.#controller;
    if (configuration === 'auto') {
      this.#controller ??= this.#control();
      return;
    }
    const groups = checkGroups(configuration, this.#threads);
    this.#controller = undefined;
    await controller?.end();
    await this.#configure(groups, { cause: 'configure', reason: `asked for ${describeConfiguration(groups)}` });
  }

  /** Calls `listener` whenever the model has been configured anew. Gives a function that ends that. */
  onConfigured(listener: (change: ConfigurationChange) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * Measures how long batches take with how many threads, alone and beside each other, and chooses the configuration that
   * is best for the objective. Measurements are stored in the user's cache folder for this model, machine and version, and
   * used again. Rejects with `INVALID_INPUT`, `ABORTED` (before anything was measured), `CLOSED`, or as `run` does.
   */
  tune(options: TuneOptions = {}): Promise<TuneResult> {
    // One after another: they would measure each other.
    const tuned = this.#tunings.then(() => this.#tune(options));
    this.#tunings = tuned.catch(() => {});
    return tuned;
  }

  /** The profile that `tune` has stored for this model on this machine; undefined where there is none that fits. */
  async storedProfile({ threads = this.#threads }: StoredProfileOptions = {}): Promise<Profile | undefined> {
    return (await loadProfile(await this.#keyOf(threads)))?.profile;
  }

  /** Counts and latencies so far. */
  stats(): ModelStatistics {
    return this.#statistics.snapshot(this.#waiting, this.#host.batches);
  }

  /** Takes no more requests, lets those pending finish, then ends the model's threads and gives its memory back. */
  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    this.#ending.abort(new SkepError('CLOSED', 'the model is closed'));
    await this.#tunings;
    await this.#controller?.end();
    await this.#adviser.close();
    this.#onClosed(await this.#host.close());
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #tune(options: TuneOptions): Promise<TuneResult> {
    if (this.#closed !== undefined) throw new SkepError('CLOSED', `model '${this.name}' is closed`);
    const { signal } = options;
    const parts = {
      ...{ host: this.#host, info: this.#info, adviser: this.#adviser, threads: this.#threads },
      keyOf: (threads: number) => this.#keyOf(threads),
    };
    const ending = this.#ending.signal;
    let result: Omit<TuneResult, 'applied'>;
    try {
      result = await tune(parts, { ...options, signal: signal == null ? ending : AbortSignal.any([signal, ending]) });
      if (this.#closed !== undefined) throw new SkepError('CLOSED', `model '${this.name}' is closed`);
    } catch (error) {
      // Made anew here, after the await, so that its stack shows the caller.
      if (!(error instanceof SkepError)) throw error;
      const code = this.#closed === undefined ? error.code : 'CLOSED';
      throw new SkepError(code, error.message, { cause: error.cause });
    }
    // Who decides by himself decides by this from now on.
    if (this.#controller !== undefined) await this.#controller.adopt(result.profile);
    const applied = options.apply === true && this.#controller === undefined;
    if (applied) await this.#configure(result.configuration, { cause: 'tune', reason: result.reasons.join('; ') });
    return { ...result, applied };
  }

  #control(): LiveController {
    return new LiveController({
      ...{ host: this.#host, info: this.#info, adviser: this.#adviser, threads: this.#threads },
      ...{ objective: this.#objective, slo: this.#slo },
      keyOf: (threads) => this.#keyOf(threads),
      configure: (configuration, why) => this.#configure(configuration, why),
    });
  }

  async #keyOf(threads: number): Promise<ProfileKey> {
    this.#digest ??= digestOf(this.#source);
    return { ...(await this.#variant), model: await this.#digest, threads };
  }

  async #configure(
    groups: Configuration,
    why: Pick<ConfigurationChange, 'cause' | 'reason' | 'decision'>,
  ): Promise<void> {
    if (this.#closed !== undefined) throw new SkepError('CLOSED', `model '${this.name}' is closed`);
    const before = this.configuration;
    try {
      await this.#host.configure(groups);
    } catch (error) {
      // Made anew here, after the await, so that its stack shows the caller.
      if (error instanceof SkepError) throw new SkepError(error.code, error.message, { cause: error });
      throw error;
    }
    this.#tell({ before, configuration: this.configuration, ...why });
  }

  #tell(change: ConfigurationChange): void {
    for (const listener of this.#listeners) listener(change);
  }

  #submit(
    values: readonly (HostValue | undefined)[],
    wanted: readonly number[],
    signal: AbortSignal | undefined,
    timeout: number | undefined,
  ): Promise<Answer> {
    return new Promise((resolve, reject) => {
      let timer: NodeJS.Timeout | undefined;
      let stopWaiting: (() => void) | undefined;
      const settled = () => {
        clearTimeout(timer);
        stopWaiting?.();
      };
      const cancel = this.#host.submit(values, wanted, (outcome) => {
        settled();
        if (outcome.status === 'answered') {
          this.#statistics.count('answered');
          this.#statistics.time(outcome.timing.queued, outcome.timing.computing);
          resolve(outcome);
        } else {
          this.#statistics.count('failed');
          reject(outcome.error);
        }
      });
      if (signal != null)
        stopWaiting = onAbort(signal, () => {
          cancel();
          settled();
          reject(this.#abort(signal));
        });
      if (timeout !== undefined && timeout < 2 ** 31)
        timer = setTimeout(() => {
          cancel();
          settled();
          this.#statistics.count('timedOut');
          reject(new SkepError('TIMEOUT', `the request took longer than ${timeout} ms`));
        }, timeout);
    });
  }

  #abort(signal: AbortSignal): SkepError {
    this.#statistics.count('aborted');
    return new SkepError('ABORTED', 'the request was aborted', { cause: signal.reason });
  }

  #warn(message: string): void {
    if (this.#warned) return;
    this.#warned = true;
    emitWarning(this.name, message);
  }
}

function emitWarning(model: string, message: string): void {
  process.emitWarning(`model '${model}': ${message}`, { type: 'SkepWarning' });
}

function describe({ name, type }: ModelInfo['outputs'][number]): Omit<ModelValue, 'optional'> {
  if (type === undefined) return { name, type: 'unknown', shape: undefined };
  if (type.kind === 'tensor') return { name, type: type.type, shape: type.dims };
  return { name, type: type.kind, shape: undefined };
}
