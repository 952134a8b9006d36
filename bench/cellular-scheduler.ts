// What a decision costs: nodes a second through unfold, schedule, complete and free, with no kernels at all.
//
//   node dist/bench/cellular-scheduler.js
//
// Time is this process's CPU time, so that other work on the machine counts little. Requests are kept at `live` in flight: when one ends another begins. Wanted: 10 M nodes/s for chains and 3 M for
// graphs at batch 8 and above.
import { arch, cpus, platform } from 'node:os';
import { Scheduler } from '../src/cellular/scheduler.js';
import { sizeOf, Unfolder, type Unfolding } from '../src/cellular/unfold.js';

/** A left-leaning, a balanced and a mixed tree share this maker: leaves are merged two by two at a position. */
function tree(leaves: number, at: (left: number) => number): Int32Array {
  const parents: number[] = new Array(leaves).fill(-1);
  const open = Array.from({ length: leaves }, (_, i) => i);
  while (open.length > 1) {
    const i = at(open.length - 1);
    const inner = parents.push(-1) - 1;
    for (const child of open.splice(i, 2, inner)) parents[child] = inner;
  }
  return Int32Array.from(parents);
}

/** A stack of layers over time as a graph: node (l, t) needs (l − 1, t) and (l, t − 1). Every inner node has two readers. */
function grid(layers: number, steps: number): Unfolding {
  const nodes = [];
  for (let t = 0; t < steps; t++)
    for (let l = 0; l < layers; l++) {
      const at = t * layers + l;
      nodes.push({ type: l, inputs: [...(l > 0 ? [at - 1] : []), ...(t > 0 ? [at - layers] : [])] });
    }
  return { kind: 'graph', nodes };
}

function measure(
  name: string,
  u: Unfolding,
  nodesPerRequest: number,
  batch: number,
  live: number,
  wanted: number,
): void {
  const size = sizeOf(u);
  const s = Scheduler.create({
    cells: Array.from({ length: 4 }, () => ({ maxBatch: batch })),
    requests: live,
    parts: live * size.parts,
    nodes: Math.max(1, live * size.nodes),
    edges: live * size.edges,
    rows: live * size.rows,
  });
  const unfolder = new Unfolder();
  const run = (requests: number): number => {
    const started = process.cpuUsage();
    let begun = 0;
    for (; begun < Math.min(live, requests); begun++) unfolder.unfold(s, u, begun);
    for (let ended = 0; ended < requests; ) {
      s.schedule(0);
      s.complete(0);
      for (let r = s.nextEnded(); r >= 0; r = s.nextEnded()) {
        s.free(r);
        ended += 1;
        if (begun < requests) unfolder.unfold(s, u, begun++);
      }
    }
    const { user, system } = process.cpuUsage(started);
    return (requests * nodesPerRequest) / (user + system);
  };
  const requests = Math.ceil(1_500_000 / nodesPerRequest);
  run(Math.ceil(requests / 4));
  const rates = Array.from({ length: 5 }, () => run(requests)).sort((a, b) => a - b);
  const median = rates[2]!;
  console.log(
    `${name.padEnd(34)} batch ${String(batch).padStart(2)}  ${String(live).padStart(5)} live  ` +
      `${median.toFixed(1).padStart(6)} M nodes/s  (best ${rates[4]!.toFixed(1)})${median < wanted ? `  below ${wanted}` : ''}`,
  );
}

console.log(`${cpus()[0]?.model ?? arch()} × ${cpus().length}, ${platform()} ${arch()}, Node ${process.version}`);
const balanced = tree(32, () => 0);
let seed = 1;
const mixed = tree(20, (n) => {
  seed = (seed * 48_271) % 2_147_483_647;
  return seed % n;
});
for (const batch of [1, 8, 32])
  for (const live of [64, 4096]) {
    measure('chain of 25', { kind: 'chain', type: 0, length: 25 }, 25, batch, live, batch >= 8 ? 10 : 0);
    const seq: Unfolding = { kind: 'encoder-decoder', encoder: 0, decoder: 1, source: 13, maximum: 13 };
    measure('encoder–decoder 13 + 13', seq, 26, batch, live, batch >= 8 ? 10 : 0);
    const trees: [string, Int32Array][] = [
      ['tree, 32 leaves, left first', balanced],
      ['tree, 20 leaves, random', mixed],
    ];
    for (const [name, parents] of trees)
      measure(name, { kind: 'tree', leaf: 0, inner: 1, parents }, parents.length, batch, live, batch >= 8 ? 3 : 0);
    measure('graph, 4 layers × 10 steps', grid(4, 10), 40, batch, live, batch >= 8 ? 3 : 0);
  }
