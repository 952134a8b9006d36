// Where `tune` and `predict` have a profile from: a file, what an earlier `tune` has stored, or a measurement now. And how
// a profile is printed.
import { describe, keyOf } from '../optimizer/configuration.js';
import type { Profile } from '../optimizer/profile.js';
import { Engine } from '../serving/engine.js';
import type { Model } from '../serving/model.js';
import type { TuneProgress } from '../serving/tuning.js';
import { type Option, UsageError } from './command.js';
import { checkModelFile, splitAssignment } from './files.js';
import { wholeOption } from './load.js';
import { figure } from './report.js';
import { Progress, print, table } from './terminal.js';

export const profileOptions = {
  profile: { type: 'string', value: 'FILE', help: 'instead of MODEL: what was measured elsewhere' },
  threads: {
    type: 'string',
    value: 'T',
    help: 'threads there are; default: this machine’s, or the most in the profile',
  },
} as const satisfies Record<string, Option>;

/** Exactly one of a model and a profile. Throws UsageError. */
export function sourceOf(
  positionals: readonly string[],
  profile: string | undefined,
): { model: string } | { profile: string } {
  const [model] = positionals;
  if ((model === undefined) === (profile === undefined)) throw new UsageError('give either MODEL or --profile FILE');
  return model === undefined ? { profile: profile! } : { model };
}

/** Loads a model with an engine of its own, gives it away, and closes both. */
export async function withModel<T>(
  file: string,
  threads: number | undefined,
  use: (model: Model) => Promise<T>,
): Promise<T> {
  checkModelFile(file);
  await using engine = new Engine(threads === undefined ? {} : { threads });
  await using model = await engine.load(file);
  return await use(model);
}

/** `--dims name=value …` as sizes of named dimensions. Throws UsageError. */
export function parseDims(given: readonly string[] | undefined): Record<string, number> {
  const dims: Record<string, number> = Object.create(null);
  for (const text of given ?? []) {
    const [name, value] = splitAssignment(text, 'dims');
    dims[name] = wholeOption(value, 'dims', 1)!;
  }
  return dims;
}

/** Shows what is being measured. */
export function tuneProgress(): { onProgress(p: TuneProgress): void; done(): void } {
  const progress = new Progress();
  return {
    onProgress: ({ phase, configuration, milliseconds, elapsed, budget }) =>
      progress.update(
        `${elapsed.toFixed(1)} of ${budget} s, ${phase}: ${describe(configuration)}: ${figure(milliseconds)} ms`,
      ),
    done: () => progress.done(),
  };
}

/** Columns of a table of times at most; of more every second one is left out, and so on. */
const COLUMNS = 12;

/** Prints L[t][b], and S[k] where it was measured. */
export function printProfile(profile: Profile): void {
  const sizes = [...new Set(profile.threads.flatMap((t) => profile.sizes(t)))].sort((a, b) => a - b);
  const shown = sizes.length <= COLUMNS ? sizes : sizes.filter((_, i) => i % Math.ceil(sizes.length / COLUMNS) === 0);
  print(`Milliseconds of one batch, alone${shown.length < sizes.length ? ' (some batch sizes)' : ''}:`);
  const rows = profile.threads.map((t) => [
    t,
    ...shown.map((b) => {
      const ms = profile.measured(t, b);
      return ms === undefined ? '' : figure(ms);
    }),
  ]);
  for (const line of table(['threads', ...shown.map((b) => `batch ${b}`)], rows)) print(line);
  if (!profile.hasInterference) return;
  print();
  print('How many times as long while so many instances run:');
  const counts = Array.from({ length: Math.min(16, profile.measuredInstances) }, (_, i) => i + 1);
  const factors = new Map<string, readonly string[]>();
  for (const t of profile.threads) {
    const row = counts.map((k) => profile.factor(k, t, profile.sizes(t)[0]!).toFixed(2));
    factors.set(`${t} ${t === 1 ? 'thread' : 'threads'}`, row);
  }
  const alike = new Set([...factors.values()].map((r) => r.join(' '))).size === 1;
  const shownRows = alike ? [['any', ...[...factors.values()][0]!]] : [...factors].map(([name, row]) => [name, ...row]);
  for (const line of table(['instance of', ...counts.map(String)], shownRows)) print(line);
}

/** Whether two configurations are the same. */
export function same(a: Parameters<typeof keyOf>[0], b: Parameters<typeof keyOf>[0]): boolean {
  return keyOf(a) === keyOf(b);
}
