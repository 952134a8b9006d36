// How many cores a load needs, answered by simulating it: the fewest equal instances of every thread count that keep the
// SLO, or the fewest cores with which the controller does. For machines larger than this one, too.
import { describe, threadsOf } from '../optimizer/configuration.js';
import { Controller } from '../optimizer/controller.js';
import { systemOf } from '../optimizer/predict.js';
import type { Profile } from '../optimizer/profile.js';
import { runQueue } from '../optimizer/queue.js';
import { runConfiguration } from '../simulator/configuration-run.js';
import { fewestCores, type Outcome } from '../simulator/cores.js';
import { distribution } from '../simulator/report.js';
import { UsageError } from './command.js';
import { describeArrivals, dueTimes, type Load, wholeOption } from './load.js';
import { lineChart } from './plot.js';
import { figure, writePlot } from './report.js';
import { Progress, print, printJson, table } from './terminal.js';

interface Question {
  readonly load: Load;
  readonly slo: { readonly mean?: number; readonly p99?: number } | undefined;
  readonly cores: string | undefined;
  readonly controller: boolean;
  readonly profile: Profile | undefined;
  readonly json: boolean;
  readonly plot: string | undefined;
}

/** As many as the optimizer takes. */
const MOST = 1024;
/** Requests simulated of a load that does not end. */
const REQUESTS = 20_000;

export function coresFor(question: Question): 0 | 1 {
  const { load, profile, slo } = question;
  if (slo === undefined) throw new UsageError('--cores needs --slo p99=MS or mean=MS');
  if (profile === undefined) throw new UsageError('--slo needs --profile: costs with several threads');
  if (load.lengths !== undefined || load.policies.some((p) => p !== 'cellular'))
    throw new UsageError('--slo is answered for whole requests: without --lengths and --policy');
  if (load.rates.length > 1) throw new UsageError('--slo takes one --rate');
  const cores = wholeOption(question.cores, 'cores', 1) ?? MOST;
  if (cores > MOST) throw new UsageError(`--cores must be at most ${MOST}, got ${cores}`);
  const process = load.process(load.rates[0]);
  const due = dueTimes(process, load.seconds, REQUESTS, load.seed);
  const rate = due.length / (due.at(-1)! / 1000);
  const limits = Object.entries(slo).map(([name, ms]) => `${name} ≤ ${ms} ms`);
  const heading = `${describeArrivals(process)}, ${due.length} of them; ${limits.join(', ')}; at most ${cores} cores`;
  return question.controller
    ? byController({ ...question, slo, profile }, due, cores, heading)
    : byConfiguration({ ...question, slo, profile }, due, rate, cores, heading);
}

type Asked = Question & { readonly slo: NonNullable<Question['slo']>; readonly profile: Profile };

/** The first tenth is warm-up, as in a report. */
function outcomeOf(latencies: Float64Array): Outcome {
  const { mean, p99 } = distribution(latencies.subarray(Math.floor(latencies.length / 10)));
  return { mean, p99 };
}

function byConfiguration(
  { profile, slo, load, json, plot }: Asked,
  due: Float64Array,
  rate: number,
  cores: number,
  heading: string,
): 0 | 1 {
  const asked = load.configuration;
  const batches = 'length' in asked || asked.batch === undefined ? undefined : [asked.batch];
  const progress = new Progress();
  const answers = fewestCores({
    profile,
    slo,
    cores,
    ...(batches && { batches }),
    // More than the work itself takes, or the queue never ends; a trace need not be steady, so only half of it is sure.
    least: (threads, batch) => (0.5 * rate * profile.latency(threads, batch)) / (1000 * batch),
    simulate: (configuration) => {
      progress.update(`trying ${describe(configuration)}`);
      return outcomeOf(runQueue(due, systemOf(profile, configuration)).latencies);
    },
  });
  progress.done();
  const largest = Math.max(0, ...answers.map((a) => a.configuration[0]!.instances));
  const beyond = profile.hasInterference && largest > profile.measuredInstances;
  if (plot !== undefined) {
    const points = answers.map((a) => [a.configuration[0]!.threads, a.cores] as const).sort((a, b) => a[0] - b[0]);
    const axes = { x: { title: 'threads an instance' }, y: { title: 'cores needed', min: 0 } };
    writePlot(
      plot,
      lineChart({
        title: 'Cores needed',
        subtitle: heading,
        ...axes,
        series: [{ name: 'fewest cores', points, dots: true }],
      }),
    );
  }
  if (json)
    printJson({
      slo,
      requests: due.length,
      arrivalRate: rate,
      cores: answers[0]?.cores ?? null,
      answers,
      extrapolatedInterference: beyond,
    });
  else {
    print(heading);
    print();
    const rows = answers.map((a, i) => [
      a.cores,
      describe(a.configuration),
      figure(a.mean),
      figure(a.p99),
      i === 0 ? '<--' : '',
    ]);
    for (const line of table(['cores', 'configuration', 'mean ms', 'p99 ms', ''], rows)) print(line);
    print();
    if (answers.length === 0) print(`No configuration of at most ${cores} cores keeps that.`);
    else print(`${answers[0]!.cores} cores: ${describe(answers[0]!.configuration)}.`);
    if (beyond)
      print(
        `Interference was measured with up to ${profile.measuredInstances} instances; beyond, its last slope goes on.`,
      );
    if (!profile.hasInterference)
      print('The profile says nothing of interference: instances are taken not to slow each other.');
  }
  return answers.length > 0 ? 0 : 1;
}

/** Least cores with which the controller keeps the SLO over the whole load, by halving. */
function byController({ profile, slo, json, plot }: Asked, due: Float64Array, cores: number, heading: string): 0 | 1 {
  if (plot !== undefined) throw new UsageError('--plot draws nothing for --slo with --controller');
  const progress = new Progress();
  const at = (threads: number) => {
    progress.update(`trying ${threads} cores`);
    const controller = new Controller({ profile, threads, objective: 'mean', requests: 2000 });
    const { report, latencies, switches } = runConfiguration({
      profile,
      configuration: controller.configuration,
      arrivals: due,
      controller,
      threads,
    });
    const outcome = outcomeOf(latencies);
    const holds =
      outcome.mean <= (slo.mean ?? Number.POSITIVE_INFINITY) && outcome.p99 <= (slo.p99 ?? Number.POSITIVE_INFINITY);
    return { cores: threads, ...outcome, holds, utilisation: report.utilisation, switches };
  };
  let low = (profile.threads[0] ?? 1) - 1;
  let high = Math.max(1, low + 1);
  let found = at(high);
  while (!found.holds && high < cores) {
    low = high;
    high = Math.min(cores, high * 2);
    found = at(high);
  }
  while (found.holds && high - low > 1) {
    const middle = (low + high) >> 1;
    const tried = at(middle);
    if (tried.holds) [high, found] = [middle, tried];
    else low = middle;
  }
  progress.done();
  if (json) printJson({ slo, requests: due.length, cores: found.holds ? found.cores : null, controller: found });
  else {
    print(heading);
    print();
    const ran = `mean ${figure(found.mean)} ms, p99 ${figure(found.p99)} ms, ${found.switches.length} switches`;
    print(
      found.holds
        ? `${found.cores} cores with the controller: ${ran}.`
        : `Not with ${found.cores} cores and the controller: ${ran}.`,
    );
    for (const { time, configuration } of found.switches.slice(0, 20))
      print(`  ${(time / 1000).toFixed(1)} s: ${describe(configuration)} (${threadsOf(configuration)} cores)`);
  }
  return found.holds ? 0 : 1;
}
