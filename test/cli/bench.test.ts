// skep bench on a live model: every request is answered once under every policy, and what cannot be says so. Timings are
// never asserted, only what must hold of them.
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { GraphBuilder } from '../../src/graph/builder.js';
import { writeModel } from '../../src/onnx/writer.js';
import { temporaryFolder } from './folders.js';
import { skep } from './program.js';

const folder = temporaryFolder();
const at = (name: string) => path.join(folder, name);

{
  const g = new GraphBuilder('rows');
  const x = g.input('x', 'float32', ['batch', 'time', 8]);
  const lengths = g.input('lengths', 'int32', ['batch']);
  g.output('y', g.matmul(x, g.weights([8, 8])));
  g.output('n', g.identity(lengths));
  writeFileSync(at('rows.onnx'), writeModel(g.model()));
  const h = new GraphBuilder('mixed');
  const z = h.input('x', 'float32', ['batch', 4]);
  h.output('y', h.softmax(z, 0));
  writeFileSync(at('mixed.onnx'), writeModel(h.model()));
}

async function json(...words: string[]) {
  const { code, out, err } = await skep('bench', ...words, '--json');
  assert.is(code, 0, `${words.join(' ')}: ${err}`);
  return JSON.parse(out);
}

test('open loop: the same requests under every policy, all answered, latency of parts', async () => {
  const policy = 'cellular,bucket,pad,timeout,none';
  const { runs, virtual, machine } = await json(
    at('rows.onnx'),
    ...['--rate', '300', '--duration', '0.5', '--policy', policy, '--batch', '4', '--wait', '5'],
    ...['--lengths', 'uniform:1:12', '--input', 'lengths=@time', '--plot', at('b.svg')],
  );
  assert.is(virtual, false);
  assert.match(machine, /cores, Node/);
  assert.equal(
    runs.map((r: { policy: string }) => r.policy),
    policy.split(','),
  );
  for (const { report, policy: name } of runs) {
    assert.is(report.requests.arrived, runs[0].report.requests.arrived);
    assert.is(report.requests.finished, report.requests.arrived, name);
    assert.ok(report.latency.count > 50 && report.latency.p50 <= report.latency.p99);
    assert.ok(Math.abs(report.queueing.mean + report.computing.mean - report.latency.mean) < 1e-6, name);
    assert.ok(report.batch.mean >= 1 && report.batch.mean <= 4, name);
    if (name === 'cellular' || name === 'none') assert.is(report.batch.useful, 1);
    else assert.ok(report.batch.useful > 0 && report.batch.useful <= 1);
  }
  assert.is(runs.at(-1).report.batch.mean, 1);
  const svg = readFileSync(at('b.svg'), 'utf8');
  for (const name of policy.split(',')) assert.ok(svg.includes(`>${name}<`), name);
});

test('closed loop: callers wait for their answers', async () => {
  const { out, code } = await skep(
    'bench',
    at('rows.onnx'),
    '--concurrency',
    '3',
    '--duration',
    '0.3',
    '--dims',
    'time=5',
  );
  assert.is(code, 0);
  assert.match(out, /3 callers, closed loop/);
  const [, came, answered] = /(\d+) came, (\d+) answered/.exec(out)!;
  assert.is(came, answered);
  assert.ok(Number(came) > 3);
});

test('an overload is refused past the queue limit, and counted', async () => {
  const words = [
    at('rows.onnx'),
    '--rate',
    '20000',
    '--duration',
    '0.2',
    '--queue',
    '2',
    '--dims',
    'time=512',
    '--policy',
    'none',
  ];
  const { runs } = await json(...words);
  const { arrived, finished, refused, cancelled } = runs[0].report.requests;
  assert.ok(refused > 0);
  assert.is(finished + refused + cancelled, arrived);
});

test('whole requests are not put together where rows may interact', async () => {
  const { code, err } = await skep('bench', at('mixed.onnx'), '--rate', '10', '--duration', '0.1', '--policy', 'pad');
  assert.is(code, 1);
  assert.match(err, /--policy pad is not possible for this model: its rows may interact \(Softmax/);
});

test('tune measures a model and stores it; predict uses what is stored', async () => {
  const before = process.env.SKEP_CACHE;
  process.env.SKEP_CACHE = at('cache');
  try {
    const words = ['tune', at('rows.onnx'), '--threads', '1', '--batch', '2', '--budget', '30', '--dims', 'time=3'];
    const { code, out, err } = await skep(...words, '--json', '--save', at('saved.json'));
    assert.is(code, 0, err);
    const { source, configuration, candidates, profile } = JSON.parse(out);
    assert.match(source, /^measured now/);
    assert.ok(profile.latency[1][1] > 0);
    assert.ok(
      candidates.some(
        (c: { configuration: unknown }) => JSON.stringify(c.configuration) === JSON.stringify(configuration),
      ),
    );
    const again = await skep(...words);
    assert.is(again.code, 0, again.err);
    assert.match(again.out, /measured before, and stored/);
    assert.is(again.out.match(/<--/g)?.length, 1);
    const predicted = await skep('predict', '--profile', at('saved.json'), '--rate', '10', '--json');
    assert.is(JSON.parse(predicted.out).predictions[0].stable, true);
  } finally {
    if (before === undefined) delete process.env.SKEP_CACHE;
    else process.env.SKEP_CACHE = before;
  }
});

test('misuse exits 2 and says what is wrong', async () => {
  const m = at('rows.onnx');
  for (const [words, said] of [
    [[m], /--rate is missing/],
    [[m, '--rate', '5', '--concurrency', '2'], /closed loop/],
    [[m, '--rate', '5', '--dims', 'depth=3'], /no dimension 'depth'; it has batch, time/],
    [[m, '--rate', '5', '--input', 'q=1'], /the model has inputs x, lengths/],
    [[m, '--rate', '5', '--input', 'lengths=@depth'], /no dimension 'depth'/],
    [[m, '--rate', '5', '--lengths', '3', '--lengths-of', 'depth'], /no dimension 'depth'/],
    [[m, '--rate', '5', '--auto', '--threads', '1'], /--auto chooses/],
    [[m, '--rate', '5', '--weights', 'int3'], /--weights must be one of/],
  ] as const) {
    const { code, err } = await skep('bench', ...words);
    assert.is(code, 2, `${words.join(' ')}: ${err}`);
    assert.match(err, said);
  }
  const none = await skep('bench', at('none.onnx'), '--rate', '5');
  assert.is(none.code, 1);
  assert.match(none.err, /none\.onnx: there is no such file/);
});

test.run();
