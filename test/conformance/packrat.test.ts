// Packrat's published profiles (ICML 2025; a Xeon machine of 16 cores): its Table 2 to the digit, and our improvements.
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { choose } from '../../src/optimizer/choose.js';
import { instancesOf, keyOf } from '../../src/optimizer/configuration.js';
import { optimize } from '../../src/optimizer/packrat.js';
import type { LatencyTable } from '../../src/optimizer/profile.js';
import { dataFolder, hasData } from '../data.js';

if (hasData) {
  const file = path.join(dataFolder, 'packrat/profiles-c6420.json');
  const profiles = JSON.parse(readFileSync(file, 'utf8')) as { [model: string]: LatencyTable };
  const batches = [8, 16, 32, 64, 128, 256, 512, 1024];

  for (const [threads, expected] of [
    [16, [33.4, 48.7, 76.7, 114.1, 201.0, 343.9, 621.1, 1179.6]],
    [14, [36.5, 60.5, 97.0, 168.6, 278.3, 467.8, 852.8, 1621.8]],
  ] as const) {
    test(`Table 2: BERT on ${threads} threads`, () => {
      batches.forEach((batch, i) => {
        const { latency } = optimize(profiles.bert, { threads, batch, sizes: 'measured' });
        assert.ok(Math.abs(latency - expected[i]) <= 0.1, `B=${batch}: ${latency} ms, published ${expected[i]} ms`);
      });
    });
  }

  test('Table 2: the choices on 16 threads', () => {
    const choices = batches.map((batch) =>
      keyOf(optimize(profiles.bert, { threads: 16, batch, sizes: 'measured' }).configuration),
    );
    assert.equal(choices, ['2,8,4', '4,4,4', '4,4,8', '4,4,16', '4,4,32', '8,2,32', '8,2,64', '8,2,128']);
  });

  test('idle threads: Inception at B=1 takes 12 of 16', () => {
    for (const sizes of ['measured', 'any'] as const) {
      assert.is(keyOf(optimize(profiles.inception, { threads: 16, batch: 1, sizes }).configuration), '1,12,1');
    }
  });

  test('interference 1.3: GPT-2 at B=8 falls back to the fat instance', () => {
    const isolated = optimize(profiles.gpt2, { threads: 16, batch: 8 });
    assert.ok(instancesOf(isolated.configuration) > 1);
    assert.ok(Math.abs(isolated.fat!.latency / isolated.latency - 1.12) < 0.005);
    const judged = optimize({ latency: profiles.gpt2, interference: { 2: 1.3 } }, { threads: 16, batch: 8 });
    assert.is(keyOf(judged.configuration), '1,16,8');
  });

  test('any batch size: ResNet at B=24 is at least 5 % better than with measured sizes', () => {
    const measured = optimize(profiles.resnet, { threads: 16, batch: 24, sizes: 'measured' }).latency;
    assert.ok(optimize(profiles.resnet, { threads: 16, batch: 24, sizes: 'any' }).latency <= 0.95 * measured);
  });

  test('never worse than fat, nor than one-thread instances', () => {
    for (const [model, latency] of Object.entries(profiles)) {
      for (const batch of [1, 2, 3, 8, 16, 24, 48, 100, 128, 1000, 1024]) {
        const result = optimize(latency, { threads: 16, batch });
        assert.ok(result.latency <= result.fat!.latency, `${model} B=${batch}`);
        const one = batch >= 16 && batch % 16 === 0 ? latency[1][batch / 16] : undefined;
        if (one !== undefined)
          assert.ok(result.latency <= one * 1.0000001, `${model} B=${batch}: one-thread instances ${one} ms`);
      }
    }
  });

  test('P1: speed-up by threads stays below their number, but for two entries where each thread reads half the weights', () => {
    const beyond: string[] = [];
    for (const [model, latency] of Object.entries(profiles)) {
      for (const [t, row] of Object.entries(latency)) {
        for (const [b, ms] of Object.entries(row as { [b: string]: number })) {
          const speedUp = latency[1][Number(b)] / ms;
          if (Number(t) > 1 && speedUp > Number(t)) beyond.push(`${model} t=${t} b=${b}: ${speedUp.toFixed(2)}`);
        }
      }
    }
    assert.equal(beyond, ['inception t=2 b=8: 2.02', 'gpt2 t=2 b=16: 2.07']);
  });

  test('S4: a low load picks threads, a high one instances', () => {
    for (const model of ['resnet', 'inception', 'bert', 'gpt2']) {
      const pick = (arrivalRate: number) =>
        choose(profiles[model], { threads: 16, batches: [1], arrivalRate }).configuration[0];
      const most = choose(profiles[model], { threads: 16, batches: [1], arrivalRate: 1e9 }).prediction.capacity;
      assert.is(pick(0.01 * most).instances, 1, model);
      assert.ok(pick(0.97 * most).instances > 1, model);
    }
  });
}

test.run();
