// 3×3 convolutions by Winograd's minimal filtering F(4×4, 3×3): 36 products instead of 144 for a tile of 4×4 outputs.
// How to picture it, for 8 tiles side by side in a panel and every point p of 36:
//
//   tiles of 6×6 inputs ── Bᵀ·d·B ──▶ V[p] [channels, 8]     W ── G·g·Gᵀ, once a model ──▶ U[p] [m, channels]
//   M[p] = U[p] · V[p]  (the sweeps of tile.ts)  ── Aᵀ·M·A ──▶ tiles of 4×4 outputs, epilogue, y
//
// The interpolation points are 0, ±5/8, ±3/2 and ∞: their powers are exact, and the error is half that of the customary
// 0, ±1, ±2, ∞, about 1.5e-6 of the largest output. A tile is a column of the products and never meets another, so its bits
// depend neither on its neighbours nor on how the work is divided. U is made by src/operators/winograd.ts; the input is
// padded already, so far that every tile is whole.
import { epilogue } from './activation';
import { multiplyPanels } from './conv';
import { at, Epilogue } from './epilogue';
import { madd } from './math';
import { loadLanes, storeLanes } from './simd';

// Points a and b, and their powers.
const A: f32 = 0.625;
const B: f32 = 1.5;
const A2: f32 = 0.390625;
const B2: f32 = 2.25;
const A3: f32 = 0.244140625;
const B3: f32 = 3.375;
/** a²·b² and a² + b². */
const A2B2: f32 = 0.87890625;
const SUM2: f32 = 2.640625;

@unmanaged
class Winograd extends Epilogue {
  x: usize;
  /** 36 matrices of m×channels a group, packed as A: [group, point, …]. */
  w: usize;
  y: usize;
  images: i32;
  groups: i32;
  /** Output channels and input channels of a group. */
  m: i32;
  channels: i32;
  /** Strides of x in floats: from image to image, channel to channel, row to row. */
  imageStride: i32;
  channelStride: i32;
  rowStride: i32;
  /** Tiles of an image. */
  tilesHigh: i32;
  tilesWide: i32;
  /** Outputs of an image. */
  height: i32;
  width: i32;
  /** Panels of 8 tiles a unit takes; output channels a unit computes. */
  panels: i32;
  chunk: i32;
  /** Rows of a panel of W, 4 or 6, and panels of tiles taken at a time, 1 or 2. */
  tall: i32;
  wide: i32;
}

/** Bᵀ times a column d0 … d5; results `step` bytes apart. */
// @ts-ignore: decorator
@inline
function inputColumn(d0: v128, d1: v128, d2: v128, d3: v128, d4: v128, d5: v128, to: usize, step: usize): void {
  const sum = f32x4.splat(-SUM2);
  const product = f32x4.splat(A2B2);
  v128.store(to, madd(product, d0, madd(sum, d2, d4)));
  v128.store(to + 5 * step, madd(product, d1, madd(sum, d3, d5)));
  const b2 = f32x4.splat(-B2);
  let even = madd(b2, d2, d4);
  let odd = f32x4.mul(madd(b2, d1, d3), f32x4.splat(A));
  v128.store(to + step, f32x4.add(even, odd));
  v128.store(to + 2 * step, f32x4.sub(even, odd));
  const a2 = f32x4.splat(-A2);
  even = madd(a2, d2, d4);
  odd = f32x4.mul(madd(a2, d1, d3), f32x4.splat(B));
  v128.store(to + 3 * step, f32x4.add(even, odd));
  v128.store(to + 4 * step, f32x4.sub(even, odd));
}

/** Transforms one channel of 4 tiles, which start at p0 … p3; point p goes to `to` + p · `step`. `rows` holds 576 bytes. */
function inputTiles(p0: usize, p1: usize, p2: usize, p3: usize, line: usize, to: usize, step: usize, rows: usize): void {
  const rowsEnd = rows + 576;
  for (let r = rows; r != rowsEnd; r += 96) {
    const v0 = v128.load(p0);
    const v1 = v128.load(p1);
    const v2 = v128.load(p2);
    const v3 = v128.load(p3);
    const t0 = v128.shuffle<f32>(v0, v1, 0, 4, 1, 5);
    const t1 = v128.shuffle<f32>(v2, v3, 0, 4, 1, 5);
    const t2 = v128.shuffle<f32>(v0, v1, 2, 6, 3, 7);
    const t3 = v128.shuffle<f32>(v2, v3, 2, 6, 3, 7);
    const u0 = v128.load_lane<f64>(p1, v128.load64_zero(p0, 16), 1, 16);
    const u1 = v128.load_lane<f64>(p3, v128.load64_zero(p2, 16), 1, 16);
    const d0 = v128.shuffle<f32>(t0, t1, 0, 1, 4, 5);
    const d1 = v128.shuffle<f32>(t0, t1, 2, 3, 6, 7);
    const d2 = v128.shuffle<f32>(t2, t3, 0, 1, 4, 5);
    const d3 = v128.shuffle<f32>(t2, t3, 2, 3, 6, 7);
    const d4 = v128.shuffle<f32>(u0, u1, 0, 2, 4, 6);
    const d5 = v128.shuffle<f32>(u0, u1, 1, 3, 5, 7);
    inputColumn(d0, d1, d2, d3, d4, d5, r, 16);
    p0 += line;
    p1 += line;
    p2 += line;
    p3 += line;
  }
  for (let r = rows; r != rows + 96; r += 16) {
    inputColumn(
      v128.load(r), v128.load(r, 96), v128.load(r, 192), v128.load(r, 288), v128.load(r, 384), v128.load(r, 480),
      to, 6 * step,
    );
    to += step;
  }
}

/** Aᵀ times a column: four results, `step` bytes apart. */
// @ts-ignore: decorator
@inline
function outputColumn(m0: v128, m1: v128, m2: v128, m3: v128, m4: v128, m5: v128, to: usize, step: usize): void {
  const sa = f32x4.add(m1, m2);
  const sb = f32x4.add(m3, m4);
  const da = f32x4.sub(m1, m2);
  const db = f32x4.sub(m3, m4);
  v128.store(to, f32x4.add(f32x4.add(m0, sa), sb));
  v128.store(to + step, madd(f32x4.splat(B), db, f32x4.mul(f32x4.splat(A), da)));
  v128.store(to + 2 * step, madd(f32x4.splat(B2), sb, f32x4.mul(f32x4.splat(A2), sa)));
  v128.store(to + 3 * step, f32x4.add(madd(f32x4.splat(B3), db, f32x4.mul(f32x4.splat(A3), da)), m5));
}

/** Transforms 4 tiles of an output channel back: tile t's 4×4 outputs to `tiles` + 64·t. `rows` holds 384 bytes. */
function outputTiles(from: usize, step: usize, tiles: usize, rows: usize): void {
  const row = 6 * step;
  for (let r = rows; r != rows + 96; r += 16) {
    let s = from;
    const m0 = v128.load(s);
    s += row;
    const m1 = v128.load(s);
    s += row;
    const m2 = v128.load(s);
    s += row;
    const m3 = v128.load(s);
    s += row;
    const m4 = v128.load(s);
    outputColumn(m0, m1, m2, m3, m4, v128.load(s + row), r, 96);
    from += step;
  }
  for (let i = 0; i < 4; i++) {
    const t = tiles + (<usize>i << 4);
    const r = rows + <usize>i * 96;
    // Columns of the tiles, then rows: a transposition of 4×4 by memory, out of the way of the sums.
    const m1 = v128.load(r, 16), m2 = v128.load(r, 32), m3 = v128.load(r, 48), m4 = v128.load(r, 64);
    const sa = f32x4.add(m1, m2);
    const sb = f32x4.add(m3, m4);
    const da = f32x4.sub(m1, m2);
    const db = f32x4.sub(m3, m4);
    const y0 = f32x4.add(f32x4.add(v128.load(r), sa), sb);
    const y1 = madd(f32x4.splat(B), db, f32x4.mul(f32x4.splat(A), da));
    const y2 = madd(f32x4.splat(B2), sb, f32x4.mul(f32x4.splat(A2), sa));
    const y3 = f32x4.add(madd(f32x4.splat(B3), db, f32x4.mul(f32x4.splat(A3), da)), v128.load(r, 80));
    const t0 = v128.shuffle<f32>(y0, y1, 0, 4, 1, 5);
    const t1 = v128.shuffle<f32>(y2, y3, 0, 4, 1, 5);
    const t2 = v128.shuffle<f32>(y0, y1, 2, 6, 3, 7);
    const t3 = v128.shuffle<f32>(y2, y3, 2, 6, 3, 7);
    v128.store(t, v128.shuffle<f32>(t0, t1, 0, 1, 4, 5));
    v128.store(t, v128.shuffle<f32>(t0, t1, 2, 3, 6, 7), 64);
    v128.store(t, v128.shuffle<f32>(t2, t3, 0, 1, 4, 5), 128);
    v128.store(t, v128.shuffle<f32>(t2, t3, 2, 3, 6, 7), 192);
  }
}

/** Tile t of all images, the last one beyond the end: its offset in x for a group's first channel. */
// @ts-ignore: decorator
@inline
function tileOffset(c: Winograd, t: i32, group: i32): usize {
  const tiles = c.tilesHigh * c.tilesWide;
  t = min(t, c.images * tiles - 1);
  const image = t / tiles;
  t -= image * tiles;
  const row = t / c.tilesWide;
  const inside = group * c.channels * c.channelStride + 4 * (row * c.rowStride + t - row * c.tilesWide);
  return (<usize>image * <usize>c.imageStride + <usize>inside) << 2;
}

/** Finishes and stores the 4×4 outputs at `tile` of channel `channel` of a group, as far as they lie inside y. */
function storeTile(c: Winograd, tile: usize, t: i32, group: i32, row: i32, bias: v128): void {
  const tiles = c.tilesHigh * c.tilesWide;
  const image = t / tiles;
  t -= image * tiles;
  const high = t / c.tilesWide;
  const top = high << 2;
  const left = (t - high * c.tilesWide) << 2;
  const plane = (image * c.groups + group) * c.m + row;
  const rows = min(4, c.height - top);
  const columns = c.width - left;
  const inside = top * c.width + left;
  const kind = c.activation;
  const alpha = f32x4.splat(c.alpha);
  const beta = f32x4.splat(c.beta);
  const line = <usize>c.width << 2;
  let y = c.y + ((<usize>plane * <usize>(c.height * c.width) + <usize>inside) << 2);
  let z = at(c.residual, plane, c.residualRow, inside, 1);
  for (let r = 0; r < rows; r++) {
    let v = f32x4.add(v128.load(tile), bias);
    if (z != 0) {
      v = f32x4.add(v, loadLanes(z, columns));
      z += line;
    }
    storeLanes(y, epilogue(kind, v, alpha, beta), columns);
    tile += 16;
    y += line;
  }
}

/** Units: groups × spans of tiles of all images × chunks of output channels. */
export function winograd(params: usize, begin: i32, end: i32, scratch: usize): void {
  const c = changetype<Winograd>(params);
  const k = c.channels;
  const allTiles = c.images * c.tilesHigh * c.tilesWide;
  const span = c.panels << 3;
  const spans = (allTiles + span - 1) / span;
  const chunks = (c.m + c.chunk - 1) / c.chunk;
  // 64 bytes more than a power of two may be: 36 stores that far apart would fall into one set of the cache.
  const panelBytes = <usize>k << 5;
  const vStep = <usize>c.panels * panelBytes + 64;
  const mPanel = <usize>c.chunk << 5;
  const mStep = <usize>c.panels * mPanel + 64;
  // Scratch: rows of a transformation, tiles, offsets of tiles, V, M.
  const tiles = scratch + 576;
  const offsets = tiles + 256;
  const v = offsets + (<usize>span << 2);
  const products = v + 36 * vStep;
  const line = <usize>c.rowStride << 2;
  const matrix = <usize>c.m * <usize>k << 2;
  let held = -1;
  for (let u = begin; u < end; u++) {
    const where = u / chunks;
    const first = (u - where * chunks) * c.chunk;
    const rows = min(c.chunk, c.m - first);
    const group = where / spans;
    const tile = (where - group * spans) * span;
    const tileEnd = min(tile + span, allTiles);
    const panels = (tileEnd - tile + 7) >> 3;
    if (where != held) {
      held = where;
      const halves = panels << 1;
      for (let t = 0; t < halves << 2; t++) store<u32>(offsets + (<usize>t << 2), <u32>tileOffset(c, tile + t, group));
      let x = c.x;
      let to = v;
      for (let i = 0; i < k; i++) {
        let t = to;
        let o = offsets;
        for (let p = 0; p < panels; p++) {
          inputTiles(x + load<u32>(o), x + load<u32>(o, 4), x + load<u32>(o, 8), x + load<u32>(o, 12), line, t, vStep, scratch);
          inputTiles(x + load<u32>(o, 16), x + load<u32>(o, 20), x + load<u32>(o, 24), x + load<u32>(o, 28), line, t + 16, vStep, scratch);
          o += 32;
          t += panelBytes;
        }
        to += 32;
        x += <usize>c.channelStride << 2;
      }
    }
    let w = c.w + <usize>group * 36 * matrix + ((<usize>first * <usize>k) << 2);
    let b = v;
    let to = products;
    for (let point = 0; point < 36; point++) {
      multiplyPanels(w, b, panelBytes, panels, to, mPanel, 32, k, rows, c.tall, c.wide);
      w += matrix;
      b += vStep;
      to += mStep;
    }
    for (let r = 0; r < rows; r++) {
      const row = first + r;
      const biasAt = at(c.bias, group * c.m + row, c.biasRow, 0, 0);
      const bias = biasAt == 0 ? f32x4.splat(0) : v128.load32_splat(biasAt);
      let from = products + (<usize>r << 5);
      for (let t = tile; t < tileEnd; t += 8) {
        outputTiles(from, mStep, tiles, scratch);
        for (let i = t, s = tiles; i < min(t + 4, tileEnd); i++, s += 64) storeTile(c, s, i, group, row, bias);
        if (t + 4 < tileEnd) {
          outputTiles(from + 16, mStep, tiles, scratch);
          for (let i = t + 4, s = tiles; i < min(t + 8, tileEnd); i++, s += 64) storeTile(c, s, i, group, row, bias);
        }
        from += mPanel;
      }
    }
  }
}
