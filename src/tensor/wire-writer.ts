// Writes the protobuf wire format. How to picture it: a list of chunks, each a few bytes of tags and numbers or a view of
// somebody's weights; lengths are known before they are written because nested messages are finished first. Weights are
// copied once, by `finish`.

const encoder = new TextEncoder();

/** Collects the fields of one message. */
export class WireWriter {
  readonly #chunks: Uint8Array[] = [];
  #small: number[] = [];
  #length = 0;

  /** Bytes written so far. */
  get length(): number {
    return this.#length + this.#small.length;
  }

  /** An int64, int32, enum or bool field. */
  int(field: number, value: number): void {
    this.#tag(field, 0);
    this.#varint(value);
  }

  float(field: number, value: number): void {
    this.#tag(field, 5);
    this.#small.push(...new Uint8Array(Float32Array.of(value).buffer));
  }

  string(field: number, text: string): void {
    this.bytes(field, encoder.encode(text));
  }

  bytes(field: number, bytes: Uint8Array): void {
    this.#tag(field, 2);
    this.#varint(bytes.length);
    this.#append(bytes);
  }

  /** A nested message, written by `fill`. */
  message(field: number, fill: (w: WireWriter) => void): void {
    const inner = new WireWriter();
    fill(inner);
    this.#tag(field, 2);
    this.#varint(inner.length);
    inner.#flush();
    for (const c of inner.#chunks) this.#append(c);
  }

  /** A packed repeated int64 field; nothing when empty. */
  packedInts(field: number, values: readonly number[]): void {
    if (values.length === 0) return;
    const inner = new WireWriter();
    for (const v of values) inner.#varint(v);
    this.bytes(field, inner.finish());
  }

  /** A packed repeated float field; nothing when empty. */
  packedFloats(field: number, values: readonly number[]): void {
    if (values.length > 0) this.bytes(field, new Uint8Array(Float32Array.from(values).buffer));
  }

  /** The message. */
  finish(): Uint8Array {
    this.#flush();
    const out = new Uint8Array(this.#length);
    let at = 0;
    for (const c of this.#chunks) {
      out.set(c, at);
      at += c.length;
    }
    return out;
  }

  #append(bytes: Uint8Array): void {
    if (bytes.length < 64) {
      for (let i = 0; i < bytes.length; i++) this.#small.push(bytes[i]!);
      return;
    }
    this.#flush();
    this.#chunks.push(bytes);
    this.#length += bytes.length;
  }

  #flush(): void {
    if (this.#small.length === 0) return;
    this.#chunks.push(Uint8Array.from(this.#small));
    this.#length += this.#small.length;
    this.#small = [];
  }

  #tag(field: number, wire: number): void {
    this.#varint(field * 8 + wire);
  }

  #varint(value: number): void {
    if (value >= 0 && value < 0x80) {
      this.#small.push(value);
      return;
    }
    // 2^63 − 1, a common "to the end", is 2^63 once it has been a double.
    let v = value >= 2 ** 63 ? 2n ** 63n - 1n : BigInt.asUintN(64, BigInt(Math.max(value, -(2 ** 63))));
    while (v >= 128n) {
      this.#small.push(Number(v & 127n) | 128);
      v >>= 7n;
    }
    this.#small.push(Number(v));
  }
}
