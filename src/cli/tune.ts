// skep tune: measures a model (or takes a profile), chooses instances, threads and batch, and explains: the profile, the
// candidates, and one row marked.
import { writeFileSync } from 'node:fs';
import { choose } from '../optimizer/choose.js';
import { type Configuration, describe, threadsOf } from '../optimizer/configuration.js';
import { optimize } from '../optimizer/packrat.js';
import type { Profile } from '../optimizer/profile.js';
import type { TuneResult } from '../serving/tuning.js';
import { choiceOption, command, numberOption, UsageError } from './command.js';
import { parseSlo, positiveOption, wholeOption } from './load.js';
import { lineChart } from './plot.js';
import { parseDims, printProfile, profileOptions, same, sourceOf, tuneProgress, withModel } from './profiles.js';
import { figure, writePlot } from './report.js';
import { readProfile } from './sources.js';
import { note, print, printJson, table } from './terminal.js';

const objectives = ['makespan', 'mean', 'p99', 'threads', 'throughput'] as const;
type TuneObjective = (typeof objectives)[number];

export const tune = command({
  name: 'tune',
  synopsis: 'MODEL | --profile FILE',
  summary: 'profile, choose instances, threads and batch, explain',
  details: `
Measures how long batches take with how many threads, alone and beside each other, and chooses. The default objective,
makespan, is one batch of --batch rows as fast as possible (Packrat); mean and p99 are latencies at --rate requests a
second; threads is the fewest that keep --slo at --rate; throughput the most requests a second within --slo.

Measurements are kept in the user's cache folder and used again; --fresh measures anew. FILE holds { threads: { batch: ms } }
or what --save wrote; FILE.json#name names one of several.`,
  positionals: [0, 1],
  options: {
    ...profileOptions,
    batch: { type: 'string', value: 'B', help: 'rows of the batch, and most rows measured; default 16' },
    objective: { type: 'string', value: 'O', help: `${objectives.join(', ')}; default makespan` },
    rate: { type: 'string', value: 'λ', help: 'requests a second' },
    slo: { type: 'string', value: 'p99=MS', help: 'what p99 or mean must stay below' },
    sizes: { type: 'string', value: 'SIZES', help: 'of makespan: any (default), or only measured batch sizes' },
    budget: { type: 'string', value: 'S', help: 'seconds that measuring may take; default 30' },
    dims: { type: 'string', multiple: true, value: 'NAME=N', help: 'size of a dimension that has a name' },
    fresh: { type: 'boolean', help: 'measure, though there is a stored profile' },
    save: { type: 'string', value: 'FILE', help: 'write the profile as JSON' },
    plot: { type: 'string', value: 'FILE.svg', help: 'draw time against batch for every thread count' },
  },
  async run({ positionals, options, json }) {
    const source = sourceOf(positionals, options.profile);
    const objective = choiceOption(options.objective, 'objective', objectives) ?? 'makespan';
    const question: Question = {
      threads: wholeOption(options.threads, 'threads', 1),
      batch: wholeOption(options.batch, 'batch', 1) ?? 16,
      sizes: choiceOption(options.sizes, 'sizes', ['measured', 'any']) ?? 'any',
      objective,
      rate: positiveOption(options.rate, 'rate'),
      slo: parseSlo(options.slo),
    };
    if (objective !== 'makespan' && objective !== 'throughput' && question.rate === undefined)
      throw new UsageError(`--objective ${objective} needs --rate`);
    if ((objective === 'threads' || objective === 'throughput') && question.slo === undefined)
      throw new UsageError(`--objective ${objective} needs --slo`);
    let found: Answer;
    if ('profile' in source) found = fromProfile(readProfile(source.profile), question);
    else {
      const progress = tuneProgress();
      const budget = numberOption(options.budget, 'budget');
      const { threads, batch, rate, slo } = question;
      found = await withModel(source.model, threads, async (model) =>
        fromModel(
          await model.tune({
            objective,
            batch,
            dims: parseDims(options.dims),
            fresh: options.fresh === true,
            onProgress: progress.onProgress,
            ...(threads !== undefined && { threads }),
            ...(budget !== undefined && { budget }),
            ...(rate !== undefined && { arrivalRate: rate }),
            ...(slo !== undefined && { slo }),
          }),
        ),
      ).finally(progress.done);
    }
    const name = 'profile' in source ? source.profile : source.model;
    if (options.save !== undefined) {
      writeFileSync(options.save, `${JSON.stringify(found.profile)}\n`);
      note(`written: ${options.save}`);
    }
    if (options.plot !== undefined) writePlot(options.plot, chart(name, found.profile));
    if (json) printJson({ objective, ...found });
    else explain(name, objective, found);
    return 0;
  },
});

interface Question {
  readonly threads: number | undefined;
  readonly batch: number;
  readonly sizes: 'measured' | 'any';
  readonly objective: TuneObjective;
  readonly rate: number | undefined;
  readonly slo: { readonly mean?: number; readonly p99?: number } | undefined;
}

/** What was found; `measured` where candidates were run. */
interface Answer {
  readonly profile: Profile;
  readonly configuration: Configuration;
  readonly reasons: readonly string[];
  readonly candidates: readonly {
    readonly configuration: Configuration;
    readonly predicted: number;
    readonly measured?: number | undefined;
  }[];
  /** Words about the measurement; empty for a profile that was given. */
  readonly source: string;
}

function fromModel({ profile, configuration, reasons, candidates, complete, source }: TuneResult): Answer {
  const how =
    source === 'stored'
      ? 'measured before, and stored'
      : complete
        ? 'measured now'
        : 'measured now, as far as the budget went';
  return { profile, configuration, reasons, candidates, source: how };
}

function fromProfile(profile: Profile, { threads, batch, sizes, objective, rate, slo }: Question): Answer {
  const most = threads ?? profile.threads.at(-1) ?? 1;
  if (objective === 'makespan') {
    const { configuration, candidates, reasons } = optimize(profile, { threads: most, batch, sizes });
    return {
      profile,
      configuration,
      reasons,
      candidates: candidates.map((c) => ({ configuration: c.configuration, predicted: c.latency })),
      source: '',
    };
  }
  const { configuration, candidates, reasons } = choose(profile, {
    threads: most,
    objective,
    maxBatch: batch,
    ...(rate !== undefined && { arrivalRate: rate }),
    ...(slo !== undefined && { slo }),
  });
  return {
    profile,
    configuration,
    reasons,
    candidates: candidates.map((c) => ({ configuration: c.configuration, predicted: c.value })),
    source: '',
  };
}

const units: Readonly<Record<TuneObjective, string>> = {
  makespan: 'ms',
  mean: 'mean ms',
  p99: 'p99 ms',
  threads: 'threads',
  throughput: 'requests/s',
};

function explain(
  name: string,
  objective: TuneObjective,
  { profile, configuration, reasons, candidates, source }: Answer,
): void {
  print(`${name}${source === '' ? '' : `, ${source}`}`);
  print();
  printProfile(profile);
  print();
  const run = candidates.some((c) => c.measured !== undefined);
  const rows = candidates.map((c) => [
    describe(c.configuration),
    threadsOf(c.configuration),
    figure(c.predicted),
    ...(run ? [c.measured === undefined ? '' : figure(c.measured)] : []),
    same(c.configuration, configuration) ? '<--' : '',
  ]);
  const head = ['candidate', 'threads', `predicted, ${units[objective]}`, ...(run ? ['measured, ms'] : []), ''];
  for (const line of table(head, rows)) print(line);
  print();
  for (const reason of reasons) print(`${reason}.`);
}

function chart(name: string, profile: Profile): string {
  return lineChart({
    title: 'Time of a batch',
    subtitle: name,
    x: { title: 'rows of the batch', scale: 'log' },
    y: { title: 'ms', scale: 'log' },
    series: profile.threads.slice(0, 20).map((t, i) => ({
      name: t === 1 ? '1 thread' : `${t} threads`,
      points: profile.sizes(t).map((b) => [b, profile.measured(t, b)!] as const),
      dots: true,
      dashed: i >= 8,
    })),
  });
}
