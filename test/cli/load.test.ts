// simulate, predict and tune from a profile alone: right numbers where a formula gives them, and words for every misuse.
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { temporaryFolder } from './folders.js';
import { skep } from './program.js';

const folder = temporaryFolder();
const at = (name: string) => path.join(folder, name);

/** 10 ms alone, two threads a little less than twice as fast; a batch of 4 costs 2.5 rows. */
const profile = { latency: { 1: { 1: 10, 2: 16, 4: 25 }, 2: { 1: 6, 2: 9, 4: 14 } }, interference: { 2: 1.1, 4: 1.2 } };
writeFileSync(at('p.json'), JSON.stringify(profile));
writeFileSync(at('several.json'), JSON.stringify({ small: profile.latency, large: { latency: { 4: { 1: 50 } } } }));
const from = ['--profile', at('p.json')];

async function json(...words: string[]) {
  const { code, out, err } = await skep(...words, '--json');
  assert.is(code, 0, `${words.join(' ')}: ${err}`);
  return JSON.parse(out);
}

test('simulate: one server with constant service waits as Pollaczek and Khinchine say', async () => {
  const words = ['--batch', '1', '--rate', '50', '--duration', '1500'];
  for (const source of [from, ['--cost', '1=10']]) {
    const { runs, virtual } = await json('simulate', ...source, ...words);
    assert.is(virtual, true);
    const { report, configuration } = runs[0];
    assert.equal(configuration, [{ instances: 1, threads: 1, batch: 1 }]);
    assert.is(report.requests.finished, report.requests.arrived);
    assert.ok(Math.abs(report.requests.arrived / 75_000 - 1) < 0.02, report.requests.arrived);
    // ρ = ½: ½·ρ/(1 − ρ) services.
    assert.ok(Math.abs(report.queueing.mean / 5 - 1) < 0.06, report.queueing.mean);
    assert.ok(Math.abs(report.latency.mean - report.queueing.mean - 10) < 1e-6);
    assert.ok(Math.abs(report.utilisation - 0.5) < 0.02, report.utilisation);
    assert.ok(report.stable);
  }
});

test('simulate: constant arrivals that leave time between them never wait', async () => {
  const { runs } = await json('simulate', ...from, '--rate', '50', '--arrivals', 'constant', '--duration', '10');
  assert.is(runs[0].report.queueing.max, 0);
  assert.is(runs[0].report.latency.max, 10);
});

test('simulate: a trace comes as recorded, or scaled to a rate', async () => {
  writeFileSync(
    at('gaps.json'),
    JSON.stringify({
      requests: [
        [100, 5],
        [100, 7],
        [300, 6],
      ],
    }),
  );
  writeFileSync(at('gaps.csv'), 'gap ms, tokens\n100,5\n100,7\n300,6\n');
  for (const file of [`${at('gaps.json')}#requests.*.0`, `${at('gaps.json')}#requests`, at('gaps.csv')]) {
    const once = await json('simulate', ...from, '--arrivals', file);
    assert.is(once.runs[0].report.requests.arrived, 3);
    const scaled = await json('simulate', ...from, '--arrivals', file, '--rate', '30', '--duration', '10');
    assert.ok(Math.abs(scaled.runs[0].report.arrivalRate - 30) < 1);
  }
});

test('simulate: policies see the same requests; cells need no padding', async () => {
  const lengths = [
    '--lengths',
    'lognormal:20:0.8:100',
    '--rate',
    '20,40',
    '--duration',
    '60',
    '--cost',
    '1=1,4=1.6,8=3',
  ];
  const { runs } = await json('simulate', ...lengths, '--policy', 'cellular,bucket,pad,timeout,none', '--batch', '6');
  assert.is(runs.length, 10);
  const of = (policy: string, rate: number) =>
    runs.find((r: { policy: string; rate: number }) => r.policy === policy && r.rate === rate);
  for (const rate of [20, 40]) {
    const arrived = new Set(
      runs
        .filter((r: { rate: number }) => r.rate === rate)
        .map((r: { report: { requests: { arrived: number } } }) => r.report.requests.arrived),
    );
    assert.is(arrived.size, 1);
    assert.ok(of('cellular', rate).report.latency.p90 < of('pad', rate).report.latency.p90);
    assert.is(of('cellular', rate).report.batch.useful, 1);
    assert.ok(of('pad', rate).report.batch.useful < 1);
    assert.is(of('none', rate).report.batch.mean, 1);
  }
  writeFileSync(at('pairs.json'), '[[3, 4], [5, 2]]');
  const two = await json(
    'simulate',
    '--lengths',
    at('pairs.json'),
    '--cost',
    '1=1',
    '--cost',
    '1=2',
    '--rate',
    '1',
    '--arrivals',
    'constant',
    '--duration',
    '20',
  );
  assert.is(two.runs[0].report.latency.max, 3 + 8);
});

test('simulate: a configuration of several groups, and a controller that moves to more instances under load', async () => {
  const mixed = await json('simulate', ...from, '--configuration', '1,2,4+2,1,1', '--rate', '100', '--duration', '20');
  assert.equal(mixed.runs[0].configuration, [
    { instances: 1, threads: 2, batch: 4 },
    { instances: 2, threads: 1, batch: 1 },
  ]);
  assert.ok(mixed.runs[0].report.stable);
  const controlled = await json(
    'simulate',
    ...from,
    '--configuration',
    '1,2,1',
    '--rate',
    '180',
    '--duration',
    '60',
    '--controller',
  );
  assert.ok(controlled.runs[0].switches.length > 0, 'one instance keeps up with 166 a second');
  assert.ok(controlled.runs[0].switches[0].reason.length > 20);
});

test('simulate --slo: the fewest cores, checked by trying one less', async () => {
  const words = [...from, '--rate', '400', '--duration', '30', '--batch', '1'];
  const { cores, answers } = await json('simulate', ...words, '--slo', 'p99=40');
  const { instances, threads } = answers[0].configuration[0];
  assert.is(cores, instances * threads);
  const p99 = async (i: number) => {
    const { runs } = await json('simulate', ...words.slice(0, -2), '--configuration', `${i},${threads},1`);
    return runs[0].report.latency.p99;
  };
  assert.ok((await p99(instances)) <= 41, 'a tenth of the time is not quite a tenth of the requests');
  assert.ok((await p99(instances - 1)) > 40);
  const never = await skep('simulate', ...words, '--slo', 'p99=5');
  assert.is(never.code, 1);
  assert.match(never.out, /No configuration of at most 1024 cores/);
  const controlled = await json('simulate', ...words.slice(0, -2), '--slo', 'p99=40', '--controller', '--cores', '64');
  assert.ok(controlled.cores >= 1 && controlled.cores <= 64);
});

test('tune: chooses from a profile as optimize does, and marks one row', async () => {
  const { configuration, profile: read, candidates } = await json('tune', ...from, '--batch', '4');
  assert.equal(configuration, [{ instances: 1, threads: 2, batch: 4 }]);
  assert.is(candidates[0].predicted, 14);
  assert.equal(read.latency, profile.latency);
  const { out, code } = await skep('tune', ...from, '--batch', '4', '--save', at('saved.json'), '--plot', at('t.svg'));
  assert.is(code, 0);
  assert.is(out.match(/<--/g)?.length, 1);
  assert.match(out, /1 × 2 threads, batch 4 .*<--/);
  assert.match(out, /nothing beats the one fat instance/);
  assert.match(readFileSync(at('t.svg'), 'utf8'), /^<svg [\s\S]*2 threads[\s\S]*<\/svg>\n$/);
  const again = await json('tune', '--profile', at('saved.json'), '--batch', '4');
  assert.equal(again.configuration, configuration);
  const fewest = await json('tune', ...from, '--objective', 'threads', '--rate', '30', '--slo', 'p99=60');
  assert.equal(fewest.configuration[0].threads, 1);
  const most = await json('tune', ...from, '--objective', 'throughput', '--slo', 'mean=30');
  assert.ok(most.candidates[0].predicted > 100);
});

test('predict: the formula’s mean, and where the best configuration changes', async () => {
  const words = ['predict', ...from, '--rate', '50'];
  const one = await json(...words, '--configuration', '1,1,1', '--configuration', '1,2,1', '--configuration', '1,1,4');
  const [slow, fast] = one.predictions;
  assert.ok(Math.abs(slow.latency - 15) < 1e-9, slow.latency);
  assert.ok(Math.abs(fast.latency - (6 + (6 * 0.3) / (2 * 0.7))) < 1e-9, fast.latency);
  const all = await json(...words);
  assert.is(all.configurations.length, 3 + 3 + 3, 'one and two of one thread, one of two, three batches each');
  assert.equal(all.predictions[0].configuration, [{ instances: 1, threads: 2, batch: 4 }]);
  const cross = await json(
    'predict',
    '--profile',
    at('p.json'),
    '--rate',
    '50',
    '--configuration',
    '2,1,1',
    '--configuration',
    '1,2,1',
  );
  assert.is(cross.crossings.length, 1, 'at low load two threads, at high load two instances');
  assert.equal(cross.crossings[0].above, [{ instances: 2, threads: 1, batch: 1 }]);
  const { out } = await skep(...words, '--plot', at('q.svg'), '--all');
  assert.match(out, /<--/);
  assert.match(out, /Least mean latency:/);
  assert.match(readFileSync(at('q.svg'), 'utf8'), /asked: 50\.0\/s/);
});

test('one of several profiles in a file is named after a #', async () => {
  assert.equal((await json('tune', '--profile', `${at('several.json')}#large`, '--batch', '1')).configuration, [
    { instances: 1, threads: 4, batch: 1 },
  ]);
  for (const [file, said] of [
    [at('several.json'), /it holds several: .*#small, .*#large/],
    [`${at('several.json')}#no`, /has no 'no'; there is small, large/],
    [at('none.json'), /there is no such file/],
  ] as const) {
    const { code, err } = await skep('tune', '--profile', file);
    assert.is(code, 1);
    assert.match(err, said);
    assert.not.match(err, /\n {4}at /);
  }
});

test('misuse exits 2 and says what is wrong', async () => {
  for (const [words, said] of [
    [['simulate', '--rate', '5'], /either --profile FILE or --cost/],
    [['simulate', ...from], /--rate is missing/],
    [['simulate', ...from, '--rate', '0'], /--rate must be above 0/],
    [['simulate', ...from, '--rate', '5', '--policy', 'pray'], /--policy must be one of cellular/],
    [['simulate', ...from, '--rate', '5', '--configuration', '1,1'], /INSTANCES,THREADS,BATCH/],
    [['simulate', ...from, '--rate', '5', '--configuration', '1,1,1', '--batch', '2'], /say the same/],
    [['simulate', ...from, '--rate', '5', '--threads', '3', '--policy', 'pad'], /no 3 threads/],
    [['simulate', '--cost', 'x', '--rate', '5'], /--cost must be ROWS=MS/],
    [['simulate', ...from, '--rate', '5', '--lengths', 'uniform:9:3'], /uniform:LEAST:MOST/],
    [['simulate', ...from, '--rate', '5', '--slo', 'max=3'], /--slo must be p99=MS/],
    [['simulate', ...from, '--rate', '5', '--cores', '4'], /--cores needs --slo/],
    [['simulate', ...from, '--rate', '5', '--duration', '1e9'], /too many/],
    [['simulate', ...from, '--rate', '5', '--arrival', 'constant'], /did you mean '--arrivals'/],
    [['predict', ...from], /--rate is missing/],
    [['predict', '--rate', '5'], /either MODEL or --profile/],
    [['predict', 'm.onnx', ...from, '--rate', '5'], /either MODEL or --profile/],
    [['tune', ...from, '--objective', 'p99'], /needs --rate/],
    [['tune', ...from, '--objective', 'throughput'], /needs --slo/],
    [['tune', ...from, '--objective', 'luck'], /must be one of makespan/],
  ] as const) {
    const { code, err } = await skep(...words);
    assert.is(code, 2, `${words.join(' ')}: ${err}`);
    assert.match(err, said);
  }
});

test.run();
