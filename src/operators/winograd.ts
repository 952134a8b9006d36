// When and how a Conv is computed by Winograd's F(4×4, 3×3) (assembly/winograd.ts pictures it): a rule on shapes of one
// image alone, so that an image's bits do not depend on its batch; the weights' transformation, once a model; the step.
// Source: Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2015, section 4; other points.
import { heightFor } from '../kernels/tile.js';
import { decode } from '../tensor/convert.js';
import type { Axis, ConvGeometry } from './conv-geometry.js';
import { type Epilogue, epilogueParams } from './epilogue.js';
import type { Address, LowerCall } from './operator.js';
import { grainOf } from './product.js';

const A = 5 / 8;
const B = 3 / 2;
const NA = 2 * A * A * (A * A - B * B);
const NB = 2 * B * B * (B * B - A * A);

/** G: a filter of three taps at the points 0, ±a, ±b and ∞. */
const G: readonly (readonly [number, number, number])[] = [
  [1 / (A * A * B * B), 0, 0],
  [1 / NA, A / NA, (A * A) / NA],
  [1 / NA, -A / NA, (A * A) / NA],
  [1 / NB, B / NB, (B * B) / NB],
  [1 / NB, -B / NB, (B * B) / NB],
  [0, 0, 1],
];

const POINTS = 36;

/**
 * G·g·Gᵀ of the filters [m, channels] from `at` on, in double precision, right into packed panels: for each of the 36 points
 * a matrix of m×channels in panels of `height` rows, the first at `to`.
 */
export function transformFilters(
  into: Float32Array,
  to: number,
  w: ArrayLike<number>,
  at: number,
  m: number,
  channels: number,
  height: number,
): void {
  const count = m * channels;
  const rows = new Float64Array(18);
  for (let o = 0; o < m; o++) {
    const within = o % height;
    const step = Math.min(height, m - o + within);
    const first = to + (o - within) * channels + within;
    for (let c = 0; c < channels; c++) {
      const g = at + (o * channels + c) * 9;
      for (let i = 0; i < 6; i++) {
        const [g0, g1, g2] = G[i]!;
        for (let j = 0; j < 3; j++) rows[i * 3 + j] = g0 * w[g + j]! + g1 * w[g + 3 + j]! + g2 * w[g + 6 + j]!;
      }
      let place = first + c * step;
      for (let i = 0; i < 18; i += 3) {
        const r0 = rows[i]!;
        const r1 = rows[i + 1]!;
        const r2 = rows[i + 2]!;
        for (let j = 0; j < 6; j++, place += count) into[place] = r0 * G[j]![0] + r1 * G[j]![1] + r2 * G[j]![2];
      }
    }
  }
}

const tilesOf = (a: Axis) => Math.ceil(a.output / 4);

/** True where it is exact enough and quicker: constant 3×3 filters, stride 1, enough channels and tiles. */
export function paysWinograd(call: LowerCall<unknown>, g: ConvGeometry): boolean {
  if (!call.winograd || g.axes.length !== 2 || call.input(1).value === undefined) return false;
  if (g.axes.some((a) => a.kernel !== 3 || a.stride !== 1 || a.dilation !== 1)) return false;
  if (g.channels < 16 || g.m < 16) return false;
  const [h, w] = g.axes as [Axis, Axis];
  // Outputs that the tiles are for; the rest is thrown away.
  const used = g.pixels / (16 * tilesOf(h) * tilesOf(w));
  return used >= 0.5 && tilesOf(h) * tilesOf(w) >= 4;
}

/** What the input must be padded to at the end of an axis, so that every tile is whole. */
export function winogradAxis(a: Axis): Axis {
  return { ...a, padEnd: 4 * tilesOf(a) + 2 - a.input - a.padBegin };
}

/** Appends the step; x is padded as `winogradAxis` says to planes of these sizes. */
export function winogradStep(
  call: LowerCall<unknown>,
  g: ConvGeometry,
  x: Address,
  planeHeight: number,
  planeWidth: number,
  epilogue: Epilogue,
): void {
  const { batch, groups, m, channels } = g;
  const [h, v] = g.axes as [Axis, Axis];
  const { value } = call.input(1);
  const count = m * channels;
  const height = heightFor(call.tile, m);
  const w = call.constant(`winograd 4×4, panels of ${height}`, groups * POINTS * count * 4, (bytes) => {
    const into = new Float32Array(bytes.buffer, bytes.byteOffset, groups * POINTS * count);
    const filters = decode(value!);
    for (let group = 0; group < groups; group++)
      transformFilters(into, group * POINTS * count, filters, group * count * 9, m, channels, height);
  });
  const tiles = batch * tilesOf(h) * tilesOf(v);
  const all = Math.ceil(tiles / 8);
  // Some panels for each reading of the weights, all of it within a level-2 cache.
  const chunk = Math.min(60, Math.ceil(m / height) * height);
  const most = Math.max(1, Math.floor(600_000 / (POINTS * 32 * (channels + chunk))));
  const panels = Math.ceil(all / Math.ceil(all / most));
  call.threadScratch(576 + 256 + panels * 32 + POINTS * (panels * (channels + chunk) * 32 + 128));
  const spans = Math.ceil(all / panels);
  call.step(
    'winograd',
    {
      ...epilogueParams(epilogue),
      x,
      w,
      y: call.out(0),
      images: batch,
      groups,
      m,
      channels,
      imageStride: groups * channels * planeHeight * planeWidth,
      channelStride: planeHeight * planeWidth,
      rowStride: planeWidth,
      tilesHigh: tilesOf(h),
      tilesWide: tilesOf(v),
      height: h.output,
      width: v.output,
      panels,
      chunk,
      tall: height,
      wide: call.tile.width,
    },
    {
      units: groups * spans * Math.ceil(m / chunk),
      grain: grainOf(2 * POINTS * chunk * channels * 8 * panels),
      flops: 2 * batch * groups * m * channels * 9 * g.pixels,
    },
  );
}
