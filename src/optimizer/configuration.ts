// A configuration: which instances serve a model. A multiset of <instances, threads, batch>, written as a list of groups.
import { integerArgument, OptimizerError } from './errors.js';
import { MAX_BATCH, MAX_THREADS } from './profile.js';

/** Equal instances of a configuration: how many, with how many threads each, computing how many rows at once. */
export interface InstanceGroup {
  readonly instances: number;
  readonly threads: number;
  /** Rows of concurrent requests computed together at most. A request that has more rows itself runs alone. */
  readonly batch: number;
}

/** The groups, more threads first, larger batches first. */
export type Configuration = readonly InstanceGroup[];

/** Number of instances. */
export function instancesOf(configuration: Configuration): number {
  return configuration.reduce((sum, g) => sum + g.instances, 0);
}

/** Number of threads used, Σ i·t. */
export function threadsOf(configuration: Configuration): number {
  return configuration.reduce((sum, g) => sum + g.instances * g.threads, 0);
}

/** Rows taken in one round, Σ i·b. */
export function batchOf(configuration: Configuration): number {
  return configuration.reduce((sum, g) => sum + g.instances * g.batch, 0);
}

/** Groups single instances: equal ones together, more threads first, then larger batches. */
export function groupInstances(items: Iterable<{ threads: number; batch: number }>): Configuration {
  const groups = new Map<string, { instances: number; threads: number; batch: number }>();
  for (const { threads, batch } of items) {
    const key = `${threads},${batch}`;
    const group = groups.get(key);
    if (group) group.instances++;
    else groups.set(key, { instances: 1, threads, batch });
  }
  return [...groups.values()].sort((x, y) => y.threads - x.threads || y.batch - x.batch);
}

/** In words: `2 × 8 threads, batch 4 + 1 × 4 threads, batch 2`. */
export function describe(configuration: Configuration): string {
  return configuration
    .map((g) => `${g.instances} × ${g.threads} ${g.threads === 1 ? 'thread' : 'threads'}, batch ${g.batch}`)
    .join(' + ');
}

/** A key that is equal exactly for equal configurations in canonical order. */
export function keyOf(configuration: Configuration): string {
  return configuration.map((g) => `${g.instances},${g.threads},${g.batch}`).join(' ');
}

/** Checks a configuration that came from outside; throws INVALID_ARGUMENT. */
export function checkConfiguration(value: unknown): Configuration {
  if (!Array.isArray(value) || value.length === 0 || value.length > MAX_THREADS) {
    throw new OptimizerError(
      'INVALID_ARGUMENT',
      `configuration: expected 1 to ${MAX_THREADS} groups of { instances, threads, batch }`,
    );
  }
  const groups = value.map((group: unknown, i): InstanceGroup => {
    const g = (typeof group === 'object' && group !== null ? group : {}) as { readonly [key: string]: unknown };
    return {
      instances: integerArgument(`configuration[${i}].instances`, g.instances, 1, MAX_THREADS),
      threads: integerArgument(`configuration[${i}].threads`, g.threads, 1, MAX_THREADS),
      batch: integerArgument(`configuration[${i}].batch`, g.batch, 1, MAX_BATCH),
    };
  });
  integerArgument('configuration: instances in all', instancesOf(groups), 1, MAX_THREADS);
  return groups;
}
