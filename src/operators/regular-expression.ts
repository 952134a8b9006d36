// Regular expressions in RE2's syntax that take time in proportion to text times pattern, whatever the pattern: a model's
// file is not trusted, and JavaScript's RegExp may backtrack for ever. How to picture it:
//
//   pattern ─ parse ─▶ tree ─ emit ─▶ program     split 1 5 · char a · jump 0 · …
//                                        │
//   text, a code point at a time ────────┴─▶ the set of places in the program that are alive (Thompson's simulation)
//
// Captures are not kept: only whether the whole text matches is asked. The tree is made by regular-expression-parser.ts.
import { type Assertion, Parser, PatternError, type Tree } from './regular-expression-parser.js';

type Instruction =
  | { readonly op: 'char'; readonly test: (char: string) => boolean }
  | { readonly op: 'assert'; readonly at: Assertion }
  | { readonly op: 'split'; readonly a: number; b: number }
  | { readonly op: 'jump'; readonly to: number }
  | { readonly op: 'match' };

/** Instructions at most: counted repetitions of counted repetitions multiply. */
const LARGEST = 20_000;
const isWord = (char: string | undefined): boolean => char !== undefined && /^\w$/.test(char);

/** Writes the program. Every node written counts, even if it needs no instruction. */
class Emitter {
  readonly program: Instruction[] = [];
  #written = 0;

  emit(tree: Tree): void {
    if (++this.#written > LARGEST)
      throw new PatternError(`its repetitions make a program of more than ${LARGEST} steps`);
    switch (tree.kind) {
      case 'empty':
        return;
      case 'char':
        this.program.push({ op: 'char', test: tree.test });
        return;
      case 'assert':
        this.program.push({ op: 'assert', at: tree.at });
        return;
      case 'all':
        for (const part of tree.parts) this.emit(part);
        return;
      case 'any':
        this.#emitAny(tree.parts);
        return;
      case 'repeat':
        this.#emitRepeat(tree.part, tree.least, tree.most);
        return;
      default:
        tree satisfies never;
    }
  }

  #split(): Instruction & { op: 'split' } {
    const split: Instruction & { op: 'split' } = { op: 'split', a: this.program.length + 1, b: 0 };
    this.program.push(split);
    return split;
  }

  #emitAny(parts: readonly Tree[]): void {
    const ends: { to: number }[] = [];
    for (const part of parts.slice(0, -1)) {
      const split = this.#split();
      this.emit(part);
      const end = { op: 'jump' as const, to: 0 };
      this.program.push(end);
      ends.push(end);
      split.b = this.program.length;
    }
    this.emit(parts.at(-1)!);
    for (const end of ends) end.to = this.program.length;
  }

  #emitRepeat(part: Tree, least: number, most: number): void {
    for (let i = 0; i < least; i++) this.emit(part);
    if (most === Infinity) {
      const to = this.program.length;
      const split = this.#split();
      this.emit(part);
      this.program.push({ op: 'jump', to });
      split.b = this.program.length;
      return;
    }
    const splits: { b: number }[] = [];
    for (let i = least; i < most; i++) {
      splits.push(this.#split());
      this.emit(part);
    }
    for (const split of splits) split.b = this.program.length;
  }
}

function holds(at: Assertion, before: string | undefined, after: string | undefined): boolean {
  switch (at) {
    case 'textStart':
      return before === undefined;
    case 'textEnd':
      return after === undefined;
    case 'lineStart':
      return before === undefined || before === '\n';
    case 'lineEnd':
      return after === undefined || after === '\n';
    case 'word':
      return isWord(before) !== isWord(after);
    case 'noWord':
      return isWord(before) === isWord(after);
    default:
      return at satisfies never;
  }
}

/**
 * Compiles a pattern in RE2's syntax into a test of whether the whole of a text matches, in time proportional to the text
 * times the pattern's program. Throws PatternError.
 */
export function fullMatcher(pattern: string): (text: string) => boolean {
  const emitter = new Emitter();
  emitter.emit(new Parser(pattern).parse());
  const { program } = emitter;
  program.push({ op: 'match' });
  const seen = new Int32Array(program.length); // the step at which an instruction was last added
  const stack: number[] = [];
  let step = 0;
  return (text) => {
    const chars = Array.from(text);
    let live: number[] = [];
    let matched = false;
    const add = (from: number, before: string | undefined, after: string | undefined) => {
      stack.push(from);
      for (let at = stack.pop(); at !== undefined; at = stack.pop()) {
        if (seen[at] === step) continue;
        seen[at] = step;
        const i = program[at]!;
        if (i.op === 'jump') stack.push(i.to);
        else if (i.op === 'split') stack.push(i.b, i.a);
        else if (i.op === 'char') live.push(at);
        else if (i.op === 'match') matched = true;
        else if (holds(i.at, before, after)) stack.push(at + 1);
      }
    };
    step++;
    add(0, undefined, chars[0]);
    for (let c = 0; c < chars.length; c++) {
      const now = live;
      const char = chars[c]!;
      live = [];
      matched = false;
      step++;
      for (const at of now) {
        const i = program[at]!;
        if (i.op === 'char' && i.test(char)) add(at + 1, char, chars[c + 1]);
      }
      if (live.length === 0 && !matched) return false;
    }
    return matched;
  };
}
