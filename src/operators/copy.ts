// Lowering copies: turns "the output is this strided view of the input" into the cheapest kernel call. Picture: axes that
// run on in both tensors are merged, a short dense run becomes one wide element, and what is left is a memory copy, a
// tiled transpose, or an odometer. Also copies by offset tables, fills, and the element sizes kernels can move.
import { sizeOf, stridesOf } from '../tensor/shape.js';
import { type DataType, typeInfo } from '../tensor/types.js';
import { type Address, type LowerCall, offsetBy } from './operator.js';

type Lower = LowerCall<unknown>;

/** Bytes of an element that kernels can move, or 0 (strings and packed types). */
export function elementBytes(type: DataType): number {
  const { bits } = typeInfo(type);
  return bits >= 8 ? bits / 8 : 0;
}

/** Row-major strides in bytes. */
export function byteStrides(dims: readonly number[], size: number): number[] {
  return stridesOf(dims).map((s) => s * size);
}

/** A strided copy: dims, and for both sides the bytes from one index to the next. Starts are in the addresses. */
export interface View {
  readonly dims: readonly number[];
  readonly inStrides: readonly number[];
  readonly outStrides: readonly number[];
}

interface Axis {
  n: number;
  in: number;
  out: number;
}

/** Bytes a claim of work should move. */
const claimBytes = 16384;

function mergeAxes(view: View): Axis[] {
  const axes: Axis[] = [];
  view.dims.forEach((n, a) => {
    if (n === 1) return;
    const axis = { n, in: view.inStrides[a]!, out: view.outStrides[a]! };
    const outer = axes.at(-1);
    if (outer !== undefined && outer.in === axis.in * n && outer.out === axis.out * n) {
      outer.n *= n;
      outer.in = axis.in;
      outer.out = axis.out;
    } else axes.push(axis);
  });
  return axes;
}

/** Appends the steps of a strided copy of elements of `elementSize` bytes. */
export function copyView(call: Lower, input: Address, output: Address, view: View, elementSize: number): void {
  if (sizeOf(view.dims) === 0) return;
  const axes = mergeAxes(view);
  let size = elementSize;
  const run = axes.at(-1);
  if (run !== undefined && run.in === size && run.out === size) {
    const bytes = run.n * size;
    if (axes.length > 1 && bytes <= 16 && (bytes & (bytes - 1)) === 0) {
      size = bytes;
      axes.pop();
    }
  }
  const inner = axes.at(-1) ?? { n: 1, in: size, out: size };
  if (axes.length === 0) axes.push(inner);
  if (inner.out === size && inner.in !== size && inner.in !== 0 && inner.n >= 4) {
    const along = axes.findIndex((x) => x.in === size && x.n >= 4);
    if (along >= 0) {
      const rows = axes[along]!;
      const outer = axes.filter((x) => x !== rows && x !== inner);
      call.step(
        'transpose',
        {
          input,
          output,
          dims: outer.map((x) => x.n),
          inStrides: outer.map((x) => x.in),
          outStrides: outer.map((x) => x.out),
          rank: outer.length,
          size,
          rows: rows.n,
          columns: inner.n,
          inColumn: inner.in,
          outRow: rows.out,
        },
        {
          units: sizeOf(outer.map((x) => x.n)) * Math.ceil(rows.n / 16),
          grain: Math.max(1, Math.floor(claimBytes / (16 * size * inner.n))),
        },
      );
      return;
    }
  }
  if (axes.length === 1) {
    // One long run: in pieces, so that threads can share it.
    const chunk = Math.floor(claimBytes / size);
    const whole = Math.floor(inner.n / chunk);
    const rest = inner.n - whole * chunk;
    if (whole > 0)
      copyStep(call, input, output, size, [
        { n: whole, in: chunk * inner.in, out: chunk * inner.out },
        { ...inner, n: chunk },
      ]);
    if (rest > 0)
      copyStep(call, offsetBy(input, whole * chunk * inner.in), offsetBy(output, whole * chunk * inner.out), size, [
        { n: 1, in: 0, out: 0 },
        { ...inner, n: rest },
      ]);
  } else copyStep(call, input, output, size, axes);
}

function copyStep(call: Lower, input: Address, output: Address, size: number, axes: readonly Axis[]): void {
  const run = axes.at(-1)!.n;
  call.step(
    'copy',
    {
      input,
      output,
      dims: axes.map((x) => x.n),
      inStrides: axes.map((x) => x.in),
      outStrides: axes.map((x) => x.out),
      rank: axes.length,
      size,
    },
    { units: sizeOf(axes.map((x) => x.n)) / run, grain: Math.max(1, Math.floor(claimBytes / (run * size))) },
  );
}

/** Copies a dense tensor. */
export function copyDense(call: Lower, input: Address, output: Address, bytes: number): void {
  copyView(call, input, output, { dims: [bytes], inStrides: [1], outStrides: [1] }, 1);
}

/** Fills `count` elements with the one at `value`. */
export function fillDense(call: Lower, value: Address, output: Address, count: number, size: number): void {
  copyView(call, value, output, { dims: [count], inStrides: [0], outStrides: [size] }, size);
}

/** A constant of bytes known when the plan is made; `key` must say everything they depend on. */
export function bytesConstant(call: Lower, key: string, bytes: Uint8Array): Address {
  return call.constant(key, Math.max(bytes.length, 16), (into) => into.set(bytes));
}

/**
 * Output 0 takes, along every axis, the input coordinates listed for it; −1 takes the element at `fill`.
 * `key` must say everything the coordinates depend on besides the input's shape.
 */
export function lowerTables(
  call: Lower,
  key: string,
  coordinates: readonly ArrayLike<number>[],
  fill: Address | 0,
): boolean {
  const { type, dims } = call.output(0);
  const size = elementBytes(type);
  if (size === 0) return false;
  if (sizeOf(dims) === 0) return true;
  const strides = byteStrides(call.input(0).dims, size);
  const lists = coordinates.length === 0 ? [[0]] : coordinates;
  const table = new Int32Array(lists.reduce((n, c) => n + c.length, 0));
  let t = 0;
  lists.forEach((c, a) => {
    for (let i = 0; i < c.length; i++) table[t++] = c[i]! < 0 ? -1 : c[i]! * (strides[a] ?? 0);
  });
  const rank = lists.length;
  const run = lists[rank - 1]!.length;
  call.step(
    'tableCopy',
    {
      input: call.in(0),
      output: call.out(0),
      fill,
      tables: bytesConstant(call, `${key} of [${call.input(0).dims}] by ${size}`, new Uint8Array(table.buffer)),
      dims: lists.map((c) => c.length),
      rank,
      size,
    },
    { units: sizeOf(dims) / run, grain: Math.max(1, Math.floor(claimBytes / (run * size))) },
  );
  return true;
}
