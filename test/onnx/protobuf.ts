// Writes protobuf messages field by field, also wrong ones: what the reader's tests feed it.
import { WireWriter } from '../../src/tensor/wire-writer.js';

/** A field: number and value. Numbers are varints, strings and bytes length-delimited, arrays nested messages. */
export type Field = readonly [field: number, value: number | string | Uint8Array | readonly Field[]];

/** A field whose value is one scalar, or the fields of a nested message (one by one, or as a list). */
export function f(
  field: number,
  ...value: readonly [number | string | Uint8Array | readonly Field[]] | readonly Field[]
): Field {
  const [first] = value;
  if (first === undefined) return [field, []];
  if (!Array.isArray(first)) return [field, first as number | string | Uint8Array];
  return [field, (typeof first[0] === 'number' ? value : first) as readonly Field[]];
}

/** The bytes of a message. */
export function message(...fields: readonly Field[]): Uint8Array {
  const w = new WireWriter();
  for (const [field, value] of fields) {
    if (typeof value === 'number') w.int(field, value);
    else if (typeof value === 'string') w.string(field, value);
    else if (value instanceof Uint8Array) w.bytes(field, value);
    else w.bytes(field, message(...value));
  }
  return w.finish();
}

/** A NodeProto field of a GraphProto. */
export function node(
  op: string,
  inputs: readonly string[],
  outputs: readonly string[],
  ...more: readonly Field[]
): Field {
  return [1, nodeFields(op, inputs, outputs, ...more)];
}

/** The fields of a NodeProto. */
export function nodeFields(
  op: string,
  inputs: readonly string[],
  outputs: readonly string[],
  ...more: readonly Field[]
): readonly Field[] {
  return [...inputs.map((n): Field => [1, n]), ...outputs.map((n): Field => [2, n]), [4, op], ...more];
}

/** float32 graph input (field 11) or output (field 12) of one unknown dimension. */
export function info(field: 11 | 12, name: string): Field {
  return [
    field,
    [
      [1, name],
      [
        2,
        [
          [
            1,
            [
              [1, 1],
              [2, [[1, []]]],
            ],
          ],
        ],
      ],
    ],
  ];
}

/** A ModelProto around a graph, with operator set 17. */
export function model(graph: readonly Field[], ...more: readonly Field[]): Uint8Array {
  return message(
    [1, 8],
    [7, [[2, 'g'], ...graph]],
    [
      8,
      [
        [1, ''],
        [2, 17],
      ],
    ],
    ...more,
  );
}
