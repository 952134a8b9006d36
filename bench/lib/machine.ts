// What machine a figure comes from: printed by every benchmark, because a figure without its machine says nothing.
import { availableParallelism, cpus, totalmem } from 'node:os';

/** One line: processor, cores, memory, Node, V8. */
export function machine(): string {
  const cpu = cpus()[0]?.model.trim() ?? 'unknown processor';
  const memory = `${Math.round(totalmem() / 2 ** 30)} GiB`;
  return `${cpu}, ${availableParallelism()} cores, ${memory}, ${process.platform} ${process.arch}, Node ${process.versions.node}, V8 ${process.versions.v8}`;
}

/** The middle value. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}
