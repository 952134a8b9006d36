// Cellular batching as a policy: requests are unfolded into the scheduler, its tasks are the work. What a kernel and a
// stop token would decide is taken from the item: a decoder stops after `steps` steps.

import { extendBeam } from './beam.js';
import type { SchedulerOptions } from './options.js';
import type { CellCall, Policy, Work, WorkItem } from './policy.js';
import { Scheduler } from './scheduler.js';
import type { Task } from './task.js';
import { Unfolder } from './unfold.js';

export class CellularPolicy implements Policy {
  readonly name: string;
  readonly scheduler: Scheduler;
  readonly #unfolder = new Unfolder();
  readonly #items = new Map<number, WorkItem>();
  readonly #task: Task;
  readonly #identity: number[] = [];

  constructor(options: SchedulerOptions, name = 'cellular') {
    this.name = name;
    this.scheduler = Scheduler.create(options);
    this.#task = this.scheduler.task();
  }

  arrive(key: number, item: WorkItem): boolean {
    if (this.#unfolder.unfold(this.scheduler, item.unfolding, key) < 0) return false;
    this.#items.set(key, item);
    return true;
  }

  next(instance: number, now: number): Work | undefined {
    const s = this.scheduler;
    if (s.taskCount(instance) === 0 && s.schedule(instance, Math.floor(now)) === 0) return undefined;
    const { type, size, reason } = this.#task.moveTo(instance, 0);
    const call: CellCall = { type, rows: size, times: 1, useful: size };
    const keys = Array.from({ length: size }, (_, i) => this.#task.key(i));
    return { calls: [call], keys, reason };
  }

  complete(instance: number, _now: number, ended: number[]): void {
    const s = this.scheduler;
    const task = this.#task.moveTo(instance, 0);
    for (let i = 0; i < task.size; i++) this.#decide(task, i);
    s.complete(instance);
    for (let request = s.nextEnded(); request >= 0; request = s.nextEnded()) {
      ended.push(s.key(request));
      this.#items.delete(s.key(request));
      s.free(request);
    }
  }

  /** Stops a decoder or lets a beam go on, as the item says. */
  #decide(task: Task, i: number): void {
    const { unfolding: u, steps } = this.#items.get(task.key(i))!;
    if (u.kind === 'encoder-decoder' && task.type === u.decoder) {
      if (task.step(i) + 1 === (steps ?? u.maximum)) this.scheduler.stop(task.instance, i);
    } else if (u.kind === 'beam' && task.type === u.select) {
      if (task.tag(i) + 1 === (steps ?? u.maximum)) return;
      const { width } = u;
      while (this.#identity.length < width) this.#identity.push(this.#identity.length);
      const parents = task.tag(i) === 0 ? new Array<number>(width).fill(0) : this.#identity.slice(0, width);
      extendBeam(this.scheduler, task, i, u, parents);
    }
  }

  wakeAt(): number {
    return Number.POSITIVE_INFINITY;
  }
}
