// Writes models as ONNX files that any runtime reads: Model → bytes. Weights go out as raw data, values with the types
// their graph declares. The inverse of reader.ts: reading what was written gives an equal model.
import type { Attribute, Dim, Graph, Model, Node, ValueInfo, ValueType } from '../graph/graph.js';
import { formatNode, SkepError } from '../tensor/errors.js';
import { bytesOf, type Tensor } from '../tensor/tensor.js';
import { type ExternalLocation, writeTensor } from '../tensor/tensor-proto.js';
import { typeInfo } from '../tensor/types.js';
import { WireWriter } from '../tensor/wire-writer.js';

/** A protobuf message ends here. */
const MAX_BYTES = 2 ** 31 - 1;

/** Tensors smaller than this stay in the model's file: shapes and axes are wanted without the other. */
const EXTERNAL_BYTES = 1024;

/** Tensors in the file beside the model begin at multiples of this, so that they can be mapped or viewed in place. */
const ALIGNMENT = 64;

/** A model whose weights are in a file of their own. */
export interface SplitModel {
  readonly model: Uint8Array;
  /** What the file `externalData` beside the model must hold. */
  readonly data: Uint8Array;
}

/**
 * Writes a model as a ModelProto. With `externalData`, the name of a file that will be beside it, the larger initializers
 * of the main graph go there, which is how a model past 2 GiB is written. Throws `INVALID_INPUT` when the ModelProto is
 * past protobuf's 2 GiB, or when a node was written against another operator set than the one the model imports (an
 * inlined function of another version).
 */
export function writeModel(model: Model): Uint8Array;
export function writeModel(model: Model, options: { readonly externalData: string }): SplitModel;
export function writeModel(model: Model, options?: { readonly externalData: string }): Uint8Array | SplitModel {
  const beside = options === undefined ? undefined : new Beside(options.externalData);
  const bytes = writeProto(model, beside);
  return beside === undefined ? bytes : { model: bytes, data: beside.finish() };
}

/** The file beside the model, as it fills up. */
class Beside {
  readonly #location: string;
  readonly #parts: { readonly offset: number; readonly bytes: Uint8Array }[] = [];
  #length = 0;

  constructor(location: string) {
    if (location === '' || /[/\\:\0]/.test(location) || location === '..')
      throw new SkepError('INVALID_INPUT', `external data must be a file beside the model, got '${location}'`);
    this.#location = location;
  }

  /** Places a tensor; undefined when it is to stay in the model. */
  place(tensor: Tensor): ExternalLocation | undefined {
    if (tensor.type === 'string') return undefined;
    const bytes = bytesOf(tensor);
    if (bytes.length < EXTERNAL_BYTES) return undefined;
    const offset = Math.ceil(this.#length / ALIGNMENT) * ALIGNMENT;
    this.#parts.push({ offset, bytes });
    this.#length = offset + bytes.length;
    return { location: this.#location, offset, length: bytes.length };
  }

  finish(): Uint8Array {
    const out = new Uint8Array(this.#length);
    for (const { offset, bytes } of this.#parts) out.set(bytes, offset);
    return out;
  }
}

function writeProto(model: Model, beside: Beside | undefined): Uint8Array {
  const w = new WireWriter();
  w.int(1, model.irVersion);
  if (model.producer !== '') w.string(2, model.producer);
  w.message(7, (m) => {
    writeGraph(m, model.graph, model.opsets, beside);
  });
  for (const [domain, version] of model.opsets)
    w.message(8, (m) => {
      m.string(1, domain);
      m.int(2, version);
    });
  for (const [key, value] of model.metadata)
    w.message(14, (m) => {
      m.string(1, key);
      m.string(2, value);
    });
  if (w.length > MAX_BYTES)
    throw new SkepError('INVALID_INPUT', `the model takes ${w.length} bytes; an ONNX file may have ${MAX_BYTES}`);
  return w.finish();
}

function writeGraph(w: WireWriter, graph: Graph, opsets: ReadonlyMap<string, number>, beside?: Beside): void {
  for (const node of graph.nodes)
    w.message(1, (m) => {
      writeNode(m, node, opsets);
    });
  // The specification wants graphs named.
  w.string(2, graph.name);
  for (const [name, tensor] of graph.initializers)
    w.message(5, (m) => {
      writeTensor(m, tensor, name, beside?.place(tensor));
    });
  for (const v of graph.inputs)
    w.message(11, (m) => {
      writeValueInfo(m, v);
    });
  for (const v of graph.outputs)
    w.message(12, (m) => {
      writeValueInfo(m, v);
    });
}

function writeNode(w: WireWriter, node: Node, opsets: ReadonlyMap<string, number>): void {
  const imported = opsets.get(node.domain) ?? 1;
  if (imported !== node.opset)
    throw new SkepError(
      'INVALID_INPUT',
      `${formatNode(node)} is of operator set ${node.opset} of '${node.domain || 'ai.onnx'}', but the model imports ${imported}`,
    );
  for (const name of node.inputs) w.string(1, name);
  for (const name of node.outputs) w.string(2, name);
  if (node.name !== '') w.string(3, node.name);
  w.string(4, node.op);
  for (const [name, a] of Object.entries(node.attributes))
    w.message(5, (m) => {
      m.string(1, name);
      m.int(20, writeAttribute(m, a, opsets));
    });
  if (node.domain !== '') w.string(7, node.domain);
}

/** Writes the value of an attribute; gives the number of its type (AttributeProto.AttributeType). */
function writeAttribute(w: WireWriter, a: Attribute, opsets: ReadonlyMap<string, number>): number {
  switch (a.kind) {
    case 'float':
      w.float(2, a.value);
      return 1;
    case 'int':
      w.int(3, a.value);
      return 2;
    case 'string':
      w.string(4, a.value);
      return 3;
    case 'tensor':
      w.message(5, (m) => {
        writeTensor(m, a.value, '');
      });
      return 4;
    case 'graph':
      w.message(6, (m) => {
        writeGraph(m, a.value, opsets);
      });
      return 5;
    case 'floats':
      w.packedFloats(7, a.value);
      return 6;
    case 'ints':
      w.packedInts(8, a.value);
      return 7;
    case 'strings':
      for (const s of a.value) w.string(9, s);
      return 8;
    case 'tensors':
      for (const t of a.value)
        w.message(10, (m) => {
          writeTensor(m, t, '');
        });
      return 9;
    case 'graphs':
      for (const g of a.value)
        w.message(11, (m) => {
          writeGraph(m, g, opsets);
        });
      return 10;
    case 'type':
      w.message(14, (m) => {
        writeType(m, a.value);
      });
      return 13;
    default:
      throw new SkepError('INTERNAL', `attribute kind ${String(a satisfies never)}`);
  }
}

function writeValueInfo(w: WireWriter, value: ValueInfo): void {
  w.string(1, value.name);
  const { type } = value;
  if (type !== undefined)
    w.message(2, (m) => {
      writeType(m, type);
    });
}

function writeType(w: WireWriter, type: ValueType): void {
  switch (type.kind) {
    case 'tensor': {
      const { dims } = type;
      w.message(1, (m) => {
        m.int(1, typeInfo(type.type).onnx);
        if (dims !== undefined)
          m.message(2, (s) => {
            for (const d of dims) s.message(1, (x) => writeDim(x, d));
          });
      });
      return;
    }
    case 'sequence':
    case 'optional':
      w.message(type.kind === 'sequence' ? 4 : 9, (m) => {
        m.message(1, (e) => {
          writeType(e, type.element);
        });
      });
      return;
    case 'map':
      w.message(5, (m) => {
        m.int(1, typeInfo(type.key).onnx);
        m.message(2, (e) => {
          writeType(e, type.value);
        });
      });
      return;
    default:
      throw new SkepError('INTERNAL', `value type ${String(type satisfies never)}`);
  }
}

function writeDim(w: WireWriter, dim: Dim): void {
  if (typeof dim === 'number') w.int(1, dim);
  else if (dim !== null) w.string(2, dim);
}
