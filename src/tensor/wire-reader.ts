// Reads the protobuf wire format, by hand, because a model's weights must be views of the file and because the file may
// be hostile. How to picture it: a cursor over one message; `next()` steps to a field, then one typed method takes its
// value. Everything is bounds-checked and every complaint names the message and the byte. Memory taken is at most a small
// multiple of the bytes read. What the fields mean is not known here.
//
//   for (const r = new WireReader(bytes, 'TensorProto'); r.next(); )
//     switch (r.field) { case 1: dims.push(r.int()); break; … default: r.skip(); }
import { SkepError } from './errors.js';

/** Messages nested deeper are refused (protobuf's own default). */
const MAX_DEPTH = 100;

const VARINT = 0;
const FIXED64 = 1;
const BYTES = 2;
const FIXED32 = 5;

// Names must be exact, or two of them could become one; other strings are bytes by specification and are read leniently.
const strict = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
const lenient = new TextDecoder('utf-8', { ignoreBOM: true });

/**
 * Memory that a few bytes of file may ask for (zeros of a sparse tensor), all together: this, and so many times the
 * file's size.
 */
const ALLOWANCE = 2 ** 26;
const ALLOWANCE_RATIO = 64;

/** Values of one repeated numeric field, which may come packed, unpacked, or both by turns. */
export type Parts<T> = ArrayLike<T>[];

/** A cursor over the fields of one message. */
export class WireReader {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  readonly #end: number;
  readonly #depth: number;
  /** Byte of the whole file at which `bytes[0]` lies, so that nested messages report file offsets. */
  readonly #base: number;
  readonly #what: string;
  /** Bytes still to be had by `allow`, shared by all cursors over one file. */
  readonly #allowance: { left: number };
  #at = 0;
  #lo = 0;
  #hi = 0;
  #wire = 0;
  /** Number of the field `next()` stepped to. */
  field = 0;
  /** Where that field begins, in bytes from the start of the file. */
  offset: number;

  constructor(bytes: Uint8Array, what: string, base = 0, depth = 0, allowance?: { left: number }) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.#end = bytes.byteLength;
    this.#what = what;
    this.#base = base;
    this.#depth = depth;
    this.#allowance = allowance ?? { left: ALLOWANCE + ALLOWANCE_RATIO * bytes.byteLength };
    this.offset = base;
  }

  /** An error that says what was being read and at which byte. */
  error(message: string, at = this.#base + this.#at): SkepError {
    return new SkepError('INVALID_MODEL', `${this.#what} at byte ${at}: ${message}`);
  }

  /** False when memory that is not backed by bytes of the file would grow out of proportion to it. */
  allow(bytes: number): boolean {
    this.#allowance.left -= bytes;
    return this.#allowance.left >= 0;
  }

  /** Steps to the next field; false at the end of the message. */
  next(): boolean {
    if (this.#at >= this.#end) return false;
    this.offset = this.#base + this.#at;
    this.#varint();
    this.field = this.#lo >>> 3;
    this.#wire = this.#lo & 7;
    if (this.field === 0 || this.#hi !== 0) throw this.error('not a protobuf field', this.offset);
    return true;
  }

  /** Passes over the field. */
  skip(): void {
    if (this.#wire === VARINT) this.#varint();
    else if (this.#wire === FIXED64) this.#take(8);
    else if (this.#wire === FIXED32) this.#take(4);
    else if (this.#wire === BYTES) this.#take(this.#length());
    else throw this.error(`field ${this.field} has wire type ${this.#wire}, which no ONNX file has`, this.offset);
  }

  /** An int64, int32 or enum as a number: beyond 2^53 the nearest double. */
  int(): number {
    this.#expect(VARINT, 'an integer');
    this.#varint();
    return (this.#hi | 0) * 4294967296 + this.#lo;
  }

  float(): number {
    this.#expect(FIXED32, 'a float');
    return this.#view.getFloat32(this.#take(4), true);
  }

  /** A length-delimited field as a view. */
  bytes(): Uint8Array {
    this.#expect(BYTES, 'bytes');
    const length = this.#length();
    const from = this.#take(length);
    return this.#bytes.subarray(from, from + length);
  }

  /** A string that must be UTF-8: names and the like. */
  string(): string {
    const bytes = this.bytes();
    try {
      return strict.decode(bytes);
    } catch {
      throw this.error(`field ${this.field} is not UTF-8 text`, this.offset);
    }
  }

  /** A `bytes` field that holds text; what is not UTF-8 becomes U+FFFD. */
  text(): string {
    return lenient.decode(this.bytes());
  }

  /** A cursor over a nested message. */
  message(what: string): WireReader {
    const bytes = this.bytes();
    if (this.#depth >= MAX_DEPTH) throw this.error(`messages are nested deeper than ${MAX_DEPTH}`, this.offset);
    return new WireReader(bytes, what, this.#base + this.#at - bytes.length, this.#depth + 1, this.#allowance);
  }

  /** Appends the value(s) of a repeated int64 (or int32, enum) field as numbers. */
  ints(into: Parts<number>): void {
    if (this.#wire === VARINT) {
      single(into, this.int());
      return;
    }
    const packed = this.#packed();
    const out = new Float64Array(packed.#countVarints());
    for (let i = 0; i < out.length; i++) {
      packed.#varint();
      out[i] = (packed.#hi | 0) * 4294967296 + packed.#lo;
    }
    into.push(out);
  }

  /** The same for int32_data: low 32 bits only, in a smaller array. */
  int32s(into: Parts<number>): void {
    if (this.#wire === VARINT) {
      this.#varint();
      single(into, this.#lo | 0);
      return;
    }
    const packed = this.#packed();
    const out = new Int32Array(packed.#countVarints());
    for (let i = 0; i < out.length; i++) {
      packed.#varint();
      out[i] = packed.#lo;
    }
    into.push(out);
  }

  /** Appends the value(s) of a repeated 64-bit field with every bit. */
  bigs(into: Parts<bigint>, signed: boolean): void {
    const packed = this.#wire === VARINT ? undefined : this.#packed();
    const from = packed ?? this;
    const count = packed === undefined ? 1 : packed.#countVarints();
    const words = new Uint32Array(2 * count);
    for (let i = 0; i < count; i++) {
      from.#varint();
      words[2 * i] = from.#lo;
      words[2 * i + 1] = from.#hi;
    }
    const out = signed ? new BigInt64Array(words.buffer) : new BigUint64Array(words.buffer);
    if (packed === undefined) single(into, out[0]!);
    else into.push(out);
  }

  /** Appends the value(s) of a repeated float field: a view of the file where alignment allows. */
  floats(into: Parts<number>): void {
    if (this.#wire === FIXED32) {
      single(into, this.float());
      return;
    }
    const bytes = this.#chunk(4);
    into.push(new Float32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4));
  }

  /** The same for double. */
  doubles(into: Parts<number>): void {
    if (this.#wire === FIXED64) {
      single(into, this.#view.getFloat64(this.#take(8), true));
      return;
    }
    const bytes = this.#chunk(8);
    into.push(new Float64Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 8));
  }

  #chunk(size: number): Uint8Array {
    const bytes = this.bytes();
    if (bytes.byteLength % size !== 0)
      throw this.error(`packed field ${this.field} has ${bytes.byteLength} bytes, not a multiple of ${size}`);
    // Not slice(): a Buffer's gives a view.
    return bytes.byteOffset % size === 0 ? bytes : new Uint8Array(bytes);
  }

  #packed(): WireReader {
    const bytes = this.bytes();
    return new WireReader(bytes, this.#what, this.#base + this.#at - bytes.length, this.#depth, this.#allowance);
  }

  #countVarints(): number {
    let count = 0;
    for (let i = 0; i < this.#end; i++) if (this.#bytes[i]! < 128) count++;
    if (this.#end > 0 && this.#bytes[this.#end - 1]! >= 128) throw this.error('a packed field ends inside a number');
    return count;
  }

  #expect(wire: number, what: string): void {
    if (this.#wire !== wire)
      throw this.error(`field ${this.field} must be ${what}, got wire type ${this.#wire}`, this.offset);
  }

  #length(): number {
    this.#varint();
    if (this.#hi !== 0) throw this.error(`field ${this.field} has a length past 4 GiB`, this.offset);
    return this.#lo;
  }

  #take(length: number): number {
    const from = this.#at;
    if (length > this.#end - from)
      throw this.error(`field ${this.field} needs ${length} bytes, but only ${this.#end - from} are left`, this.offset);
    this.#at = from + length;
    return from;
  }

  #varint(): void {
    let lo = 0;
    let hi = 0;
    const start = this.#at;
    for (let shift = 0; shift < 70; shift += 7) {
      if (this.#at >= this.#end) throw this.error('ends inside a number', this.#base + start);
      const b = this.#bytes[this.#at++]!;
      const low = b & 127;
      if (shift < 28) lo |= low << shift;
      else if (shift === 28) {
        lo |= low << 28;
        hi = low >>> 4;
      } else if (shift < 63) hi |= low << (shift - 32);
      else hi |= (low & 1) << 31;
      if (b < 128) {
        this.#lo = lo >>> 0;
        this.#hi = hi >>> 0;
        return;
      }
    }
    throw this.error('a number longer than 10 bytes', this.#base + start);
  }
}

function single<T>(into: Parts<T>, value: T): void {
  const last = into[into.length - 1];
  if (Array.isArray(last)) last.push(value);
  else into.push([value]);
}

/** All values of a repeated field in one array: the part itself when there is one. */
export function joinParts<T>(parts: Parts<T>): ArrayLike<T> {
  if (parts.length === 1) return parts[0]!;
  let length = 0;
  for (const p of parts) length += p.length;
  const out = new Array<T>(length);
  let k = 0;
  for (const p of parts) for (let i = 0; i < p.length; i++) out[k++] = p[i]!;
  return out;
}
