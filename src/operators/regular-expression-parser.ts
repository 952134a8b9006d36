// Reading a regular expression in RE2's syntax into a tree. Whether one code point belongs to one class is asked of a native
// RegExp of that class alone, which can't backtrack: that gives Unicode properties and case folding. RE2 has no
// back-references and no look-around, so neither has this. Matching is regular-expression.ts.

/** A pattern that is none. The message says why and where. */
export class PatternError extends Error {}

type Flags = { readonly i: boolean; readonly m: boolean; readonly s: boolean };
export type Assertion = 'textStart' | 'textEnd' | 'lineStart' | 'lineEnd' | 'word' | 'noWord';
/** What a pattern means. */
export type Tree =
  | { readonly kind: 'empty' }
  | { readonly kind: 'char'; readonly test: (char: string) => boolean }
  | { readonly kind: 'assert'; readonly at: Assertion }
  | { readonly kind: 'all'; readonly parts: readonly Tree[] }
  | { readonly kind: 'any'; readonly parts: readonly Tree[] }
  | { readonly kind: 'repeat'; readonly part: Tree; readonly least: number; readonly most: number };

/** RE2's bound on a counted repetition. */
const MOST_REPEATS = 1000;
/** Groups in groups at most. */
const DEEPEST = 200;

/** What \d, \w and \s stand for in RE2: ASCII, as the inside of a class. */
const SETS: Readonly<Record<string, string>> = {
  d: '0-9',
  D: '\\x00-\\/:-\\u{10ffff}',
  w: '0-9A-Za-z_',
  W: '\\x00-\\/:-@\\[-\\^`\\{-\\u{10ffff}',
  s: '\\t\\n\\f\\r ',
  S: '\\x00-\\x08\\x0b\\x0e-\\x1f!-\\u{10ffff}',
};
const CONTROLS: Readonly<Record<string, number>> = { a: 7, t: 9, n: 10, v: 11, f: 12, r: 13 };
const POSIX: Readonly<Record<string, string>> = {
  alnum: '0-9A-Za-z',
  alpha: 'A-Za-z',
  ascii: '\\x00-\\x7f',
  blank: '\\t ',
  cntrl: '\\x00-\\x1f\\x7f',
  digit: '0-9',
  graph: '!-~',
  lower: 'a-z',
  print: ' -~',
  punct: '!-\\/:-@\\[-`\\{-~',
  space: '\\t\\n\\v\\f\\r ',
  upper: 'A-Z',
  word: '0-9A-Za-z_',
  xdigit: '0-9A-Fa-f',
};

const escaped = (code: number): string => `\\u{${code.toString(16)}}`;
/** Reads one pattern: `new Parser(pattern).parse()`. */
export class Parser {
  readonly #chars: readonly string[];
  readonly #classes = new Map<string, (char: string) => boolean>();
  #at = 0;
  #flags: Flags = { i: false, m: false, s: false };
  #depth = 0;

  constructor(pattern: string) {
    this.#chars = Array.from(pattern);
  }

  parse(): Tree {
    const tree = this.#alternatives();
    if (this.#at < this.#chars.length) throw this.#error("')' without '('");
    return tree;
  }

  #error(what: string): PatternError {
    return new PatternError(`${what} at character ${this.#at}`);
  }

  #peek(text: string): boolean {
    return this.#chars.slice(this.#at, this.#at + text.length).join('') === text;
  }

  #take(text: string): boolean {
    if (!this.#peek(text)) return false;
    this.#at += text.length;
    return true;
  }

  #next(): string {
    const char = this.#chars[this.#at];
    if (char === undefined) throw this.#error('the pattern ends too early');
    this.#at++;
    return char;
  }

  /** Up to and without `end`. */
  #until(end: string): string {
    let text = '';
    while (!this.#take(end)) text += this.#next();
    return text;
  }

  #alternatives(): Tree {
    if (++this.#depth > DEEPEST) throw this.#error(`more than ${DEEPEST} groups in each other`);
    const parts = [this.#sequence()];
    while (this.#take('|')) parts.push(this.#sequence());
    this.#depth--;
    return parts.length === 1 ? parts[0]! : { kind: 'any', parts };
  }

  #sequence(): Tree {
    const parts: Tree[] = [];
    while (this.#at < this.#chars.length && !this.#peek('|') && !this.#peek(')')) {
      if (this.#take('\\Q')) {
        const quoted: Tree[] = [];
        while (this.#at < this.#chars.length && !this.#take('\\E')) quoted.push(this.#literal(this.#next()));
        const last = quoted.pop();
        parts.push(...quoted);
        if (last !== undefined) parts.push(this.#repeated(last));
      } else parts.push(this.#repeated(this.#atom()));
    }
    return { kind: 'all', parts };
  }

  #repeated(atom: Tree): Tree {
    const bounds = this.#bounds();
    if (bounds === undefined) return atom;
    this.#take('?'); // lazy: the same texts match
    if (this.#bounds() !== undefined) throw this.#error('a repetition of a repetition');
    return { kind: 'repeat', part: atom, least: bounds[0], most: bounds[1] };
  }

  #bounds(): readonly [least: number, most: number] | undefined {
    if (this.#take('*')) return [0, Infinity];
    if (this.#take('+')) return [1, Infinity];
    if (this.#take('?')) return [0, 1];
    const found = /^\{(\d{1,9})(,(\d{0,9}))?\}/.exec(this.#chars.slice(this.#at, this.#at + 24).join(''));
    if (found === null) return undefined;
    const least = Number(found[1]);
    const most = found[2] === undefined ? least : found[3] === '' ? Infinity : Number(found[3]);
    if (least > MOST_REPEATS || (most !== Infinity && (most > MOST_REPEATS || most < least)))
      throw this.#error(`'${found[0]}' must be at most ${MOST_REPEATS} and in order`);
    this.#at += found[0].length;
    return [least, most];
  }

  #atom(): Tree {
    const char = this.#next();
    const { m, s } = this.#flags;
    if (char === '(') return this.#group();
    if (char === '[') return this.#class();
    if (char === '.') return this.#tested(s ? '[^]' : '[^\\n]');
    if (char === '^') return { kind: 'assert', at: m ? 'lineStart' : 'textStart' };
    if (char === '$') return { kind: 'assert', at: m ? 'lineEnd' : 'textEnd' };
    if (char === '*' || char === '+' || char === '?') throw this.#error(`nothing to repeat before '${char}'`);
    if (char !== '\\') return this.#literal(char);
    if (this.#take('A')) return { kind: 'assert', at: 'textStart' };
    if (this.#take('z')) return { kind: 'assert', at: 'textEnd' };
    if (this.#take('b')) return { kind: 'assert', at: 'word' };
    if (this.#take('B')) return { kind: 'assert', at: 'noWord' };
    const item = this.#escape();
    // A set has no case to fold.
    return typeof item === 'number' ? this.#tested(`[${escaped(item)}]`) : this.#tested(`[${item}]`, false);
  }

  #group(): Tree {
    const outer = this.#flags;
    if (this.#peek('?=') || this.#peek('?!') || this.#peek('?<=') || this.#peek('?<!'))
      throw this.#error('look-around is not in the syntax of RE2');
    if (this.#take('?P<') || this.#take('?<')) this.#until('>');
    else if (this.#take('?')) {
      let on = true;
      for (let char = this.#next(); char !== ':'; char = this.#next()) {
        if (char === '-') on = false;
        else if (char === 'i' || char === 'm' || char === 's') this.#flags = { ...this.#flags, [char]: on };
        else if (char === ')')
          return { kind: 'empty' }; // flags for the rest of the group around
        else if (char !== 'U') throw this.#error(`'${char}' is no flag`); // U: lazy, the same texts match
      }
    }
    const tree = this.#alternatives();
    if (!this.#take(')')) throw this.#error("'(' without ')'");
    this.#flags = outer;
    return tree;
  }

  #class(): Tree {
    const negated = this.#take('^');
    let inside = '';
    for (let first = true; first || !this.#peek(']'); first = false) {
      const name = /^\[:(\^?)([a-z]+):\]/.exec(this.#chars.slice(this.#at, this.#at + 12).join(''));
      if (name !== null) {
        const set = POSIX[name[2]!];
        if (set === undefined || name[1] === '^') throw this.#error(`'${name[0]}' is not supported`);
        this.#at += name[0].length;
        inside += set;
        continue;
      }
      const from = this.#member();
      if (typeof from === 'string') inside += from;
      else if (this.#peek('-') && this.#chars[this.#at + 1] !== ']' && this.#chars[this.#at + 1] !== undefined) {
        this.#at++;
        const to = this.#member();
        if (typeof to === 'string' || to < from) throw this.#error('a range out of order');
        inside += `${escaped(from)}-${escaped(to)}`;
      } else inside += escaped(from);
    }
    this.#at++;
    return this.#tested(`[${negated ? '^' : ''}${inside}]`);
  }

  /** A code point, or the inside of a class. */
  #member(): number | string {
    const char = this.#next();
    return char === '\\' ? this.#escape() : char.codePointAt(0)!;
  }

  /** What follows a backslash: a code point, or the inside of a class. */
  #escape(): number | string {
    const char = this.#next();
    if (SETS[char] !== undefined) return SETS[char];
    if (CONTROLS[char] !== undefined) return CONTROLS[char];
    if (char === 'x') {
      const hex = this.#take('{') ? this.#until('}') : this.#next() + this.#next();
      const code = /^[0-9a-fA-F]{1,6}$/.test(hex) ? Number.parseInt(hex, 16) : Infinity;
      if (code > 0x10ffff) throw this.#error(`'\\x${hex}' is no character`);
      return code;
    }
    if (char === 'p' || char === 'P') {
      const name = this.#take('{') ? this.#until('}') : this.#next();
      const negated = name.startsWith('^') !== (char === 'P');
      const bare = name.replace('^', '');
      const script = bare.length > 2 ? `Script=${bare}` : bare;
      if (!/^\w+$/.test(bare) || !isClass(`[\\p{${script}}]`)) throw this.#error(`'${name}' is no Unicode property`);
      return `\\${negated ? 'P' : 'p'}{${script}}`;
    }
    if (char === '0') {
      let code = 0;
      for (let n = 0; n < 2 && /^[0-7]$/.test(this.#chars[this.#at] ?? ''); n++) code = code * 8 + Number(this.#next());
      return code;
    }
    if (/^[1-9]$/.test(char)) throw this.#error('back-references are not in the syntax of RE2');
    if (/^[A-Za-z]$/.test(char)) throw this.#error(`'\\${char}' is not supported`);
    return char.codePointAt(0)!;
  }

  #literal(char: string): Tree {
    return this.#tested(`[${escaped(char.codePointAt(0)!)}]`);
  }

  #tested(source: string, fold = this.#flags.i): Tree {
    const flags = fold ? 'iu' : 'u';
    const key = flags + source;
    let test = this.#classes.get(key);
    if (test === undefined) {
      const one = new RegExp(`^${source}$`, flags);
      test = (char) => one.test(char);
      this.#classes.set(key, test);
    }
    return { kind: 'char', test };
  }
}

function isClass(source: string): boolean {
  try {
    new RegExp(source, 'u');
    return true;
  } catch {
    return false;
  }
}
