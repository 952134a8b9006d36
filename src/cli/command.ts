// What a command is, and how its words are parsed. A command declares its options once: parsing (node:util parseArgs),
// `--help` and the complaints about misuse all follow from the declaration.
import { type ParseArgsConfig, parseArgs } from 'node:util';
import { nearest } from '../tensor/words.js';

/** An option as declared: what parseArgs needs and what `--help` shows. */
export interface Option {
  readonly type: 'string' | 'boolean';
  readonly multiple?: boolean;
  readonly short?: string;
  /** What stands for the value in `--help`: `DIR`. */
  readonly value?: string;
  readonly help: string;
}

type Value<O extends Option> = O extends { type: 'boolean' }
  ? boolean | undefined
  : O extends { multiple: true }
    ? readonly string[] | undefined
    : string | undefined;

/** What a run of a command gets. */
export interface Invocation<O extends Record<string, Option>> {
  readonly positionals: readonly string[];
  readonly options: { readonly [K in keyof O]: Value<O[K]> };
  readonly json: boolean;
}

/** Exit codes: done, failed. Misuse (2) is thrown as a UsageError. */
export type ExitCode = 0 | 1;

export interface Command {
  readonly name: string;
  /** The words after the name: `MODEL --input NAME=FILE …`. */
  readonly synopsis: string;
  readonly summary: string;
  /** More of `--help`. */
  readonly details: string;
  readonly options: Readonly<Record<string, Option>>;
  /** [least, most] positional arguments. */
  readonly positionals: readonly [number, number];
  readonly run: (invocation: Invocation<never>) => Promise<ExitCode>;
}

/** Declares a command; the types of its options follow. */
export function command<const O extends Record<string, Option>>(
  definition: Omit<Command, 'options' | 'run'> & {
    readonly options: O;
    readonly run: (invocation: Invocation<O>) => Promise<ExitCode>;
  },
): Command {
  return definition as unknown as Command;
}

/** The command line was misused. Exit code 2. */
export class UsageError extends Error {}

const common = {
  json: { type: 'boolean', help: 'print JSON for machines' },
  help: { type: 'boolean', short: 'h', help: 'print this' },
} as const satisfies Record<string, Option>;

/** Parses the words after a command's name; 'help' when they ask for it. Throws UsageError. */
export function parse(c: Command, words: readonly string[]): Invocation<never> | 'help' {
  const options: NonNullable<ParseArgsConfig['options']> = {};
  const declared: Readonly<Record<string, Option>> = { ...c.options, ...common };
  for (const [name, { type, multiple, short }] of Object.entries(declared))
    options[name] = { type, ...(multiple ? { multiple } : {}), ...(short === undefined ? {} : { short }) };
  let parsed: ReturnType<typeof parseArgs>;
  try {
    parsed = parseArgs({ args: [...words], options, allowPositionals: true });
  } catch (error) {
    throw new UsageError(complaint(error as Error, Object.keys(declared)));
  }
  if (parsed.values.help === true) return 'help';
  const [least, most] = c.positionals;
  const n = parsed.positionals.length;
  if (n < least || n > most)
    throw new UsageError(
      n < least
        ? `${c.name} ${c.synopsis}: arguments are missing`
        : `too many arguments: '${parsed.positionals[most]}'`,
    );
  return {
    positionals: parsed.positionals,
    options: parsed.values as never,
    json: parsed.values.json === true,
  };
}

/** What is wrong with the words, by parseArgs; for an unknown option with the one that was probably meant. */
function complaint(error: Error, names: readonly string[]): string {
  const message = error.message.replace(/\. To specify.*$/s, '');
  const unknown = /^Unknown option '--([^'=]*)/.exec(message)?.[1];
  if (unknown === undefined) return message;
  const near = nearest(unknown, names);
  return `there is no option '--${unknown}'${near === undefined ? '' : `; did you mean '--${near}'?`}`;
}

/** The help of one command. */
export function helpOf(c: Command): string {
  const rows = Object.entries({ ...c.options, ...common }).map(([name, o]: [string, Option]) => {
    const short = o.short === undefined ? '' : `-${o.short}, `;
    const value = o.type === 'string' ? ` ${o.value ?? 'VALUE'}` : '';
    return [`${short}--${name}${value}${o.multiple ? ' …' : ''}`, o.help] as const;
  });
  const width = Math.max(...rows.map(([left]) => left.length));
  const lines = rows.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`);
  return [`skep ${c.name} ${c.synopsis}`, '', `  ${c.summary}`, '', c.details.trim(), '', 'Options', ...lines].join(
    '\n',
  );
}

/** A number given to an option; undefined when it is absent. Throws UsageError. */
export function numberOption(text: string | undefined, name: string): number | undefined {
  if (text === undefined) return undefined;
  const x = Number(text);
  if (text.trim() === '' || !Number.isFinite(x)) throw new UsageError(`--${name} must be a number, got '${text}'`);
  return x;
}

/** One of some words given to an option. Throws UsageError. */
export function choiceOption<const T extends string>(
  text: string | undefined,
  name: string,
  choices: readonly T[],
): T | undefined {
  if (text === undefined) return undefined;
  if (!choices.includes(text as T))
    throw new UsageError(`--${name} must be one of ${choices.join(', ')}, got '${text}'`);
  return text as T;
}
