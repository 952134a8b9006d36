// From ModelProto bytes to plain objects that still say what the file says: functions not inlined, attribute references
// not resolved, domains as written. How to picture it: one function a message, a switch over its fields. Meaning (names,
// order, functions, versions) is link.ts.
import type { Attribute, ValueInfo, ValueType } from '../graph/graph.js';
import type { SkepError } from '../tensor/errors.js';
import type { Tensor } from '../tensor/tensor.js';
import { type ExternalReader, readEntry, readSparseTensor, readTensor } from '../tensor/tensor-proto.js';
import { joinParts, type Parts, WireReader } from '../tensor/wire-reader.js';
import { parseType, parseValueInfo } from './parse-type.js';

/** An attribute as written: a value (graphs unlinked), or a reference to an attribute of the enclosing function. */
export type RawAttribute =
  | Exclude<Attribute, { kind: 'graph' | 'graphs' }>
  | { readonly kind: 'graph'; readonly value: RawGraph }
  | { readonly kind: 'graphs'; readonly value: readonly RawGraph[] }
  | { readonly kind: 'reference'; readonly value: string };

/** A node as written. */
export interface RawNode {
  readonly op: string;
  readonly domain: string;
  readonly overload: string;
  readonly name: string;
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  readonly attributes: ReadonlyMap<string, RawAttribute>;
  /** Byte of the file where it begins. */
  readonly offset: number;
}

/** A graph as written. */
export interface RawGraph {
  readonly name: string;
  readonly inputs: readonly ValueInfo[];
  readonly outputs: readonly ValueInfo[];
  readonly initializers: ReadonlyMap<string, Tensor>;
  readonly nodes: readonly RawNode[];
  readonly offset: number;
}

/** A model-local function as written. */
export interface RawFunction {
  readonly name: string;
  readonly domain: string;
  readonly overload: string;
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  /** Attributes with a default; those without one are only references in the body. */
  readonly defaults: ReadonlyMap<string, RawAttribute>;
  readonly nodes: readonly RawNode[];
  readonly opsets: ReadonlyMap<string, number>;
}

/** A model as written. */
export interface RawModel {
  readonly irVersion: number;
  readonly opsets: ReadonlyMap<string, number>;
  readonly producer: string;
  readonly metadata: ReadonlyMap<string, string>;
  readonly graph: RawGraph | undefined;
  readonly functions: readonly RawFunction[];
}

/** `ai.onnx` is an alias of the empty domain. */
function normalizeDomain(domain: string): string {
  return domain === 'ai.onnx' ? '' : domain;
}

/** Parses a ModelProto. Throws INVALID_MODEL that says which message and byte. */
export function parseModel(bytes: Uint8Array, external: ExternalReader | undefined): RawModel {
  const r = new WireReader(bytes, 'ModelProto');
  const opsets = new Map<string, number>();
  const metadata = new Map<string, string>();
  const functions: RawFunction[] = [];
  let irVersion = 0;
  let producer = '';
  let graph: RawGraph | undefined;
  while (r.next()) {
    switch (r.field) {
      case 1:
        irVersion = r.int();
        break;
      case 2:
        producer = r.text();
        break;
      case 7:
        if (graph !== undefined) throw r.error('a second graph', r.offset);
        graph = parseGraph(r.message('GraphProto'), external);
        break;
      case 8:
        parseOpset(r.message('OperatorSetIdProto'), opsets);
        break;
      case 14:
        metadata.set(...readEntry(r.message('StringStringEntryProto')));
        break;
      case 25:
        functions.push(parseFunction(r.message('FunctionProto'), external));
        break;
      default:
        r.skip();
    }
  }
  return { irVersion, opsets, producer, metadata, graph, functions };
}

/** Of several versions of one domain the highest counts (onnx.proto, ModelProto.opset_import). */
function parseOpset(r: WireReader, opsets: Map<string, number>): void {
  let domain = '';
  let version = 0;
  while (r.next()) {
    if (r.field === 1) domain = normalizeDomain(r.string());
    else if (r.field === 2) version = r.int();
    else r.skip();
  }
  opsets.set(domain, Math.max(version, opsets.get(domain) ?? 0));
}

function parseGraph(r: WireReader, external: ExternalReader | undefined): RawGraph {
  const offset = r.offset;
  const nodes: RawNode[] = [];
  const inputs: ValueInfo[] = [];
  const outputs: ValueInfo[] = [];
  const initializers = new Map<string, Tensor>();
  let name = '';
  const initialize = (found: { name: string; tensor: Tensor }, at: number) => {
    if (found.name === '') throw r.error('an initializer without a name', at);
    if (initializers.has(found.name)) throw r.error(`a second initializer '${found.name}'`, at);
    initializers.set(found.name, found.tensor);
  };
  while (r.next()) {
    const at = r.offset;
    switch (r.field) {
      case 1:
        nodes.push(parseNode(r.message('NodeProto'), external));
        break;
      case 2:
        name = r.string();
        break;
      case 5:
        initialize(readTensor(r.message('TensorProto'), external), at);
        break;
      case 11:
        inputs.push(parseValueInfo(r.message('ValueInfoProto')));
        break;
      case 12:
        outputs.push(parseValueInfo(r.message('ValueInfoProto')));
        break;
      case 15:
        initialize(readSparseTensor(r.message('SparseTensorProto'), external), at);
        break;
      default:
        r.skip();
    }
  }
  return { name, inputs, outputs, initializers, nodes, offset };
}

function parseNode(r: WireReader, external: ExternalReader | undefined): RawNode {
  const offset = r.offset;
  const inputs: string[] = [];
  const outputs: string[] = [];
  const attributes = new Map<string, RawAttribute>();
  let op = '';
  let domain = '';
  let overload = '';
  let name = '';
  while (r.next()) {
    switch (r.field) {
      case 1:
        inputs.push(r.string());
        break;
      case 2:
        outputs.push(r.string());
        break;
      case 3:
        name = r.string();
        break;
      case 4:
        op = r.string();
        break;
      case 5:
        parseAttribute(r.message('AttributeProto'), external, attributes);
        break;
      case 7:
        domain = normalizeDomain(r.string());
        break;
      case 8:
        overload = r.string();
        break;
      default:
        r.skip();
    }
  }
  if (op === '') throw r.error(`node '${name}' has no op_type`, offset);
  return { op, domain, overload, name, inputs, outputs, attributes, offset };
}

/** AttributeProto.AttributeType by number. */
const attributeKinds = [
  'undefined',
  'float',
  'int',
  'string',
  'tensor',
  'graph',
  'floats',
  'ints',
  'strings',
  'tensors',
  'graphs',
  'sparse tensor',
  'sparse tensors',
  'type',
  'types',
] as const;

/** The fields of one AttributeProto, all optional. */
interface AttributeFields {
  f?: number;
  i?: number;
  s?: string;
  t?: Tensor;
  g?: RawGraph;
  tp?: ValueType;
  readonly floats: Parts<number>;
  readonly ints: Parts<number>;
  readonly strings: string[];
  readonly tensors: Tensor[];
  readonly graphs: RawGraph[];
}

function parseAttribute(r: WireReader, external: ExternalReader | undefined, into: Map<string, RawAttribute>): void {
  const start = r.offset;
  const v: AttributeFields = { floats: [], ints: [], strings: [], tensors: [], graphs: [] };
  let name = '';
  let reference = '';
  let type: number | undefined;
  while (r.next()) {
    switch (r.field) {
      case 1:
        name = r.string();
        break;
      case 2:
        v.f = r.float();
        break;
      case 3:
        v.i = r.int();
        break;
      case 4:
        v.s = r.text();
        break;
      case 5:
        v.t = readTensor(r.message('TensorProto'), external).tensor;
        break;
      case 6:
        v.g = parseGraph(r.message('GraphProto'), external);
        break;
      case 7:
        r.floats(v.floats);
        break;
      case 8:
        r.ints(v.ints);
        break;
      case 9:
        v.strings.push(r.text());
        break;
      case 10:
        v.tensors.push(readTensor(r.message('TensorProto'), external).tensor);
        break;
      case 11:
        v.graphs.push(parseGraph(r.message('GraphProto'), external));
        break;
      case 14:
        v.tp = parseType(r.message('TypeProto'));
        break;
      case 20:
        type = r.int();
        break;
      case 21:
        reference = r.string();
        break;
      case 22:
        v.t = readSparseTensor(r.message('SparseTensorProto'), external).tensor;
        break;
      case 23:
        v.tensors.push(readSparseTensor(r.message('SparseTensorProto'), external).tensor);
        break;
      default:
        r.skip();
    }
  }
  const fail = (message: string) => r.error(`attribute '${name}': ${message}`, start);
  if (name === '') throw r.error('an attribute without a name', start);
  if (into.has(name)) throw fail('is there twice');
  into.set(name, reference !== '' ? { kind: 'reference', value: reference } : attributeOf(v, type, fail));
}

function attributeOf(v: AttributeFields, type: number | undefined, fail: (m: string) => SkepError): RawAttribute {
  const kind = attributeKinds[type || guessType(v)];
  const need = <T>(value: T | undefined): T => {
    if (value === undefined) throw fail(`is declared ${kind} but has no such value`);
    return value;
  };
  switch (kind) {
    // proto3 writers leave zeros out.
    case 'float':
      return { kind, value: v.f ?? 0 };
    case 'int':
      return { kind, value: v.i ?? 0 };
    case 'string':
      return { kind, value: v.s ?? '' };
    case 'tensor':
    case 'sparse tensor':
      return { kind: 'tensor', value: need(v.t) };
    case 'graph':
      return { kind, value: need(v.g) };
    case 'type':
      return { kind, value: need(v.tp) };
    case 'floats':
      return { kind, value: Array.from(joinParts(v.floats)) };
    case 'ints':
      return { kind, value: Array.from(joinParts(v.ints)) };
    case 'strings':
      return { kind, value: v.strings };
    case 'tensors':
    case 'sparse tensors':
      return { kind: 'tensors', value: v.tensors };
    case 'graphs':
      return { kind, value: v.graphs };
    default:
      throw fail(kind === undefined ? `unknown attribute type ${type}` : `no value Skep can read (${kind})`);
  }
}

/** IR version 1 had no type field: the field that is there tells. */
function guessType(v: AttributeFields): number {
  if (v.f !== undefined) return 1;
  if (v.i !== undefined) return 2;
  if (v.s !== undefined) return 3;
  if (v.t !== undefined) return 4;
  if (v.g !== undefined) return 5;
  if (v.tp !== undefined) return 13;
  if (v.floats.length > 0) return 6;
  if (v.ints.length > 0) return 7;
  if (v.strings.length > 0) return 8;
  if (v.tensors.length > 0) return 9;
  if (v.graphs.length > 0) return 10;
  // An empty list, of whatever.
  return 7;
}

function parseFunction(r: WireReader, external: ExternalReader | undefined): RawFunction {
  const start = r.offset;
  const inputs: string[] = [];
  const outputs: string[] = [];
  const nodes: RawNode[] = [];
  const defaults = new Map<string, RawAttribute>();
  const opsets = new Map<string, number>();
  let name = '';
  let domain = '';
  let overload = '';
  while (r.next()) {
    switch (r.field) {
      case 1:
        name = r.string();
        break;
      case 4:
        inputs.push(r.string());
        break;
      case 5:
        outputs.push(r.string());
        break;
      case 7:
        nodes.push(parseNode(r.message('NodeProto'), external));
        break;
      case 9:
        parseOpset(r.message('OperatorSetIdProto'), opsets);
        break;
      case 10:
        domain = normalizeDomain(r.string());
        break;
      case 11:
        parseAttribute(r.message('AttributeProto'), external, defaults);
        break;
      case 13:
        overload = r.string();
        break;
      default:
        r.skip();
    }
  }
  if (name === '') throw r.error('a function without a name', start);
  return { name, domain, overload, inputs, outputs, defaults, nodes, opsets };
}
