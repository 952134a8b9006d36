// The constants that belong to a model rather than to one plan: which tensors are weights (the same for every shape), and
// what fusion derived from them (a convolution's weights with a batch normalization folded in), computed once and shared
// by all plans. Derived tensors are held up to a budget, weakly beyond it: once they are placed in the model's memory only a
// plan for a new shape asks for them again, and then they can be made again.
import { bytesOf, type Tensor } from '../tensor/tensor.js';

/** Bytes of derived tensors kept for plans to come. */
const BUDGET = 32 << 20;

export class ModelConstants {
  readonly #weights = new WeakSet<Tensor>();
  readonly #derived = new Map<string, WeakRef<Tensor>>();
  readonly #held: Tensor[] = [];
  #heldBytes = 0;

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
    const bytes = bytesOf(made).byteLength;
    if (this.#heldBytes + bytes <= BUDGET) {
      this.#held.push(made);
      this.#heldBytes += bytes;
    }
    return made;
  }
}
