// The declared types of values: ValueInfoProto, TypeProto and what it is made of. Lenient where exporters leave things
// unsaid (no element type, negative sizes, empty symbols): that is "unknown", not an error.
import type { Dim, ValueInfo, ValueType } from '../graph/graph.js';
import { dataTypeOf } from '../tensor/types.js';
import type { WireReader } from '../tensor/wire-reader.js';

/** A ValueInfoProto. */
export function parseValueInfo(r: WireReader): ValueInfo {
  const start = r.offset;
  let name = '';
  let type: ValueType | undefined;
  while (r.next()) {
    if (r.field === 1) name = r.string();
    else if (r.field === 2) type = parseType(r.message('TypeProto'));
    else r.skip();
  }
  if (name === '') throw r.error('a graph input or output without a name', start);
  return type === undefined ? { name } : { name, type };
}

/** A TypeProto; undefined when it declares nothing (an element type of 0 is how exporters say "unknown"). */
export function parseType(r: WireReader): ValueType | undefined {
  let type: ValueType | undefined;
  const start = r.offset;
  while (r.next()) {
    switch (r.field) {
      case 1:
      case 8:
        type = parseTensorType(r.message('TypeProto.Tensor'));
        break;
      case 4:
      case 9: {
        const kind = r.field === 4 ? 'sequence' : 'optional';
        const inner = r.message(`TypeProto.${kind}`);
        let element: ValueType | undefined;
        while (inner.next()) {
          if (inner.field === 1) element = parseType(inner.message('TypeProto'));
          else inner.skip();
        }
        type = element === undefined ? undefined : { kind, element };
        break;
      }
      case 5:
        type = parseMapType(r.message('TypeProto.Map'));
        break;
      case 7:
        throw r.error('opaque types are not supported', start);
      default:
        r.skip();
    }
  }
  return type;
}

function parseMapType(r: WireReader): ValueType | undefined {
  const start = r.offset;
  let key = 0;
  let value: ValueType | undefined;
  while (r.next()) {
    if (r.field === 1) key = r.int();
    else if (r.field === 2) value = parseType(r.message('TypeProto'));
    else r.skip();
  }
  const type = dataTypeOf(key);
  if (type === undefined) throw r.error(`a map with keys of unknown type ${key}`, start);
  return value === undefined ? undefined : { kind: 'map', key: type, value };
}

function parseTensorType(r: WireReader): ValueType | undefined {
  const start = r.offset;
  let number = 0;
  let dims: Dim[] | undefined;
  while (r.next()) {
    if (r.field === 1) number = r.int();
    else if (r.field === 2) {
      dims = [];
      for (const shape = r.message('TensorShapeProto'); shape.next(); ) {
        if (shape.field === 1) dims.push(parseDim(shape.message('TensorShapeProto.Dimension')));
        else shape.skip();
      }
    } else r.skip();
  }
  if (number === 0) return undefined;
  const type = dataTypeOf(number);
  if (type === undefined) throw r.error(`unknown element type ${number}`, start);
  return dims === undefined ? { kind: 'tensor', type } : { kind: 'tensor', type, dims };
}

/** A negative size is how old exporters write an unknown one. */
function parseDim(r: WireReader): Dim {
  let dim: Dim = null;
  while (r.next()) {
    if (r.field === 1) {
      const size = r.int();
      dim = size < 0 ? null : size;
    } else if (r.field === 2) {
      const symbol = r.string();
      dim = symbol === '' ? null : symbol;
    } else r.skip();
  }
  return dim;
}
