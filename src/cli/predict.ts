// skep predict: what every configuration would do at a load, by the queueing model, and where the best one changes as the
// load grows.
import { choose } from '../optimizer/choose.js';
import { type Configuration, describe, keyOf, threadsOf } from '../optimizer/configuration.js';
import { type Crossing, crossings } from '../optimizer/crossings.js';
import {
  everyConfiguration,
  type Prediction,
  predict as predictOne,
  type Screened,
  systemOf,
} from '../optimizer/predict.js';
import type { Profile } from '../optimizer/profile.js';
import { capacity } from '../optimizer/queue.js';
import { choiceOption, command, numberOption, UsageError } from './command.js';
import { parseConfiguration, parseSlo, positiveOption, wholeOption } from './load.js';
import { lineChart } from './plot.js';
import { parseDims, profileOptions, same, sourceOf, tuneProgress, withModel } from './profiles.js';
import { figure, percent, writePlot } from './report.js';
import { readProfile } from './sources.js';
import { print, printJson, table } from './terminal.js';

export const predict = command({
  name: 'predict',
  synopsis: 'MODEL | --profile FILE --rate λ',
  summary: 'queueing model: latency of every configuration at that load',
  details: `
Predicts every <instances, threads, batch> that fits: quickly for all of them, and with percentiles (by simulating the queue)
for those that look best. Then: which one is best between which rates. A MODEL that was tuned before has a stored profile;
one that was not is measured now. FILE is as in 'skep tune'.`,
  positionals: [0, 1],
  options: {
    ...profileOptions,
    rate: { type: 'string', value: 'λ', help: 'requests a second' },
    configuration: { type: 'string', multiple: true, value: 'I,T,B', help: 'only these; more groups after a +' },
    batch: { type: 'string', value: 'B', help: 'largest batch to consider' },
    objective: { type: 'string', value: 'O', help: 'mean (default), p99, or threads: the fewest that keep --slo' },
    slo: { type: 'string', value: 'p99=MS', help: 'what p99 or mean must stay below' },
    ca2: { type: 'string', value: 'X', help: 'squared coefficient of variation of the gaps; default 1: Poisson' },
    all: { type: 'boolean', help: 'print every configuration' },
    dims: { type: 'string', multiple: true, value: 'NAME=N', help: 'of MODEL: size of a dimension that has a name' },
    plot: { type: 'string', value: 'FILE.svg', help: 'draw mean latency against load' },
  },
  async run({ positionals, options, json }) {
    const source = sourceOf(positionals, options.profile);
    const rate = positiveOption(options.rate, 'rate');
    if (rate === undefined) throw new UsageError('--rate is missing: how many requests a second?');
    const threads = wholeOption(options.threads, 'threads', 1);
    const batch = wholeOption(options.batch, 'batch', 1);
    const only = options.configuration?.map(parseConfiguration);
    const ca2 = numberOption(options.ca2, 'ca2') ?? 1;
    const objective = choiceOption(options.objective, 'objective', ['mean', 'p99', 'threads']) ?? 'mean';
    const slo = parseSlo(options.slo);
    if (objective === 'threads' && slo === undefined) throw new UsageError('--objective threads needs --slo');
    const name = 'profile' in source ? source.profile : source.model;
    const profile =
      'profile' in source
        ? readProfile(source.profile)
        : await profileOf(source.model, { threads, batch, dims: options.dims });
    const most = threads ?? profile.threads.at(-1) ?? 1;
    const all = everyConfiguration(profile, { threads: most, ...(batch !== undefined && { maxBatch: batch }) });
    const question = { arrivalRate: rate, ca2 };
    const predictions =
      only !== undefined
        ? only.map((configuration) =>
            predictOne(profile, { ...question, configuration, tails: true, requests: REQUESTS }),
          )
        : choose(profile, {
            ...question,
            threads: most,
            objective,
            requests: REQUESTS,
            ...(slo !== undefined && { slo }),
            ...(batch !== undefined && { maxBatch: batch }),
          }).candidates.map((c) =>
            predictOne(profile, { ...question, configuration: c.configuration, tails: true, requests: REQUESTS }),
          );
    const rivals = only ?? rivalsOf(all, ca2);
    const [from, to] = range(rivals.map((configuration) => capacity(systemOf(profile, configuration))));
    const changes = crossings(profile, { configurations: rivals, from, to, ca2, steps: 24, requests: 8000 });
    const quick =
      only !== undefined
        ? []
        : all.map((s) => ({ configuration: s.configuration, capacity: s.capacity, ...s.estimate(rate, ca2) }));
    if (options.plot !== undefined)
      writePlot(options.plot, chart(name, profile, { rivals, changes, from, to, rate, ca2 }));
    if (json)
      printJson({
        arrivalRate: rate,
        ca2,
        threads: most,
        configurations: quick,
        predictions,
        crossings: changes,
        from,
        to,
      });
    else {
      const considered = only === undefined ? `${all.length} configurations of at most ${most} threads; ` : '';
      print(`${name}: ${considered}${figure(rate)} requests/s${ca2 === 1 ? ', Poisson' : `, Ca² ${ca2}`}`);
      print();
      printPredictions(predictions, only === undefined);
      if (options.all === true) printAll(quick);
      print();
      printChanges(changes, rivals, profile, { from, to, ca2 });
    }
    return 0;
  },
});

const REQUESTS = 50_000;

async function profileOf(
  file: string,
  {
    threads,
    batch,
    dims,
  }: { threads: number | undefined; batch: number | undefined; dims: readonly string[] | undefined },
): Promise<Profile> {
  const progress = tuneProgress();
  return withModel(file, threads, async (model) => {
    const stored = dims === undefined ? await model.storedProfile(threads === undefined ? {} : { threads }) : undefined;
    if (stored !== undefined) return stored;
    const sized = batch === undefined ? {} : { batch };
    return (await model.tune({ ...sized, dims: parseDims(dims), onProgress: progress.onProgress })).profile;
  }).finally(progress.done);
}

/** From nearly idle to nearly the most that anything keeps up with. */
function range(capacities: readonly number[]): [from: number, to: number] {
  const most = capacities.reduce((a, b) => Math.max(a, b), 0);
  return [0.01 * most, 0.98 * most];
}

/** Loads at which configurations are compared for the lines of the chart. */
const STEPS = 40;
/** Lines that a chart can hold. */
const RIVALS = 8;

/** Those that are best at some load, by the quick estimate, in the order of the load. */
function rivalsOf(all: readonly Screened[], ca2: number): Configuration[] {
  const [from, to] = range(all.map((s) => s.capacity));
  const wins = new Map<string, { configuration: Configuration; times: number }>();
  for (let i = 0; i <= STEPS; i++) {
    const rate = from * (to / from) ** (i / STEPS);
    let best: Screened | undefined;
    let least = Number.POSITIVE_INFINITY;
    for (const s of all) {
      const { latency } = s.estimate(rate, ca2);
      // A hair's breadth is no reason for another configuration; the one with more capacity has the next load, too.
      if (latency < least * (best !== undefined && s.capacity > best.capacity ? 1.01 : 0.99)) {
        least = Math.min(least, latency);
        best = s;
      }
    }
    if (best === undefined) continue;
    const key = keyOf(best.configuration);
    wins.set(key, { configuration: best.configuration, times: (wins.get(key)?.times ?? 0) + 1 });
  }
  // In the order of the load: those that win most often, but never without the first and the last.
  const winners = [...wins.values()];
  const often = [...winners].sort((a, b) => b.times - a.times).slice(0, RIVALS - 2);
  const kept = new Set([winners[0]!, ...often, winners.at(-1)!]);
  return winners.filter((w) => kept.has(w)).map((w) => w.configuration);
}

function printPredictions(predictions: readonly Prediction[], marked: boolean): void {
  const rows = predictions.map((p, i) => [
    describe(p.configuration),
    threadsOf(p.configuration),
    percent(p.utilisation),
    figure(p.latency),
    figure(p.wait),
    figure(p.p50!.value),
    `${figure(p.p99!.value)}${p.stable ? ` ± ${figure(p.p99!.plusMinus)}` : ''}`,
    figure(p.capacity),
    !p.stable ? 'overloaded' : marked && i === 0 ? '<--' : '',
  ]);
  for (const line of table(
    ['configuration', 'threads', 'load', 'mean ms', 'of it waiting', 'p50 ms', 'p99 ms', 'most/s', ''],
    rows,
  ))
    print(line);
}

function printAll(
  quick: readonly { configuration: Configuration; capacity: number; latency: number; utilisation: number }[],
): void {
  print();
  print('All of them, by a quick estimate:');
  const rows = [...quick]
    .sort((a, b) => a.latency - b.latency || b.capacity - a.capacity)
    .map((q) => [
      describe(q.configuration),
      threadsOf(q.configuration),
      percent(q.utilisation),
      figure(q.latency),
      figure(q.capacity),
    ]);
  for (const line of table(['configuration', 'threads', 'load', 'mean ms', 'most/s'], rows)) print(line);
}

function printChanges(
  changes: readonly Crossing[],
  rivals: readonly Configuration[],
  profile: Profile,
  { from, to, ca2 }: { from: number; to: number; ca2: number },
): void {
  const best = changes[0]?.below ?? bestOf(rivals, profile, (from + to) / 2, ca2);
  const stages = [
    { start: from, configuration: best },
    ...changes.map((c) => ({ start: c.arrivalRate, configuration: c.above })),
  ];
  print('Least mean latency:');
  const rows = stages.map(({ start, configuration }, i) => [
    figure(start),
    figure(stages[i + 1]?.start ?? to),
    describe(configuration),
  ]);
  for (const line of table(['from /s', 'to /s', 'configuration'], rows)) print(line);
}

function bestOf(rivals: readonly Configuration[], profile: Profile, arrivalRate: number, ca2: number): Configuration {
  const means = rivals.map(
    (configuration) => predictOne(profile, { configuration, arrivalRate, ca2, tails: false, requests: 8000 }).latency,
  );
  return rivals[means.indexOf(Math.min(...means))] ?? rivals[0]!;
}

interface Span {
  readonly rivals: readonly Configuration[];
  readonly changes: readonly Crossing[];
  readonly from: number;
  readonly to: number;
  readonly rate: number;
  readonly ca2: number;
}

function chart(name: string, profile: Profile, { rivals, changes, from, to, rate, ca2 }: Span): string {
  const rates = Array.from({ length: STEPS + 1 }, (_, i) => from + ((to - from) * i) / STEPS);
  const mean = (configuration: Configuration, arrivalRate: number) =>
    predictOne(profile, { configuration, arrivalRate, ca2, tails: false, requests: 8000 }).latency;
  const crossed = changes
    .filter((c) => !same(c.below, c.above))
    .map((c) => ({ x: c.arrivalRate, label: `${figure(c.arrivalRate)}/s` }));
  return lineChart({
    title: 'Predicted mean latency against load',
    subtitle: name,
    x: { title: 'requests a second', min: 0, max: to },
    y: { title: 'mean latency, ms', scale: 'log' },
    series: rivals.map((configuration) => ({
      name: describe(configuration),
      points: rates.map((r) => [r, mean(configuration, r)] as const),
    })),
    marks: [{ x: rate, label: `asked: ${figure(rate)}/s` }, ...crossed],
  });
}
