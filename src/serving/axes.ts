// Where the batch of a request may be: guessed from the dimensions a model declares of its inputs, which costs nothing. Whether
// requests may be joined there is for the proof to say (batching.ts).
import type { ValueInfo } from '../graph/graph.js';

/** Along which axis each input of a model has its batch; undefined: none, all requests must give the same. */
export type Axes = readonly (number | undefined)[];

/** The batch axes worth trying, best first, from what a model declares of its inputs. */
export function candidateAxes(inputs: readonly ValueInfo[]): Axes[] {
  const dims = inputs.map((v) => (v.type?.kind === 'tensor' ? v.type.dims : undefined));
  const named: { name: string; axis: number }[] = [];
  for (const d of dims)
    d?.forEach((name, axis) => {
      if (typeof name === 'string' && name !== '' && !named.some((n) => n.name === name)) named.push({ name, axis });
    });
  // A leading dimension is likelier a batch than a length.
  named.sort((a, b) => a.axis - b.axis);
  const found: Axes[] = [];
  const add = (axes: Axes) => {
    if (axes.some((a) => a !== undefined) && !found.some((f) => f.every((a, i) => a === axes[i]))) found.push(axes);
  };
  const axisOf = (test: (d: number | string | null) => boolean): Axes =>
    dims.map((d) => {
      const axis = d?.findIndex(test) ?? -1;
      return axis < 0 ? undefined : axis;
    });
  for (const { name } of named) add(axisOf((d) => d === name));
  // No names: the first dimension each input leaves open, [2, ?, 128] its second.
  add(axisOf((d) => typeof d !== 'number'));
  // Nothing is left open: a network exported for one row. Whether it runs with more is for the proof to say.
  add(dims.map((d) => (d !== undefined && d.length > 0 && (typeof d[0] !== 'number' || d[0] === 1) ? 0 : undefined)));
  return found;
}
