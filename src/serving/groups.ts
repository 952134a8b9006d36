// A configuration as somebody wrote it, checked against what the engine has.
import { type Configuration, threadsOf } from '../optimizer/configuration.js';
import { SkepError } from '../tensor/errors.js';
import { MOST_ROWS } from './dispatch.js';

/** The groups; throws INVALID_INPUT that says what is wrong. `threads`: what all may use together. */
export function checkGroups(configuration: Configuration, threads: number): Configuration {
  if (!Array.isArray(configuration) || configuration.length === 0)
    throw invalid('expected a list of { instances, threads, batch }, at least one');
  const groups = configuration.map((group: Partial<Configuration[number]> | null, i) => {
    const where = configuration.length === 1 ? '' : `group ${i}: `;
    const number = (key: 'instances' | 'threads' | 'batch'): number => {
      const value = group?.[key];
      if (!Number.isInteger(value) || value! < 1)
        throw invalid(`${where}${key} must be a positive integer, got ${String(value)}`);
      return value!;
    };
    const checked = { instances: number('instances'), threads: number('threads'), batch: number('batch') };
    if (checked.batch > MOST_ROWS) throw invalid(`${where}batch must be at most ${MOST_ROWS}, got ${checked.batch}`);
    return checked;
  });
  if (threadsOf(groups) > threads) {
    const parts = groups.map((g) => `${g.instances} × ${g.threads}`).join(' + ');
    throw invalid(`${parts} threads are more than the engine's ${threads}`);
  }
  return groups;
}

function invalid(message: string): SkepError {
  return new SkepError('INVALID_INPUT', `configuration: ${message}`);
}
