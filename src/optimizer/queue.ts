// The queue, simulated: requests in one line, instances that take what is ready up to their batch and never wait to fill.
// It knows no cells and no kernels, only L[t][n] and S[k]; the simulator proper drives the whole system.
//
// Interference changes a batch's speed while it runs, whenever a neighbour starts or ends. All running batches are slowed
// alike, so they share one odometer V that advances by 1/S[busy] a millisecond: a batch that starts at V ends at
// V + L[t][n], whatever happens in between, and the next to end is the least of those numbers in a heap.
//
//   time ───▶ arrival ── start ── end ──▶        next event = min(next arrival, tick, now + (V_min − V)·S[busy])
import { type Configuration, instancesOf } from './configuration.js';
import type { Profile } from './profile.js';

/** A configuration as the queue sees it. */
export interface QueueSystem {
  readonly groups: readonly {
    readonly instances: number;
    readonly threads: number;
    readonly batch: number;
    /** L[t][n] in ms for n = 1…batch at index n (index 0 unused). */
    readonly times: Float64Array;
  }[];
  /** Interference factor while k instances are busy, k = 0…c; [0] and [1] are 1. */
  readonly factors: Float64Array;
}

/** Looks up what the queue needs; fastest instances first (an idle one of them is preferred). */
export function queueSystem(profile: Profile, configuration: Configuration): QueueSystem {
  const c = instancesOf(configuration);
  const factors = new Float64Array(c + 1).fill(1);
  for (let k = 2; k <= c; k++) {
    for (const g of configuration) factors[k] = Math.max(factors[k], profile.factor(k, g.threads, g.batch));
  }
  const groups = configuration.map((g) => {
    const times = new Float64Array(g.batch + 1);
    for (let n = 1; n <= g.batch; n++) times[n] = profile.latency(g.threads, n);
    return { ...g, times };
  });
  return { groups: groups.sort((x, y) => x.times[1] - y.times[1]), factors };
}

/** The highest rate of requests a second that every instance always taking a full batch keeps up with. */
export function capacity({ groups, factors }: QueueSystem): number {
  const each = groups.reduce((sum, g) => sum + (g.instances * g.batch) / g.times[g.batch], 0);
  return (1000 * each) / factors[factors.length - 1];
}

/** What a controller may see and do while a queue runs. Times in ms. */
export interface QueueHooks {
  /** Threads that a change of system may use; default, and at least, those of the system at the start. */
  readonly threads?: number;
  /** Called with each arrival. */
  readonly arrived?: (time: number) => void;
  /** Called with each batch that ended: its rows, how long it took, and how many instances were busy, on average. */
  readonly served?: (batch: { time: number; threads: number; rows: number; ms: number; busy: number }) => void;
  /** Called every `every` ms; an answer is the system to change over to. */
  readonly tick?: { readonly every: number; readonly call: (time: number, queued: number) => QueueSystem | undefined };
}

export interface QueueRun {
  /** ms from arrival to end, by request. */
  readonly latencies: Float64Array;
  /** When the last request ended, ms. */
  readonly end: number;
  /** Batches run. */
  readonly batches: number;
  /** Mean number of busy instances. */
  readonly busy: number;
  /** Mean time in service, ms a request. */
  readonly service: number;
}

/**
 * Runs the queue over given arrivals (ms, ascending) until every request is done. On a change of system the old instances
 * finish what they hold and take nothing more; new ones start as the old ones' threads become free.
 */
export function runQueue(arrivals: Float64Array, start: QueueSystem, hooks: QueueHooks = {}): QueueRun {
  const latencies = new Float64Array(arrivals.length);
  let factors = start.factors;
  let kinds: { times: Float64Array; batch: number; threads: number; idle: number[]; old: boolean }[] = [];
  let unborn: { kind: number; threads: number }[] = []; // instances waiting for threads of old ones
  let spare = Math.max(
    hooks.threads ?? 0,
    start.groups.reduce((sum, g) => sum + g.instances * g.threads, 0),
  );
  const kindOf: number[] = []; // by slot
  const finish: number[] = []; // by slot, on the odometer
  const first: number[] = []; // by slot: first request held
  const rows: number[] = [];
  const began: number[] = [];
  const crowd: number[] = []; // by slot: the integral of busy when it began
  const heap: number[] = []; // busy slots, least finish first
  let now = 0;
  let odometer = 0;
  let arrived = 0;
  let taken = 0;
  let batches = 0;
  let busyTime = 0;
  let serviceTime = 0;

  const advance = (to: number) => {
    const busy = heap.length;
    busyTime += (to - now) * busy;
    odometer += (to - now) / factors[Math.min(busy, factors.length - 1)];
    now = to;
  };
  const push = (slot: number) => {
    let i = heap.length;
    for (; i > 0; ) {
      const parent = (i - 1) >> 1;
      if (finish[heap[parent]] <= finish[slot]) break;
      heap[i] = heap[parent];
      i = parent;
    }
    heap[i] = slot;
  };
  const pop = () => {
    const slot = heap[0];
    const moved = heap.pop()!;
    const n = heap.length;
    if (n > 0) {
      let i = 0;
      for (let child = 1; child < n; child = 2 * i + 1) {
        if (child + 1 < n && finish[heap[child + 1]] < finish[heap[child]]) child++;
        if (finish[heap[child]] >= finish[moved]) break;
        heap[i] = heap[child];
        i = child;
      }
      heap[i] = moved;
    }
    return slot;
  };
  /** Gives an idle slot what is ready. */
  const begin = (slot: number) => {
    const kind = kinds[kindOf[slot]];
    const n = Math.min(arrived - taken, kind.batch);
    first[slot] = taken;
    rows[slot] = n;
    taken += n;
    began[slot] = now;
    crowd[slot] = busyTime;
    finish[slot] = odometer + kind.times[n];
    batches++;
    push(slot);
  };
  const serve = () => {
    for (const kind of kinds) {
      while (!kind.old && kind.idle.length > 0 && arrived > taken) begin(kind.idle.pop()!);
    }
  };
  const settle = () => {
    while (unborn.length > 0 && unborn[0].threads <= spare) {
      const { kind, threads } = unborn.shift()!;
      spare -= threads;
      const slot = kindOf.push(kind) - 1;
      kinds[kind].idle.push(slot);
    }
    serve();
  };
  const change = (system: QueueSystem) => {
    for (const kind of kinds) {
      if (!kind.old) spare += kind.idle.length * kind.threads;
      kind.idle = [];
      kind.old = true;
    }
    if (heap.length === 0) kinds = [];
    factors = system.factors;
    unborn = [];
    for (const g of system.groups) {
      const kind = kinds.push({ times: g.times, batch: g.batch, threads: g.threads, idle: [], old: false }) - 1;
      for (let i = 0; i < g.instances; i++) unborn.push({ kind, threads: g.threads });
    }
    settle();
  };
  change(start);

  const { tick } = hooks;
  let nextTick = tick === undefined ? Number.POSITIVE_INFINITY : tick.every;
  while (arrived < arrivals.length || heap.length > 0) {
    const arrival = arrived < arrivals.length ? arrivals[arrived] : Number.POSITIVE_INFINITY;
    const busy = heap.length;
    const end =
      busy > 0
        ? now + Math.max(0, finish[heap[0]] - odometer) * factors[Math.min(busy, factors.length - 1)]
        : Number.POSITIVE_INFINITY;
    if (nextTick < arrival && nextTick < end) {
      advance(nextTick);
      nextTick += tick!.every;
      const system = tick!.call(now, arrived - taken);
      if (system !== undefined) change(system);
    } else if (arrival <= end) {
      advance(arrival);
      arrived++;
      hooks.arrived?.(now);
      if (arrived - taken === 1) serve();
    } else {
      advance(end);
      const slot = pop();
      const kind = kinds[kindOf[slot]];
      const n = rows[slot];
      serviceTime += n * (now - began[slot]);
      for (let i = first[slot], stop = i + n; i < stop; i++) latencies[i] = now - arrivals[i];
      if (hooks.served) {
        const ms = now - began[slot];
        hooks.served({
          time: now,
          threads: kind.threads,
          rows: n,
          ms,
          busy: ms > 0 ? (busyTime - crowd[slot]) / ms : busy,
        });
      }
      if (kind.old) {
        spare += kind.threads;
        settle();
      } else if (arrived > taken) begin(slot);
      else kind.idle.push(slot);
    }
  }
  return {
    latencies,
    end: now,
    batches,
    busy: now > 0 ? busyTime / now : 0,
    service: serviceTime / Math.max(1, taken),
  };
}
