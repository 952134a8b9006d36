// Attribute specs: `{ axis: int(-1), perm: ints(), mode: string('nearest') }` gives an operator's attributes their types
// and the specification's defaults, and reads them from a node. A wrong kind is INVALID_MODEL; attributes an operator
// does not know (old versions had `consumed_inputs` and the like) are ignored.
import type { Attribute, Graph, Node } from '../graph/graph.js';
import { formatNode, SkepError } from '../tensor/errors.js';
import type { Tensor } from '../tensor/tensor.js';

/** One attribute: its kind, its default (undefined: none), whether it must be there. */
export interface AttributeSpec<T> {
  readonly kind: Attribute['kind'];
  readonly fallback: T;
  readonly required: boolean;
  /** Another kind that is taken too: an older version's. */
  readonly or?: Attribute['kind'];
}

export type AttributeSpecs = Readonly<Record<string, AttributeSpec<unknown>>>;

/** The object of attribute values that specs describe. */
export type AttributesOf<S extends AttributeSpecs> = {
  readonly [K in keyof S]: S[K] extends AttributeSpec<infer T> ? T : never;
};

function maker<T>(kind: Attribute['kind']) {
  function make(): AttributeSpec<T | undefined>;
  function make(fallback: T): AttributeSpec<T>;
  function make(fallback?: T): AttributeSpec<T | undefined> {
    return { kind, fallback, required: false };
  }
  return make;
}

export const int = maker<number>('int');
export const float = maker<number>('float');
export const string = maker<string>('string');
export const ints = maker<readonly number[]>('ints');
export const floats = maker<readonly number[]>('floats');
export const strings = maker<readonly string[]>('strings');
export const tensor = maker<Tensor>('tensor');
export const graph = maker<Graph>('graph');

/** The same attribute, which must be present. */
export function required<T>(spec: AttributeSpec<T>): AttributeSpec<Exclude<T, undefined>> {
  return { ...spec, fallback: spec.fallback as Exclude<T, undefined>, required: true };
}

/** The attribute of either kind. */
export function either<T, U>(spec: AttributeSpec<T>, other: AttributeSpec<U>): AttributeSpec<T | U> {
  return { ...spec, or: other.kind };
}

/** Hints of old versions that change no result. */
const harmless = new Set(['consumed_inputs', 'broadcast']);

/** The attributes of a node that its operator does not have: a typing error, or an extension of another engine. */
export function unknownAttributes(node: Node, specs: AttributeSpecs): string[] {
  return Object.keys(node.attributes).filter((name) => !Object.hasOwn(specs, name) && !harmless.has(name));
}

/** Reads a node's attributes by an operator's specs. */
export function parseAttributes(node: Node, specs: AttributeSpecs): Record<string, unknown> {
  const values: Record<string, unknown> = {};
  for (const [name, spec] of Object.entries(specs)) {
    const found = Object.hasOwn(node.attributes, name) ? node.attributes[name] : undefined;
    if (found === undefined) {
      if (spec.required) throw new SkepError('INVALID_MODEL', `${formatNode(node)}: attribute '${name}' is missing`);
      values[name] = spec.fallback;
    } else if (found.kind === spec.kind || found.kind === spec.or) values[name] = found.value;
    // An empty list carries no element to tell its kind by.
    else if (Array.isArray(found.value) && found.value.length === 0 && spec.kind.endsWith('s')) values[name] = [];
    else
      throw new SkepError(
        'INVALID_MODEL',
        `${formatNode(node)}: attribute '${name}' must be of kind ${spec.kind}, got ${found.kind}`,
      );
  }
  return values;
}
