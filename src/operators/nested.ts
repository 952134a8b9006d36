// An operator made of others: the call that the inner one sees. How to picture it: `nested` stands between an operator
// and the plan, and shows the inner operator its own inputs and outputs (converted, computed before, laid elsewhere), while
// memory and steps are still the outer one's. So QLinearAdd is Add between conversions, in the reference and in the
// kernels alike.
import type { Tensor } from '../tensor/tensor.js';
import type { Address, Call, LowerCall, Operator, OutputInfo, ReferenceCall, TensorInfo } from './operator.js';

/** A call with some of its members replaced. */
export function view<C extends Call<unknown>>(call: C, members: Readonly<Record<string, unknown>>): C {
  return new Proxy(call, {
    get(target, key) {
      if (typeof key === 'string' && Object.hasOwn(members, key)) return members[key];
      const value: unknown = Reflect.get(target, key);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}

/** An inner operator, the operator set version its rules are those of, and its attributes. */
export interface Inner {
  readonly operator: Operator;
  readonly opset: number;
  readonly attributes: Readonly<Record<string, unknown>>;
}

function membersOf(call: Call<unknown>, inner: Inner, inputs: readonly (TensorInfo | undefined)[]) {
  const input = (i: number): TensorInfo => {
    const found = inputs[i];
    if (found === undefined) throw call.error(`input ${i} is missing`);
    return found;
  };
  return {
    opset: inner.opset,
    attributes: attributesOf(inner),
    inputCount: inputs.length,
    outputCount: 1,
    wants: (i: number) => i === 0,
    has: (i: number) => inputs[i] !== undefined,
    optional: (i: number) => inputs[i],
    input,
  };
}

/** The operator's own defaults, and what is given. */
function attributesOf({ operator, attributes }: Inner): Record<string, unknown> {
  const defaults = Object.entries(operator.attributes).map(([name, spec]) => [name, spec.fallback]);
  return { ...Object.fromEntries(defaults), ...attributes };
}

/** What the inner operator says of its first output. */
export function inferInner(call: Call<unknown>, inner: Inner, inputs: readonly (TensorInfo | undefined)[]): OutputInfo {
  const inferred = inner.operator.infer(view(call, membersOf(call, inner, inputs)) as never);
  if (inferred === 'dynamic') throw call.error(`${inner.operator.name} has no shape`, 'INTERNAL');
  return inferred[0]!;
}

/** The inner operator's first output, by its reference. */
export function referInner(
  call: ReferenceCall<unknown>,
  inner: Inner,
  inputs: readonly (Tensor | undefined)[],
): Tensor {
  const infos = inputs.map((t) => t && { type: t.type, dims: t.dims, value: t });
  const members = membersOf(call, inner, infos);
  const tensor = (i: number) => members.input(i).value!;
  const inside = view(call, { ...members, tensor, value: tensor, host: (i: number) => inputs[i] });
  return inner.operator.reference(inside as never)[0] as Tensor;
}

/** An input of an inner operator, and where it is. */
export interface Placed extends TensorInfo {
  readonly at: Address;
}

/** Appends the inner operator's steps; false when it has no kernel for these inputs. */
export function lowerInner(
  call: LowerCall<unknown>,
  inner: Inner,
  inputs: readonly (Placed | undefined)[],
  output: OutputInfo,
  to: Address,
): boolean {
  const members = {
    ...membersOf(call, inner, inputs),
    output: () => output,
    in: (i: number) => inputs[i]!.at,
    out: () => to,
    alias() {
      throw call.error('an inner operator has an output of its own', 'INTERNAL');
    },
  };
  return inner.operator.lower?.(view(call, members) as never) === true;
}
