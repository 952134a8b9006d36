// What the examples do before and after the networks.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import * as fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { example, type Image, importExample, type Point } from './modules.js';

const { readImage, resize, warp, toTensor } = await importExample('lib/image.mjs');
const { findBoxes, convexHull, smallestRectangle } = await importExample('lib/boxes.mjs');
const { readWav, resample } = await importExample('lib/wav.mjs');
const { decode } = await importExample('ocr.mjs');
const { segments } = await importExample('speech.mjs');

const near = (a: number, b: number, by: number, what = '') =>
  assert.ok(Math.abs(a - b) <= by, `${what}: ${a}, expected ${b} ± ${by}`);

/** A picture whose red is its column and green its row. */
function coordinates(width: number, height: number): Image {
  const data = new Uint8Array(width * height * 4);
  for (let i = 0; i < width * height; i++) data.set([i % width, Math.floor(i / width), 7, 255], i * 4);
  return { width, height, data };
}

test('images: PNG and JPEG by their first bytes', () => {
  for (const [name, width, height] of [
    ['assets/screenshot.png', 800, 480],
    ['assets/sign.jpg', 900, 620],
  ] as const) {
    const image = readImage(example(name));
    assert.equal([image.width, image.height, image.data.length], [width, height, width * height * 4]);
  }
  assert.throws(() => readImage(example('assets/speech.wav')), /neither PNG nor JPEG/);
});

test('resizing to the same size changes nothing; doubling interpolates between pixel centres', () => {
  const image = coordinates(5, 3);
  assert.equal([...resize(image, 5, 3).data], [...image.data]);
  const row = [0, 40, 80].flatMap((v) => [v, 0, 0, 255]);
  const doubled = resize({ width: 3, height: 1, data: Uint8Array.from(row) }, 6, 1);
  assert.equal(
    [...doubled.data].filter((_, i) => i % 4 === 0),
    [0, 10, 30, 50, 70, 80],
  );
});

test('warping maps the corners of any quadrilateral to the corners of the rectangle', () => {
  const image = coordinates(100, 100);
  const corners: Point[] = [
    [20.5, 30.5],
    [70.5, 20.5],
    [80.5, 60.5],
    [10.5, 75.5],
  ];
  const cut = warp(image, corners, 200, 100);
  const at = (x: number, y: number) => [...cut.data.subarray((y * 200 + x) * 4, (y * 200 + x) * 4 + 2)];
  for (const [x, y, [u, v]] of [
    [0, 0, corners[0]],
    [199, 0, corners[1]],
    [199, 99, corners[2]],
    [0, 99, corners[3]],
  ] as [number, number, Point][]) {
    near(at(x, y)[0]!, u, 1.5, 'column');
    near(at(x, y)[1]!, v, 1.5, 'row');
  }
});

test('tensors: channels blue, green, red, normalised, padded with 0', () => {
  const image = { width: 1, height: 2, data: Uint8Array.of(255, 0, 51, 255, 0, 255, 102, 255) };
  const t = toTensor(image, [0, 0.5, 0], [1, 0.5, 2], 2);
  assert.equal(t.dims, [1, 3, 2, 2]);
  const wanted = [0.2, 0, 0.4, 0, -1, 0, 1, 0, 0.5, 0, 0, 0];
  for (const [i, v] of t.data.entries()) near(v, wanted[i]!, 1e-6, `value ${i}`);
});

test('boxes: a level and a tilted word, grown by the unclip rule, in reading order', () => {
  const [width, height] = [200, 120];
  const map = new Float32Array(width * height);
  const fill = (cx: number, cy: number, w: number, h: number, angle: number) => {
    for (let y = 0; y < height; y++)
      for (let x = 0; x < width; x++) {
        const [dx, dy] = [x + 0.5 - cx, y + 0.5 - cy];
        const u = dx * Math.cos(angle) + dy * Math.sin(angle);
        const v = dy * Math.cos(angle) - dx * Math.sin(angle);
        if (Math.abs(u) <= w / 2 && Math.abs(v) <= h / 2) map[y * width + x] = 0.9;
      }
  };
  fill(130, 20, 60, 8, 0);
  fill(40, 22, 40, 8, 0);
  fill(100, 80, 80, 10, 0.3);
  map[5 * width + 5] = 0.9; // a speck
  const boxes = findBoxes(map, width, height);
  assert.is(boxes.length, 3);
  const [left, right, tilted] = boxes.map((b) => b.corners) as [Point[], Point[], Point[]];
  // 40 × 8 grows by 320 · 1.5 / 96 = 5 on every side.
  assert.equal(
    left.map((p) => p.map(Math.round)),
    [
      [15, 13],
      [65, 13],
      [65, 31],
      [15, 31],
    ],
  );
  assert.ok(right[0]![0] > left[1]![0]);
  near(Math.atan2(tilted[1]![1] - tilted[0]![1], tilted[1]![0] - tilted[0]![0]), 0.3, 0.03, 'angle');
  near(boxes[2]!.score, 0.9, 1e-6);
});

test('boxes: faint regions are left out, a line may be one pixel below its neighbour', () => {
  const map = new Float32Array(100 * 40);
  for (let y = 5; y < 15; y++) for (let x = 5; x < 60; x++) map[y * 100 + x] = 0.4;
  assert.equal(findBoxes(map, 100, 40), []);
  assert.equal(findBoxes(new Float32Array(100), 10, 10), []);
});

test('the smallest rectangle around the corners of any rectangle is that rectangle', () => {
  const size = fc.double({ min: 1, max: 50, noNaN: true });
  fc.assert(
    fc.property(size, size, fc.double({ min: -0.7, max: 0.7, noNaN: true }), (w, h, angle) => {
      const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
      const points = [-1, 0, 1].flatMap((i) =>
        [-1, 0, 1].map((j): Point => {
          const [u, v] = [(i * w) / 2, (j * h) / 2];
          return [10 + u * cos - v * sin, 20 + u * sin + v * cos];
        }),
      );
      const r = smallestRectangle(points);
      near(r.x, 10, 1e-6);
      near(r.y, 20, 1e-6);
      near(r.width * r.height, w * h, 1e-6 * w * h + 1e-6, 'area');
      assert.ok(Math.abs(r.angle) <= Math.PI / 4 + 1e-9);
    }),
  );
});

test('the hull holds every point and turns one way', () => {
  const point = fc.tuple(fc.integer({ min: -20, max: 20 }), fc.integer({ min: -20, max: 20 }));
  const turn = (o: Point, a: Point, b: Point) => (a[0] - o[0]) * (b[1] - o[1]) - (a[1] - o[1]) * (b[0] - o[0]);
  fc.assert(
    fc.property(fc.array(point, { minLength: 3, maxLength: 40 }), (points) => {
      const hull = convexHull(points);
      if (hull.length < 3) return;
      hull.forEach((p, i) => {
        const q = hull[(i + 1) % hull.length]!;
        for (const x of points) assert.ok(turn(p, q, x) >= 0);
      });
    }),
  );
});

test('CTC: repetitions and blanks go, a blank between keeps both', () => {
  const characters = ['', 'a', 'b', ' '];
  const columns = [0, 1, 1, 0, 1, 2, 2, 3, 2, 0, 3];
  const data = new Float32Array(columns.length * 4);
  columns.forEach((c, t) => {
    data[t * 4 + c] = 0.8;
  });
  const { text, score } = decode({ data, dims: [1, columns.length, 4] }, characters);
  assert.is(text, 'aab b');
  near(score, 0.8, 1e-6);
  assert.equal(decode({ data: new Float32Array(8), dims: [1, 2, 4] }, characters), { text: '', score: 0 });
});

test('speech segments: hysteresis, short gaps, short noises, padding', () => {
  const chunk = 512 / 16000;
  // 32 ms each: noise of 3, speech of 10 with a dip above and one gap of 3 chunks (96 ms), then a real pause.
  const p = [
    0,
    0,
    0.9,
    0.9,
    0.9,
    0,
    0,
    0,
    0,
    0,
    ...Array(5).fill(0.9),
    0.4,
    0.4,
    0.4,
    0.4,
    0,
    0,
    0,
    ...Array(5).fill(0.8),
  ];
  p.push(0, 0, 0, 0, 0, 0, ...Array(9).fill(0.7));
  const found = segments(p, p.length * chunk);
  assert.is(found.length, 2);
  near(found[0]!.start, 10 * chunk - 0.03, 1e-9);
  near(found[0]!.end, 27 * chunk + 0.03, 1e-9);
  near(found[1]!.start, 33 * chunk - 0.03, 1e-9);
  near(found[1]!.end, p.length * chunk, 1e-9, 'padding ends with the recording');
  assert.equal(segments([], 0), []);
});

test('WAV: 8 to 32 bits, floats, channels averaged, unknown chunks passed over', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'skep-wav-'));
  const file = path.join(folder, 'x.wav');
  const values = [0, 0.5, -0.5, -1];
  for (const [bits, tag, write] of [
    [8, 1, (b: Buffer, v: number, i: number) => b.writeUInt8(128 + v * 128, i)],
    [16, 1, (b: Buffer, v: number, i: number) => b.writeInt16LE(v * 32768, 2 * i)],
    [24, 1, (b: Buffer, v: number, i: number) => b.writeIntLE(v * 2 ** 23, 3 * i, 3)],
    [32, 1, (b: Buffer, v: number, i: number) => b.writeInt32LE(v * 2 ** 31, 4 * i)],
    [32, 3, (b: Buffer, v: number, i: number) => b.writeFloatLE(v, 4 * i)],
  ] as const) {
    const data = Buffer.alloc((2 * values.length * bits) / 8);
    values.forEach((v, i) => {
      // Two channels: v + 0 and v − 0 average to v.
      write(data, v, 2 * i);
      write(data, v, 2 * i + 1);
    });
    const format = Buffer.alloc(16);
    format.writeUInt16LE(tag, 0);
    format.writeUInt16LE(2, 2);
    format.writeUInt32LE(8000, 4);
    format.writeUInt16LE(bits, 14);
    const chunk = (id: string, body: Buffer) => {
      const size = Buffer.alloc(4);
      size.writeUInt32LE(body.length);
      return Buffer.concat([Buffer.from(id), size, body, Buffer.alloc(body.length % 2)]);
    };
    const body = Buffer.concat([
      Buffer.from('WAVE'),
      chunk('fmt ', format),
      chunk('LIST', Buffer.from('odd')),
      chunk('data', data),
    ]);
    writeFileSync(file, chunk('RIFF', body));
    const { sampleRate, samples } = readWav(file);
    assert.is(sampleRate, 8000);
    assert.equal([...samples], values, `${bits} bits`);
  }
  writeFileSync(file, 'RIFFxxxxWAVE');
  assert.throws(() => readWav(file), /holds no samples/);
  rmSync(folder, { recursive: true });
  assert.equal([...resample(Float32Array.of(0, 1, 2, 3), 8000, 16000)], [0, 0.5, 1, 1.5, 2, 2.5, 3, 3]);
});

test.run();
