// The virtual experiments that need real lengths and trees: sentences of WikiText-2, German–English captions of
// Multi30k, parse trees of the Stanford Sentiment Treebank, arrivals of Azure's conversation service.
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { Priority } from '../../src/cellular/priority.js';
import { arrivals } from '../../src/simulator/arrivals.js';
import { Random } from '../../src/simulator/random.js';
import { simulate } from '../../src/simulator/simulate.js';
import { chains, drawFrom } from '../../src/simulator/workload.js';
import { dataFolder, hasData } from '../data.js';
import {
  buckets,
  capacityOf,
  cellular,
  depthWise,
  oneByOne,
  padding,
  run,
  type Setup,
  saturated,
} from '../simulator/experiments.js';
import { captions, parses, sentences } from '../simulator/real-workloads.js';
import { decoder1024, lstm256, lstm1024, treeInner1024, treeLeaf1024 } from '../simulator/step-costs.js';

const p90 = (r: { stable: boolean; latency: { p90: number } }): number =>
  r.stable ? r.latency.p90 : Number.POSITIVE_INFINITY;

if (hasData) {
  for (const [name, steps, least] of [
    ['hidden 1024', [lstm1024], [1.5, 2.5, 4]],
    ['hidden 256', [lstm256], [1.2, 1.8, 4]],
  ] as const) {
    test(`B2: ${name}, sentences of WikiText-2`, () => {
      const setup: Setup = { items: chains(sentences(dataFolder)), steps };
      const half = run(setup, 0.5, cellular()).latency.p90;
      assert.ok(half <= 2 * run(setup, 0.1, cellular()).latency.p90);
      assert.ok(run(setup, 0.95, cellular()).stable);
      assert.not.ok(run(setup, 0.9, buckets()).stable);
      [0.5, 0.7, 0.8].forEach((load, i) => {
        const ratio = p90(run(setup, load, buckets())) / run(setup, load, cellular()).latency.p90;
        assert.ok(ratio >= least[i]!, `at ${load}: ${ratio}`);
      });
      const r = run(setup, 0.79, cellular());
      assert.ok(r.queueing.p50 <= 2 * r.batch.stepTime, 'B4');
    });
  }

  test('B6: captions of Multi30k: the default priority is the best of all, over loads, batches and instances', () => {
    const sums = new Map<Priority, number>();
    for (const instances of [1, 2])
      for (const maxBatch of [4, 32])
        for (const load of [0.5, 0.9])
          for (const priority of Object.values(Priority)) {
            const setup: Setup = {
              items: captions(dataFolder),
              steps: [lstm1024, decoder1024],
              instances,
              maxBatch,
              requests: 1500,
            };
            const r = run(setup, load, cellular({ priority }));
            sums.set(priority, (sums.get(priority) ?? 0) + (r.stable ? r.latency.mean : Number.POSITIVE_INFINITY));
          }
    assert.is([...sums].sort((a, b) => a[1] - b[1])[0]![0], Priority.fullest);
  });

  test('B7: parse trees: better than depth-wise closed batches and one by one', () => {
    const setup: Setup = {
      items: parses(dataFolder),
      steps: [treeLeaf1024, treeInner1024],
      maxBatch: 8,
      requests: 2000,
    };
    const throughput = saturated(setup, cellular());
    for (const rival of [depthWise(4), depthWise(16), oneByOne]) {
      assert.ok(throughput > saturated(setup, rival));
      for (const load of [0.5, 0.7, 0.8]) {
        const cells = run(setup, load, cellular()).latency;
        const r = run(setup, load, rival);
        assert.ok(cells.mean < r.latency.mean && cells.p90 < p90(r), `at ${load}`);
      }
    }
  });

  test('recorded arrivals, burstier than Poisson: cellular still ahead of padding and buckets', () => {
    const trace = JSON.parse(readFileSync(path.join(dataFolder, 'workloads/azure-llm-2023.json'), 'utf8'));
    const gaps: number[] = trace.traces.conv.first2000_gapms_ctx_gen.map((row: number[]) => row[0]);
    const setup: Setup = { items: chains(sentences(dataFolder)), steps: [lstm1024] };
    const due = arrivals({ kind: 'trace', gaps, rate: 0.6 * capacityOf(setup) }, 2000, new Random(1));
    const [cells, bucket, pad] = [cellular(), buckets(), padding].map((make) =>
      simulate({ policy: make(setup), cost: { steps: setup.steps }, arrivals: due, item: drawFrom(setup.items, 2) }),
    );
    assert.is(cells!.requests.finished, 2000);
    assert.ok(cells!.latency.p90 < bucket!.latency.p90 && cells!.latency.p90 < pad!.latency.p90);
  });
} else test('skipped: no test data', () => {});

test.run();
