// skep simulate: the system in virtual time. What a batch costs comes from a profile or from the command line; arrivals
// and lengths from files or from chance; the policies, the queue and the controller are those the engine runs.
import { Buckets, OneByOne, Padding, Timeout } from '../cellular/baselines.js';
import { CellularPolicy } from '../cellular/cellular-policy.js';
import type { Policy, WorkItem } from '../cellular/policy.js';
import { type Configuration, describe, instancesOf, threadsOf } from '../optimizer/configuration.js';
import { Controller } from '../optimizer/controller.js';
import type { Profile } from '../optimizer/profile.js';
import { runConfiguration, type Switch } from '../simulator/configuration-run.js';
import { type CostModel, table as costTable, knee, type StepCost } from '../simulator/cost.js';
import { simulate as simulateSystem } from '../simulator/simulate.js';
import { chains, drawFrom, pairs } from '../simulator/workload.js';
import { command, UsageError } from './command.js';
import { coresFor } from './cores.js';
import {
  describeArrivals,
  dueTimes,
  type Load,
  lengthsHelp,
  loadOptions,
  type PolicyName,
  parseSlo,
  readLoad,
  wholeOption,
} from './load.js';
import { plotRuns, printRun, printRuns, type Run } from './report.js';
import { readProfile } from './sources.js';
import { print, printJson } from './terminal.js';

export const simulate = command({
  name: 'simulate',
  synopsis: '--profile FILE --rate λ …',
  summary: 'the same as bench in virtual time; how many cores a load needs',
  details: `
What a batch takes comes from --profile (JSON: { threads: { batch: ms } }, or what 'skep tune --save' writes) or from
--cost 1=1.5,4=2.5,8=4.8 (ms by rows). Without --lengths a request is one row of one batch. With --lengths it is a chain
of steps, each costing what the profile or --cost says of a batch of one step; pairs of lengths are an encoder and a
decoder (then --cost may be given twice).

--slo p99=200 asks how many cores the load needs (up to --cores), for every thread count of the profile; with
--controller how many the controller needs.
${lengthsHelp}`,
  positionals: [0, 0],
  options: {
    profile: { type: 'string', value: 'FILE', help: 'what batches take' },
    cost: { type: 'string', multiple: true, value: 'N=MS,…', help: 'instead of a profile: ms of a step by rows' },
    ...loadOptions,
    controller: { type: 'boolean', help: 'let the controller change the configuration as the load changes' },
    slo: { type: 'string', value: 'p99=MS', help: 'how many cores keep p99 (or mean) within so many ms?' },
    cores: {
      type: 'string',
      value: 'N',
      help: 'of --slo and --controller: cores there are; default 1024, or as configured',
    },
  },
  async run({ options, json }) {
    const load = readLoad(options);
    const slo = parseSlo(options.slo);
    const controlled = options.controller === true ? { threads: wholeOption(options.cores, 'cores', 1) } : undefined;
    const source = readCosts(options.profile, options.cost);
    if (slo !== undefined || (options.cores !== undefined && options.controller !== true))
      return coresFor({
        load,
        slo,
        cores: options.cores,
        controller: options.controller === true,
        profile: source.profile,
        json,
        plot: options.plot,
      });
    const runs: (Run & { readonly configuration: Configuration; readonly switches: readonly Switch[] })[] = [];
    for (const policy of load.policies)
      for (const rate of load.rates) runs.push(simulateOnce(load, source, policy, rate, controlled));
    const title = `Simulated: ${describe(runs[0]!.configuration)}`;
    const subtitle =
      load.rates.length > 1 ? 'virtual time' : `${describeArrivals(load.process(load.rates[0]))}, virtual time`;
    if (options.plot !== undefined) plotRuns(options.plot, title, subtitle, runs);
    if (json) printJson({ virtual: true, runs: runs.map(({ latencies: _, ...run }) => run) });
    else {
      print(`${title}; ${subtitle}`);
      print();
      if (runs.length === 1) {
        printRun(runs[0]!);
        for (const { time, reason } of runs[0]!.switches) print(`${(time / 1000).toFixed(1)} s: ${reason}`);
      } else printRuns(runs);
    }
    return 0;
  },
});

interface Costs {
  /** Undefined: costs came from the command line. */
  readonly profile: Profile | undefined;
  /** Of the cell types, on an instance of so many threads. */
  readonly steps: (threads: number) => readonly StepCost[];
}

function readCosts(file: string | undefined, costs: readonly string[] | undefined): Costs {
  if ((file === undefined) === (costs === undefined))
    throw new UsageError('give either --profile FILE or --cost N=MS,…');
  if (file === undefined) {
    const steps = costs!.map(parseCost);
    return { profile: undefined, steps: () => steps };
  }
  const profile = readProfile(file);
  return {
    profile,
    steps: (threads) => {
      if (!profile.threads.includes(threads))
        throw new UsageError(`the profile has no ${threads} threads; it has ${profile.threads.join(', ')}`);
      return [costTable(Object.fromEntries(profile.sizes(threads).map((b) => [b, profile.latency(threads, b)])))];
    },
  };
}

function parseCost(text: string): StepCost {
  const points = text.split(',').map((p) => p.split('=').map(Number));
  if (!points.every(([n, ms, more]) => Number.isInteger(n) && n! > 0 && ms! > 0 && more === undefined))
    throw new UsageError(`--cost must be ROWS=MS,…, got '${text}'`);
  return costTable(Object.fromEntries(points));
}

/** Requests of a run whose duration is not given. */
const REQUESTS = 20_000;

function simulateOnce(
  load: Load,
  costs: Costs,
  policy: PolicyName,
  rate: number | undefined,
  controlled: { readonly threads: number | undefined } | undefined,
) {
  const due = dueTimes(load.process(rate), load.seconds, REQUESTS, load.seed);
  const whole = load.lengths === undefined && policy === 'cellular' && costs.profile !== undefined;
  if (!whole) {
    if (controlled !== undefined)
      throw new UsageError('--controller needs a profile, whole requests (no --lengths) and --policy cellular');
    return { policy, rate, ...simulateSteps(load, costs, policy, due), switches: [] };
  }
  const profile = costs.profile!;
  const configuration = complete(load.configuration, (threads) => profile.largest(threads));
  const threads = controlled && Math.max(threadsOf(configuration), controlled.threads ?? 0);
  const controller = threads === undefined ? undefined : new Controller({ profile, threads, configuration });
  const { report, latencies, switches } = runConfiguration({
    profile,
    configuration,
    arrivals: due,
    ...(controller && { controller, threads: threads! }),
  });
  return { policy, rate, report, latencies: Array.from(latencies), configuration, switches };
}

/** The groups asked for, with a batch where none was. */
function complete(configuration: Load['configuration'], batch: (threads: number) => number): Configuration {
  if ('length' in configuration) return configuration;
  const { instances, threads } = configuration;
  return [{ instances, threads, batch: configuration.batch ?? Math.max(1, batch(threads)) }];
}

/** Requests of steps, or a rival's whole batches: cells and policies. */
function simulateSteps(load: Load, costs: Costs, policy: PolicyName, due: Float64Array) {
  const items = itemsOf(load.lengths);
  const types = items[0]!.unfolding.kind === 'encoder-decoder' ? 2 : 1;
  const configuration = complete(load.configuration, (threads) => knee(costs.steps(threads)[0]!, 16));
  if (configuration.length > 1)
    throw new UsageError('requests of steps are simulated with one group of equal instances');
  const [{ instances, threads, batch }] = configuration as [Configuration[number]];
  const given = costs.steps(threads);
  if (given.length > types)
    throw new UsageError(`--cost is given ${given.length} times, requests have ${types} cell type(s)`);
  const steps = Array.from({ length: types }, (_, i) => given[i] ?? given[0]!);
  const { profile } = costs;
  const interference = profile && Array.from({ length: instances }, (_, k) => profile.factor(k + 1, threads, batch));
  const cost: CostModel = { steps, ...(interference && { interference }) };
  const latencies: number[] = [];
  const report = simulateSystem({
    policy: policyOf(policy, batch, load, { types, instances, requests: due.length }),
    cost,
    arrivals: due,
    item: drawFrom(items, load.seed + 1),
    instances: instancesOf(configuration),
    onEnd: (_key, latency) => latencies.push(latency),
  });
  return { report, latencies, configuration };
}

/** Longest a decoder may get. */
const MOST_STEPS = 100_000;

/** What requests are: chains of the given lengths, encoder and decoder for pairs, one step without. */
export function itemsOf(lengths: Load['lengths']): WorkItem[] {
  if (lengths === undefined) return chains([1]);
  const two = lengths.filter((l): l is readonly [number, number] => typeof l !== 'number');
  if (two.length === 0) return chains(lengths as number[]);
  if (two.length !== lengths.length) throw new UsageError('--lengths must be all numbers or all pairs');
  return pairs(two, MOST_STEPS);
}

/** A policy by its name. */
export function policyOf(
  name: PolicyName,
  batch: number,
  { bucketWidth, wait }: Pick<Load, 'bucketWidth' | 'wait'>,
  size: { readonly types: number; readonly instances: number; readonly requests: number },
): Policy {
  switch (name) {
    case 'cellular': {
      const cells = Array.from({ length: size.types }, () => ({ maxBatch: batch }));
      const { requests, instances } = size;
      return new CellularPolicy({ cells, requests, nodes: 1, edges: 1, rows: requests * size.types, instances });
    }
    case 'bucket':
      return new Buckets(batch, bucketWidth);
    case 'pad':
      return new Padding(batch);
    case 'timeout':
      return new Timeout(batch, wait);
    case 'none':
      return new OneByOne();
    default:
      return name satisfies never;
  }
}
