// What an instance's leader does for its whole life: pull the next task, run it with its threads, answer its requests,
// until the channel is closed or it is told to go. It waits on the channel's bell, never on its event loop. One round:
//
//   turn (under the lock, dispatch.ts) ─▶ read inputs ─▶ run the plan, merged ─▶ write each request's answer ─▶ turn …
//                                                          └ fails ─▶ each by itself: a broken request fails alone
//
// Here are requests that are computed in one piece, alone or merged; those that are cut into cells are cells.ts. Which
// requests share a task is settled before (the scheduler, the proof); starting threads and resolving promises is host.ts.
import type { Program } from '../compiler/program.js';
import type { Model } from '../graph/graph.js';
import { type Channel, Status } from '../runtime/channel.js';
import { Executor, type Placing } from '../runtime/executor.js';
import { type Heap, type ModelMemory, PAGE } from '../runtime/memory.js';
import { infoOf, plainError } from '../runtime/source.js';
import { type Carried, gather, type InMemory, type Staged, stripOf } from '../runtime/staged.js';
import type { TeamLeader } from '../runtime/team.js';
import { type Block, fillBlock, layValues, readValues, writeValues } from '../runtime/wire.js';
import { Tensor } from '../tensor/tensor.js';
import { Answers } from './answers.js';
import { type Batching, digest, Judge, type Kind, type Verdict } from './batching.js';
import { Cells } from './cells.js';
import { ALONE, type Dispatch } from './dispatch.js';
import { Sample } from './sample.js';
import type { Admitted, Admitting, Done, Turn } from './turn.js';

/** What a leader works with. */
export interface InstanceParts {
  readonly index: number;
  readonly model: Model;
  readonly program: Program;
  readonly channel: Channel;
  readonly dispatch: Dispatch;
  readonly memory: ModelMemory;
  readonly heap: Heap;
  readonly team: TeamLeader;
  /** Wakes the caller's thread. */
  readonly wake: () => void;
  /** Tells the caller's side what a proof said. */
  readonly judged: (batching: Batching) => void;
}

/** A request as read from memory. Its tensors stay where the caller put them. */
interface Request {
  readonly slot: number;
  readonly generation: number;
  /** In the order of the model's inputs. */
  readonly values: readonly (Carried | undefined)[];
  readonly wanted: Int32Array;
  readonly kind: Kind | undefined;
}

/** Digests kept, so that a kind that comes again is not hashed again. */
const DIGESTS = 256;

/** A leader that is ready to serve. */
export interface Server {
  /** Runs a request of rows like those to come, a few at once and one alone, so that the first real ones need not compile. */
  warm(sample: number, rows: number): void;
  /** Serves requests until the channel is closed, or the instance retired. */
  serve(): void;
}

/** Milliseconds that warming up may take, and between two looks whether a retired instance's answers have been taken. */
const WARM_UP = 1000;
const LINGER = 10;

export function server(parts: InstanceParts): Server {
  const puller = new Puller(parts);
  return { warm: (sample, rows) => puller.warm(sample, rows), serve: () => serve(parts, puller) };
}

function serve(parts: InstanceParts, puller: Puller): void {
  const { index, channel, dispatch } = parts;
  if (dispatch.inherit(index)) parts.wake();
  let done: Done | undefined;
  for (;;) {
    const heard = channel.bell;
    const closing = channel.closed;
    const turn = dispatch.turn(index, done, puller);
    done = undefined;
    if (turn.wake) parts.wake();
    if (turn.more) channel.ring(1);
    if (turn.slots.length > 0) done = puller.run(turn);
    else {
      // Its memory is another's when it has gone. An answer of its may be waiting still for what another instance has of
      // the request, or for the caller; nobody rings when that is over.
      const free = puller.rest();
      if (closing || (turn.retired && free)) return;
      channel.sleep(heard, turn.retired ? LINGER : undefined);
    }
  }
}

class Puller implements Admitting {
  readonly #parts: InstanceParts;
  readonly #executor: Executor;
  readonly #judge: Judge;
  readonly #answers: Answers;
  readonly #inputs: readonly string[];
  readonly #outputs: readonly string[];
  /** Requests read at admission, by slot. Another instance may have taken them since. */
  readonly #read = new Map<number, Request>();
  readonly #digests = new Map<string, Int32Array>();
  readonly #cells: Cells;
  #told: Batching | undefined;
  /** Instances that had a task when this one's was formed. */
  #busy = 1;

  constructor(parts: InstanceParts) {
    const { model, memory, heap, team, channel } = parts;
    const info = infoOf(model);
    this.#parts = parts;
    this.#executor = new Executor(memory, team, heap);
    this.#judge = new Judge(model.graph, info.inputs, memory);
    this.#answers = new Answers(channel, heap);
    this.#inputs = info.inputs.map((v) => v.name);
    this.#outputs = info.outputs.map((v) => v.name);
    this.#cells = new Cells({
      ...parts,
      graph: model.graph,
      inputs: info.inputs,
      outputs: info.outputs,
      executor: this.#executor,
      read: (slot) => this.#request(slot, false),
      hold: (slot, address) => this.#answers.hold(slot, address),
      writeError: (error) => this.#writeError(error),
    });
  }

  /** Reads a request and says what it is to the scheduler. Under the lock: it must not fail, and must be quick. */
  readonly admit = (slot: number): Admitted => {
    if (!this.#parts.dispatch.merges) return { digest: undefined, rows: 1 };
    const cells = this.#cells.possible ? this.#cells.admit(this.#request(slot, false)) : undefined;
    if (cells !== undefined) return { digest: undefined, rows: 1, cells };
    const request = this.#request(slot, true);
    this.#read.set(slot, request);
    const { kind } = request;
    return kind === undefined ? { digest: undefined, rows: 1 } : { digest: this.#digest(kind.key), rows: kind.rows };
  };

  /** Memory for all instances' requests that are cut. It is nobody's own, and stays when this instance ends. */
  reserve(bytes: number): number {
    try {
      return this.#parts.memory.memory.grow(Math.ceil(bytes / PAGE)) * PAGE;
    } catch {
      return 0;
    }
  }

  /** Before sleeping: gives memory back. True when no answer is held any more. */
  rest(): boolean {
    return this.#answers.reclaim();
  }

  /** Makes plans for batches of a sample's rows, up to `rows`: the largest first, for as long as it may take. */
  warm(address: number, rows: number): void {
    const { model, program, memory, heap, channel } = this.#parts;
    const end = performance.now() + WARM_UP;
    const check = () => {
      if (performance.now() > end || channel.closed) throw new Aborted();
    };
    const sample = new Sample({ model, program, memory, heap, executor: this.#executor, judge: this.#judge }, address);
    try {
      const most = sample.most(rows);
      const sizes = [1, most, ...Array.from({ length: most - 1 }, (_, i) => most - 1 - i)];
      for (const n of new Set(sizes)) if (n > 0) sample.run(n, check);
    } catch {
      // What is wrong with it, a request that is like it will say.
    } finally {
      sample.free();
    }
  }

  /** Runs a task and finishes its requests. */
  run({ slots, entries, type, busy }: Turn): Done {
    this.#busy = busy;
    this.#answers.reclaimOldest();
    if (entries !== undefined) {
      this.#tell(this.#cells.batching);
      return this.#cells.run(type, entries);
    }
    const requests: Request[] = [];
    for (const slot of slots) {
      if (this.#parts.channel.start(slot)) requests.push(this.#take(slot, type !== ALONE));
      else this.#finish(slot, Status.cancelled, 0);
    }
    const begun = performance.now();
    const measured = (rows: number) => ({ rows, milliseconds: performance.now() - begun });
    if (requests.length === 0) return { type, measured: undefined, mergeable: true };
    if (requests.length === 1) {
      const { kind, values } = requests[0]!;
      const answered = this.#alone(requests[0]!, kind?.rows ?? this.#judge.rowsOf(values));
      return { type, measured: answered && kind ? measured(kind.rows) : undefined, mergeable: true };
    }
    const { kind, values } = requests[0]!;
    const verdict = this.#verdict(kind!, values);
    if (verdict.proven && this.#together(requests, verdict)) {
      const rows = requests.reduce((n, r) => n + r.kind!.rows, 0);
      return { type, measured: measured(rows), mergeable: true };
    }
    for (const r of requests) {
      this.#parts.channel.together(r.slot, 1);
      this.#alone(r, 0);
    }
    return { type, measured: undefined, mergeable: verdict.proven };
  }

  /** `sorted`: it has, or is to have, a kind. */
  #request(slot: number, sorted: boolean): Request {
    const { memory, channel } = this.#parts;
    const values = readValues(memory, channel.request(slot));
    const wanted = (this.#executor.toHost(values.pop()!) as Tensor).data as Int32Array;
    const kind = sorted ? this.#judge.kindOf(values, wanted) : undefined;
    return { slot, generation: channel.generation(slot), values, wanted, kind };
  }

  /** The request in a slot, read before or now. */
  #take(slot: number, sorted: boolean): Request {
    const read = this.#read.get(slot);
    this.#read.delete(slot);
    const same = read !== undefined && read.generation === this.#parts.channel.generation(slot);
    return same ? read : this.#request(slot, sorted);
  }

  /** One request of a task says how it was computed. */
  #note(slot: number, rows: number): void {
    const { channel, dispatch } = this.#parts;
    if (rows > 0) channel.measured(slot, rows, this.#busy + dispatch.busy);
  }

  #digest(key: string): Int32Array {
    let words = this.#digests.get(key);
    if (words === undefined) {
      words = new Int32Array(new Uint8Array(digest(key)).buffer);
      this.#digests.set(key, words);
      if (this.#digests.size > DIGESTS) this.#digests.delete(this.#digests.keys().next().value!);
    }
    return words;
  }

  #verdict(kind: Kind, values: readonly (Carried | undefined)[]): Verdict {
    const verdict = this.#judge.judge(kind, values);
    this.#tell(this.#judge.batching);
    return verdict;
  }

  /** Tells the caller's side what is new. */
  #tell(batching: Batching | undefined): void {
    if (batching === undefined || batching === this.#told) return;
    this.#told = batching;
    this.#parts.judged(batching);
  }

  #finish(slot: number, status: Status, address: number): void {
    this.#answers.hold(slot, address);
    if (this.#parts.channel.finish(slot, status, address)) this.#parts.wake();
  }

  #names(wanted: Int32Array): string[] {
    return Array.from(wanted, (i) => this.#outputs[i]!);
  }

  /** Runs one request by itself, of so many rows (0: not to be told). True when it was answered. */
  #alone({ slot, values, wanted }: Request, rows: number): boolean {
    const { program, channel, dispatch, memory, heap } = this.#parts;
    let block: Block | undefined;
    try {
      const feeds = new Map<string, Carried>();
      this.#inputs.forEach((name, i) => {
        if (values[i] !== undefined) feeds.set(name, values[i]);
      });
      const check = () => {
        if (channel.aborted(slot)) throw new Aborted();
      };
      // The answer is laid out before there is one: results are computed right where the caller will read them.
      const place: Placing = (values) => {
        block = layValues(memory, heap, values);
        return block.places;
      };
      const fill = (found: readonly Carried[]) => {
        fillBlock(memory, block!, found);
        return block!.address;
      };
      const address = this.#executor.run(program, feeds, this.#names(wanted), fill, { check }, place);
      block = undefined;
      dispatch.count(1);
      this.#note(slot, rows);
      this.#finish(slot, Status.answered, address);
      return true;
    } catch (error) {
      if (block !== undefined) heap.free(block.address);
      dispatch.count(1);
      if (error instanceof Aborted) this.#finish(slot, Status.cancelled, 0);
      else this.#finish(slot, Status.failed, this.#writeError(error));
      return false;
    }
  }

  /** Runs requests of one kind as one batch. False when that failed: nothing is finished then. */
  #together(requests: readonly Request[], verdict: Verdict & { readonly proven: true }): boolean {
    const { program, channel, dispatch, memory, heap } = this.#parts;
    const { axes, outputs } = verdict;
    const [first] = requests as [Request];
    const names = this.#names(first.wanted);
    const feeds = new Map<string, Carried>();
    this.#inputs.forEach((name, i) => {
      const axis = axes[i];
      const value = first.values[i];
      if (value === undefined) return;
      // All requests of a kind feed the same inputs; those without an axis are the same bits.
      feeds.set(
        name,
        axis === undefined
          ? value
          : gather(
              requests.map((r) => r.values[i] as Staged),
              axis,
            ),
      );
    });
    const check = () => {
      if (requests.every((r) => channel.aborted(r.slot))) throw new Aborted();
    };
    const answers: number[] = [];
    try {
      this.#executor.run(
        program,
        feeds,
        names,
        (found) => {
          let begin = 0;
          for (const { slot, kind } of requests) {
            const { rows } = kind!;
            const own = found.map((value, o): Carried => {
              const held = outputs.get(names[o]!)!;
              if (held === 'shared') return value;
              return rowsOf(value, held.axis, begin * held.each, rows * held.each);
            });
            answers.push(channel.aborted(slot) ? 0 : writeValues(memory, heap, own));
            begin += rows;
          }
        },
        { check },
      );
    } catch (error) {
      for (const address of answers) if (address !== 0) heap.free(address);
      if (!(error instanceof Aborted)) return false;
      answers.length = 0;
    }
    dispatch.count(requests.length);
    if (answers.length > 0)
      this.#note(
        requests[0]!.slot,
        requests.reduce((n, r) => n + r.kind!.rows, 0),
      );
    requests.forEach(({ slot }, i) => {
      const address = answers[i] ?? 0;
      channel.together(slot, requests.length);
      this.#finish(slot, address === 0 ? Status.cancelled : Status.answered, address);
    });
    return true;
  }

  #writeError(error: unknown): number {
    const { memory, heap } = this.#parts;
    return writeValues(memory, heap, [new Tensor('string', [JSON.stringify(plainError(error))], [])]);
  }
}

/** One request's part of a batch. An output that is an input is still in its parts. */
function rowsOf(value: Carried, axis: number, begin: number, count: number): InMemory {
  if (value !== null && 'kind' in value && value.kind === 'gathered' && value.axis === axis) {
    let at = 0;
    for (const part of value.parts) {
      if (at === begin && part.dims[axis] === count) return part;
      at += part.dims[axis]!;
    }
  }
  return stripOf(value, axis, begin, count);
}

/** Stops a run between two steps. */
class Aborted extends Error {}
