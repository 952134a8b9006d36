// skep bench: load on a live model, and what it does to latency: the engine's own batching, and beside it the policies that
// put whole requests together.
import { availableParallelism, cpus } from 'node:os';
import type { WorkItem } from '../cellular/policy.js';
import { type FeedValue, type Model, Tensor } from '../index.js';
import { weightTypes } from '../kernels/int8.js';
import { describe } from '../optimizer/configuration.js';
import { batchingOf } from '../serving/batching.js';
import { Engine, type LoadOptions } from '../serving/engine.js';
import { Random } from '../simulator/random.js';
import { distribution } from '../simulator/report.js';
import { SkepError } from '../tensor/errors.js';
import { choiceOption, command, UsageError } from './command.js';
import { checkModelFile, readModelFile } from './files.js';
import { type LiveResult, type Rival, runLive } from './live.js';
import {
  describeArrivals,
  dueTimes,
  type Load,
  lengthsHelp,
  loadOptions,
  type PolicyName,
  readLoad,
  wholeOption,
} from './load.js';
import { parseDims } from './profiles.js';
import { figure, plotRuns, printRun, printRuns, type Run } from './report.js';
import { RequestMaker } from './requests.js';
import { policyOf } from './simulate.js';
import { Progress, print, printJson } from './terminal.js';

export const bench = command({
  name: 'bench',
  synopsis: 'MODEL --rate λ | --concurrency N',
  summary: 'latency percentiles and throughput, live',
  details: `
Open loop (--rate): a thread of its own says when requests are due, and latency counts from then, however busy the program
is. Closed loop (--concurrency): so many callers, each waits for its answer. Inputs are made up from the declared shapes; a
dimension that has a name is 1, or what --dims says, or a request's length.

Policies: cellular is the engine's own batching; none runs every request alone; pad, bucket and timeout put whole requests
together, padded to the longest (the bucket's edge), and run them as one request of several rows. They need a batch axis
that is proved (see 'skep inspect'), and are for comparison: what padding does to answers is not looked at.
${lengthsHelp}`,
  positionals: [1, 1],
  options: {
    ...loadOptions,
    concurrency: { type: 'string', value: 'N', help: 'callers of a closed loop, instead of --rate' },
    dims: { type: 'string', multiple: true, value: 'NAME=N', help: 'size of a dimension that has a name' },
    'lengths-of': {
      type: 'string',
      value: 'NAME',
      help: 'the dimension that --lengths are of; default: the likeliest',
    },
    input: {
      type: 'string',
      multiple: true,
      short: 'i',
      value: 'NAME=VALUE',
      help: 'an input: a file, a value, or @DIM',
    },
    auto: {
      type: 'boolean',
      help: 'of cellular: let the controller choose instances, threads and batch as load changes',
    },
    weights: { type: 'string', value: 'TYPE', help: 'keep weights as float32 (default), float16 or int8' },
    build: { type: 'string', value: 'BUILD', help: 'kernels: plain or fma; default the fastest' },
    wide: { type: 'boolean', help: 'use 256-bit instructions where V8 has them' },
    queue: { type: 'string', value: 'N', help: 'requests waiting at most; more are refused. Default 10,000' },
  },
  async run({ positionals, options, json }) {
    const file = positionals[0]!;
    checkModelFile(file);
    const callers = wholeOption(options.concurrency, 'concurrency', 1);
    if (callers !== undefined && (options.rate !== undefined || options.arrivals !== undefined))
      throw new UsageError('--concurrency is a closed loop: it takes no --rate and no --arrivals');
    const load = readLoad(options, callers === undefined);
    const auto = options.auto === true;
    if (auto && ['configuration', 'instances', 'threads', 'batch'].some((name) => name in options))
      throw new UsageError('--auto chooses instances, threads and batch: it takes none');
    const weights = choiceOption(options.weights, 'weights', weightTypes);
    const build = choiceOption(options.build, 'build', ['plain', 'fma']);
    if (load.lengths?.some((l) => typeof l !== 'number'))
      throw new UsageError('pairs of lengths are for simulate: a model has one length');
    const dims = parseDims(options.dims);
    const maxQueue = wholeOption(options.queue, 'queue', 1) ?? 10_000;
    const runs: (Run & {
      readonly configuration: Model['configuration'];
      readonly sentLate: { readonly p50: number; readonly p99: number };
    })[] = [];
    for (const policy of load.policies) {
      const served = servedAs(load, policy);
      await using engine = new Engine({
        ...(served !== undefined && {
          threads: Math.max(
            availableParallelism(),
            served.reduce((n, g) => n + g.instances * g.threads, 0),
          ),
        }),
        ...(build !== undefined && { build }),
        ...(options.wide === true && { wide: true }),
      });
      const loading: LoadOptions = {
        maxQueue,
        ...(weights && { weights }),
        ...(served && { configuration: served }),
        ...(auto && policy === 'cellular' && { configuration: 'auto' }),
      };
      await using model = await engine.load(file, loading);
      const maker = new RequestMaker(model, {
        dims,
        inputs: options.input ?? [],
        lengthOf: options['lengths-of'],
        hasLengths: load.lengths !== undefined,
        seed: load.seed,
      });
      const rival = rivalOf(policy, file, maker, load);
      await warm(model, maker, load);
      for (const rate of load.rates) {
        const { report, latencies, late } = await measure(model, maker, load, {
          policy,
          rate,
          callers,
          rival: rival?.(),
        });
        const { p50, p99 } = distribution(late);
        runs.push({ policy, rate, report, latencies, configuration: model.configuration, sentLate: { p50, p99 } });
      }
    }
    const machine = `${cpus()[0]?.model.trim() ?? 'unknown processor'}, ${availableParallelism()} cores, Node ${process.versions.node}`;
    const how =
      callers === undefined ? describeArrivals(load.process(load.rates[0])) : `${callers} callers, closed loop`;
    const subtitle = `${load.rates.length > 1 ? '' : `${how}, `}${machine}`;
    if (options.plot !== undefined) plotRuns(options.plot, file, subtitle, runs);
    if (json) printJson({ model: file, machine, virtual: false, runs: runs.map(({ latencies: _, ...run }) => run) });
    else {
      print(`${file}: ${subtitle}`);
      print();
      if (runs.length > 1) printRuns(runs);
      else {
        print(`served as   ${describe(runs[0]!.configuration)}`);
        printRun(runs[0]!);
        if (callers === undefined)
          print(
            `sent late   p50 ${figure(runs[0]!.sentLate.p50)} ms, p99 ${figure(runs[0]!.sentLate.p99)} ms (part of queueing and latency)`,
          );
      }
    }
    return 0;
  },
});

/** Seconds of a run that are not given. */
const SECONDS = 10;
/** Requests that lengths are drawn for before they are drawn again. */
const DRAWN = 100_000;
/** Seconds spent on compiling for the lengths there are, before anything is measured. */
const WARM = 5;
/** Rows that a rival puts together, where nothing is said. */
const BATCH = 8;

/** How the model is loaded for a policy; undefined: by the engine's defaults. */
function servedAs({ configuration }: Load, policy: PolicyName): Model['configuration'] | undefined {
  if ('length' in configuration)
    return policy === 'cellular' ? configuration : configuration.map((g) => ({ ...g, batch: 1 }));
  const { instances, threads, batch } = configuration;
  if (policy !== 'cellular') return [{ instances, threads, batch: 1 }];
  if (batch === undefined && instances === 1 && threads === 1) return undefined;
  return [{ instances, threads, batch: batch ?? BATCH }];
}

/** Lengths of the requests, by number; the same for every policy. */
function lengthsOf({ lengths, seed }: Load): (i: number) => number | undefined {
  if (lengths === undefined) return () => undefined;
  const random = new Random(seed + 1);
  const drawn = Uint32Array.from({ length: DRAWN }, () => random.below(lengths.length));
  return (i) => lengths[drawn[i % DRAWN]!] as number;
}

/** A rival policy, made anew for each run; undefined for the engine's own ways. Throws where it cannot be for this model. */
function rivalOf(policy: PolicyName, file: string, maker: RequestMaker, load: Load): (() => Rival) | undefined {
  // `none` is the engine with batch 1.
  if (policy === 'cellular' || policy === 'none') return undefined;
  const axes = batchAxes(file, maker.feeds(lengthsOf(load)(0)));
  if (typeof axes === 'string')
    throw new SkepError('UNSUPPORTED', `--policy ${policy} is not possible for this model: ${axes}`);
  const groups = 'length' in load.configuration ? load.configuration : [load.configuration];
  const instances = groups.reduce((n, g) => n + g.instances, 0);
  const batch = groups[0]!.batch ?? BATCH;
  const length = lengthsOf(load);
  const item = (i: number): WorkItem => ({ unfolding: { kind: 'chain', type: 0, length: length(i) ?? 1 } });
  return () => ({
    policy: policyOf(policy, batch, load, { types: 1, instances, requests: 1 }),
    instances,
    item,
    batch: (rows, steps) => maker.feeds(load.lengths === undefined ? undefined : steps, rows, axes),
  });
}

/** Along which axis of each input requests may be joined, or why they may not. */
function batchAxes(
  file: string,
  feeds: Readonly<Record<string, FeedValue>>,
): Readonly<Record<string, number | null>> | string {
  const { graph } = readModelFile(file);
  const inputs = graph.inputs.filter(({ name }) => Object.hasOwn(feeds, name));
  const given = inputs.map(({ name }) => {
    const feed = feeds[name];
    return feed instanceof Tensor ? { name, type: feed.type, dims: feed.dims, value: feed } : undefined;
  });
  const batching = batchingOf(graph, inputs, given);
  if (batching.proven) return batching.axes;
  return `its rows may interact (${batching.node === undefined ? '' : `${batching.node}: `}${batching.why})`;
}

/** Runs every length once, as far as time goes, so that compiling is not measured. */
async function warm(model: Model, maker: RequestMaker, load: Load): Promise<void> {
  const until = performance.now() + 1000 * WARM;
  const progress = new Progress();
  const lengths = [...new Set(load.lengths as readonly number[] | undefined)].sort((a, b) => b - a);
  for (const [i, length] of (lengths.length > 0 ? lengths : [undefined, undefined]).entries()) {
    await model.run(maker.feeds(length));
    progress.update(`warming up: ${i + 1} of ${lengths.length} lengths`);
    if (performance.now() > until) break;
  }
  progress.done();
}

interface Measurement {
  readonly policy: PolicyName;
  readonly rate: number | undefined;
  readonly callers: number | undefined;
  readonly rival: Rival | undefined;
}

async function measure(
  model: Model,
  maker: RequestMaker,
  load: Load,
  { policy, rate, callers, rival }: Measurement,
): Promise<LiveResult> {
  const length = lengthsOf(load);
  const seconds = load.seconds ?? SECONDS;
  const process = load.process(rate);
  const arrivals =
    callers !== undefined
      ? { callers, seconds }
      : dueTimes(process, process.kind === 'trace' && rate === undefined ? load.seconds : seconds, 0, load.seed);
  const whole = arrivals instanceof Float64Array ? arrivals.at(-1)! / 1000 : seconds;
  const progress = new Progress();
  try {
    return await runLive({
      model,
      arrivals,
      feeds: (i) => maker.feeds(length(i)),
      ...(rival && { rival }),
      onProgress: (now, sent, ended) =>
        progress.update(
          `${policy}${rate === undefined ? '' : `, ${rate}/s`}: ${now.toFixed(1)} of ${whole.toFixed(1)} s, ${sent} sent, ${sent - ended} waiting`,
        ),
    });
  } finally {
    progress.done();
  }
}
