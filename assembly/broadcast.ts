// Element-wise functions of two or three tensors with broadcasting. The output is rows of `inner` elements; within a row
// each operand is either a vector or one repeated element; from row to row operands move by strides over the outer axes.
// Units are blocks of 1024 output elements, and a block is cut at the ends of rows:
//
//   |-- row 0 --|-- row 1 --|-- row 2 --|      a repeated element is spread over 16 bytes of scratch and read with
//   |---- unit 0 ----|---- unit 1 ----|        step 0, so that one loop serves vector∘vector, vector∘scalar, …
import { activateSpan, NONE } from './activation';
import { splat } from './math';
import { pow } from './scalar';

const BLOCK: i32 = 1024;

const ADD: i32 = 0;
const SUB: i32 = 1;
const MUL: i32 = 2;
const DIV: i32 = 3;
const MIN: i32 = 4;
const MAX: i32 = 5;
const POW: i32 = 6;
const PRELU: i32 = 7;
const EQUAL: i32 = 8;
const LESS: i32 = 9;
const GREATER: i32 = 10;
const LESS_OR_EQUAL: i32 = 11;
const GREATER_OR_EQUAL: i32 = 12;
const AND: i32 = 13;
const OR: i32 = 14;
const XOR: i32 = 15;
const WHERE: i32 = 16;
const MOD: i32 = 17;

const F32: i32 = 0;
const I32: i32 = 1;
const I64: i32 = 2;
const U8: i32 = 3;

@unmanaged
class Broadcast {
  a: usize;
  b: usize;
  c: usize;
  y: usize;
  op: i32;
  type: i32;
  size: i32;
  inner: i32;
  vectorA: i32;
  vectorB: i32;
  vectorC: i32;
  rank: i32;
  dims: usize;
  stridesA: usize;
  stridesB: usize;
  stridesC: usize;
  activation: i32;
  alpha: f32;
  beta: f32;
}

// @ts-ignore: decorator
@inline
function f32Of(op: i32, a: v128, b: v128): v128 {
  if (op == ADD) return f32x4.add(a, b);
  if (op == SUB) return f32x4.sub(a, b);
  if (op == MUL) return f32x4.mul(a, b);
  if (op == DIV) return f32x4.div(a, b);
  if (op == MIN) return f32x4.min(a, b);
  if (op == MAX) return f32x4.max(a, b);
  return v128.bitselect(f32x4.mul(a, b), a, f32x4.lt(a, splat(0)));
}

// @ts-ignore: decorator
@inline
function f32Row(op: i32, a: usize, b: usize, y: usize, n: i32, stepA: usize, stepB: usize): void {
  const end = y + (<usize>(n & ~3) << 2);
  while (y < end) {
    v128.store(y, f32Of(op, v128.load(a), v128.load(b)));
    a += stepA << 2;
    b += stepB << 2;
    y += 16;
  }
  for (let i = n & ~3; i < n; i++) {
    f32.store(y, f32x4.extract_lane(f32Of(op, v128.load32_zero(a), v128.load32_zero(b)), 0));
    a += stepA;
    b += stepB;
    y += 4;
  }
}

function powRow(a: usize, b: usize, y: usize, n: i32, stepA: usize, stepB: usize): void {
  for (let i = 0; i < n; i++) {
    f32.store(y, pow(f32.load(a), f32.load(b)));
    a += stepA;
    b += stepB;
    y += 4;
  }
}

// @ts-ignore: decorator
@inline
function holds<T>(op: i32, a: T, b: T): bool {
  if (op == EQUAL) return a == b;
  if (op == LESS) return a < b;
  if (op == GREATER) return a > b;
  if (op == LESS_OR_EQUAL) return a <= b;
  return a >= b;
}

// @ts-ignore: decorator
@inline
function compareRow<T>(op: i32, a: usize, b: usize, y: usize, n: i32, stepA: usize, stepB: usize): void {
  for (let i = 0; i < n; i++) {
    store<u8>(y, <u8>holds<T>(op, load<T>(a), load<T>(b)));
    a += stepA;
    b += stepB;
    y++;
  }
}

// @ts-ignore: decorator
@inline
function compare<T>(op: i32, a: usize, b: usize, y: usize, n: i32, stepA: usize, stepB: usize): void {
  switch (op) {
    case EQUAL: compareRow<T>(EQUAL, a, b, y, n, stepA, stepB); break;
    case LESS: compareRow<T>(LESS, a, b, y, n, stepA, stepB); break;
    case GREATER: compareRow<T>(GREATER, a, b, y, n, stepA, stepB); break;
    case LESS_OR_EQUAL: compareRow<T>(LESS_OR_EQUAL, a, b, y, n, stepA, stepB); break;
    default: compareRow<T>(GREATER_OR_EQUAL, a, b, y, n, stepA, stepB);
  }
}

/** Integers wrap around; anything divided by 0 is 0. Mod has the sign of the divisor. */
// @ts-ignore: decorator
@inline
function integerOf<T>(op: i32, a: T, b: T): T {
  if (op == ADD) return <T>(a + b);
  if (op == SUB) return <T>(a - b);
  if (op == MUL) return <T>(a * b);
  // Dividing the least integer by −1 would trap.
  if (op == DIV) return b == 0 ? 0 : b == -1 ? <T>(0 - a) : <T>(a / b);
  if (op == MIN) return a < b ? a : b;
  if (op == MAX) return a > b ? a : b;
  if (op == AND) return a & b;
  if (op == OR) return a | b;
  if (op == XOR) return a ^ b;
  if (b == 0 || b == -1) return 0;
  const r = <T>(a % b);
  return r != 0 && r < 0 != b < 0 ? <T>(r + b) : r;
}

// @ts-ignore: decorator
@inline
function integerRow<T>(op: i32, a: usize, b: usize, y: usize, n: i32, stepA: usize, stepB: usize): void {
  for (let i = 0; i < n; i++) {
    store<T>(y, integerOf<T>(op, load<T>(a), load<T>(b)));
    a += stepA;
    b += stepB;
    y += sizeof<T>();
  }
}

// @ts-ignore: decorator
@inline
function integers<T>(op: i32, a: usize, b: usize, y: usize, n: i32, stepA: usize, stepB: usize): void {
  switch (op) {
    case ADD: integerRow<T>(ADD, a, b, y, n, stepA, stepB); break;
    case SUB: integerRow<T>(SUB, a, b, y, n, stepA, stepB); break;
    case MUL: integerRow<T>(MUL, a, b, y, n, stepA, stepB); break;
    case DIV: integerRow<T>(DIV, a, b, y, n, stepA, stepB); break;
    case MIN: integerRow<T>(MIN, a, b, y, n, stepA, stepB); break;
    case MAX: integerRow<T>(MAX, a, b, y, n, stepA, stepB); break;
    case AND: integerRow<T>(AND, a, b, y, n, stepA, stepB); break;
    case OR: integerRow<T>(OR, a, b, y, n, stepA, stepB); break;
    case XOR: integerRow<T>(XOR, a, b, y, n, stepA, stepB); break;
    default: integerRow<T>(MOD, a, b, y, n, stepA, stepB);
  }
}

/** y = c ? a : b, any type by its size. */
// @ts-ignore: decorator
@inline
function whereRow<T>(c: usize, a: usize, b: usize, y: usize, n: i32, stepC: usize, stepA: usize, stepB: usize): void {
  for (let i = 0; i < n; i++) {
    store<T>(y, select<T>(load<T>(a), load<T>(b), load<u8>(c) != 0));
    a += stepA;
    b += stepB;
    c += stepC;
    y += sizeof<T>();
  }
}

function row(
  op: i32, type: i32, a: usize, b: usize, c: usize, y: usize, n: i32, stepA: usize, stepB: usize, stepC: usize,
): void {
  if (op == WHERE) {
    if (type == U8) whereRow<u8>(c, a, b, y, n, stepC, stepA, stepB);
    else if (type == I64) whereRow<u64>(c, a, b, y, n, stepC, stepA, stepB);
    else whereRow<u32>(c, a, b, y, n, stepC, stepA, stepB);
  } else if (op >= EQUAL && op <= GREATER_OR_EQUAL) {
    if (type == F32) compare<f32>(op, a, b, y, n, stepA, stepB);
    else if (type == I32) compare<i32>(op, a, b, y, n, stepA, stepB);
    else if (type == I64) compare<i64>(op, a, b, y, n, stepA, stepB);
    else compare<u8>(op, a, b, y, n, stepA, stepB);
  } else if (type == I32) integers<i32>(op, a, b, y, n, stepA, stepB);
  else if (type == I64) integers<i64>(op, a, b, y, n, stepA, stepB);
  else if (type == U8) {
    if (op == AND) integerRow<u8>(AND, a, b, y, n, stepA, stepB);
    else if (op == OR) integerRow<u8>(OR, a, b, y, n, stepA, stepB);
    else integerRow<u8>(XOR, a, b, y, n, stepA, stepB);
  } else {
    switch (op) {
      case ADD: f32Row(ADD, a, b, y, n, stepA, stepB); break;
      case SUB: f32Row(SUB, a, b, y, n, stepA, stepB); break;
      case MUL: f32Row(MUL, a, b, y, n, stepA, stepB); break;
      case DIV: f32Row(DIV, a, b, y, n, stepA, stepB); break;
      case MIN: f32Row(MIN, a, b, y, n, stepA, stepB); break;
      case MAX: f32Row(MAX, a, b, y, n, stepA, stepB); break;
      case POW: powRow(a, b, y, n, stepA, stepB); break;
      default: f32Row(PRELU, a, b, y, n, stepA, stepB);
    }
  }
}

/** Where a row reads an operand: there, or for a repeated float, spread over the scratch. */
// @ts-ignore: decorator
@inline
function spread(type: i32, vector: i32, from: usize, scratch: usize): usize {
  if (vector || type != F32) return from;
  v128.store(scratch, v128.load32_splat(from));
  return scratch;
}

export function broadcast(params: usize, begin: i32, end: i32, scratch: usize): void {
  const p = changetype<Broadcast>(params);
  const op = p.op;
  const type = p.type;
  const shift: usize = type == U8 ? 0 : type == I64 ? 3 : 2;
  const shiftY: usize = op >= EQUAL && op <= GREATER_OR_EQUAL ? 0 : shift;
  const inner = p.inner;
  const rank = p.rank;
  const last = min(end * BLOCK, p.size);
  const stepA: usize = p.vectorA ? 1 << shift : 0;
  const stepB: usize = p.vectorB ? 1 << shift : 0;
  const stepC: usize = p.vectorC ? 1 : 0;
  let at = begin * BLOCK;
  let rowIndex = at / inner;
  let column = at - rowIndex * inner;
  while (at < last) {
    let offsetA = 0;
    let offsetB = 0;
    let offsetC = 0;
    let rest = rowIndex;
    // The innermost outer axis advances by strides; the others are found again when it wraps.
    let run = 1;
    let run0 = 0;
    for (let axis = rank - 1; axis >= 0; axis--) {
      const d = load<i32>(p.dims + (<usize>axis << 2));
      const q = rest / d;
      const index = rest - q * d;
      if (axis == rank - 1) {
        run = d;
        run0 = index;
      }
      rest = q;
      offsetA += index * load<i32>(p.stridesA + (<usize>axis << 2));
      offsetB += index * load<i32>(p.stridesB + (<usize>axis << 2));
      offsetC += index * load<i32>(p.stridesC + (<usize>axis << 2));
    }
    const tail = <usize>(rank - 1) << 2;
    const nextA = rank ? load<i32>(p.stridesA + tail) : 0;
    const nextB = rank ? load<i32>(p.stridesB + tail) : 0;
    const nextC = rank ? load<i32>(p.stridesC + tail) : 0;
    for (let r = run0; r < run && at < last; r++) {
      const n = min(inner - column, last - at);
      const a = p.a + (<usize>offsetA << shift) + stepA * column;
      const b = p.b + (<usize>offsetB << shift) + stepB * column;
      const c = p.c + <usize>offsetC + stepC * column;
      const y = p.y + (<usize>at << shiftY);
      row(op, type, spread(type, p.vectorA, a, scratch), spread(type, p.vectorB, b, scratch + 16), c, y, n, stepA, stepB, stepC);
      if (p.activation != NONE) activateSpan(p.activation, y, y, n, p.alpha, p.beta);
      at += n;
      column = 0;
      rowIndex++;
      offsetA += nextA;
      offsetB += nextB;
      offsetC += nextC;
    }
  }
}
