// The constants that belong to a model rather than to one plan: which tensors are weights (the same for every shape), and
// what fusion derived from them (a convolution's weights with a batch normalization folded in), computed once and shared
// by all plans. Derived tensors are held weakly: once they are placed in the model's memory nothing needs them here, and
// a plan that asks again later has them made again.
import type { Tensor } from '../tensor/tensor.js';

export class ModelConstants {
  readonly #weights = new WeakSet<Tensor>();
  readonly #derived = new Map<string, WeakRef<Tensor>>();

  /** Marks a tensor as the same in every plan of the model. */
  addWeight(tensor: Tensor): void {
    this.#weights.add(tensor);
  }

  isWeight(tensor: Tensor): boolean {
    return this.#weights.has(tensor);
  }

  /** The tensor `name`, made of `sources`: a weight when they all are, else made for the caller alone. */
  derived(name: string, sources: readonly Tensor[], make: () => Tensor): Tensor {
    if (!sources.every((t) => this.#weights.has(t))) return make();
    const known = this.#derived.get(name)?.deref();
    if (known !== undefined) return known;
    const made = make();
    this.#weights.add(made);
    this.#derived.set(name, new WeakRef(made));
    return made;
  }
}
