// What running a cell costs in virtual time. A cost is a function of the rows in the batch, given by a few measured
// points; between them it is linear, above the last it goes on with the last slope.

import type { CellCall } from '../cellular/policy.js';

/** Milliseconds of one call of a cell, by rows. */
export type StepCost = (rows: number) => number;

/** `{ 1: 1.5, 4: 2.5, 8: 4.8 }`: ms by rows. */
export function table(points: Readonly<Record<number, number>>): StepCost {
  const rows = Object.keys(points)
    .map(Number)
    .sort((a, b) => a - b);
  if (rows.length === 0) throw new RangeError('a cost table needs a point');
  const ms = rows.map((r) => points[r]!);
  const costs: number[] = []; // by rows, as far as they have been asked for
  return (n) => (costs[n] ??= interpolate(rows, ms, n));
}

function interpolate(rows: readonly number[], ms: readonly number[], n: number): number {
  if (rows.length === 1 || n <= rows[0]!) return ms[0]!;
  let i = rows.findIndex((r) => n <= r);
  if (i < 0) i = rows.length - 1;
  const [r0, r1, c0, c1] = [rows[i - 1]!, rows[i]!, ms[i - 1]!, ms[i]!];
  return c0 + ((n - r0) * (c1 - c0)) / (r1 - r0);
}

/** As a GPU: nearly flat up to `width` rows, in proportion to them above. */
export function flat(ms: number, width: number): StepCost {
  return (n) => ms * Math.max(1, n / width);
}

/** The knee: the smallest batch up to `limit` that reaches 95 % of the most rows a millisecond. */
export function knee(cost: StepCost, limit: number): number {
  let peak = 0;
  for (let n = 1; n <= limit; n++) peak = Math.max(peak, n / cost(n));
  let n = 1;
  while (n / cost(n) < 0.95 * peak) n += 1;
  return n;
}

export interface CostModel {
  /** One cost a cell type. */
  readonly steps: readonly StepCost[];
  /** What a piece of work costs beyond its calls: the dispatch. Ms, default 0. */
  readonly dispatch?: number;
  /** Factor when k instances run at once, from k = 1; the last holds for more. Default 1. */
  readonly interference?: readonly number[];
}

/** Milliseconds of a piece of work while `busy` instances (this one among them) run. */
export function costOf(model: CostModel, calls: readonly CellCall[], busy: number): number {
  let ms = model.dispatch ?? 0;
  for (const { type, rows, times } of calls) ms += times * model.steps[type]!(rows);
  const factors = model.interference ?? [];
  return factors.length === 0 ? ms : ms * factors[Math.min(busy, factors.length) - 1]!;
}
