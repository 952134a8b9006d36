// The command line: picks the command, parses its words, and turns how it ended into an exit code: 0 done, 1 failed,
// 2 misused. What the commands do is in a file each.
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { OptimizerError } from '../optimizer/errors.js';
import { SkepError } from '../tensor/errors.js';
import { nearest } from '../tensor/words.js';
import { bench } from './bench.js';
import { check } from './check.js';
import { type Command, helpOf, parse, UsageError } from './command.js';
import { exportNetwork } from './export.js';
import { inWords } from './files.js';
import { inspect } from './inspect.js';
import { predict } from './predict.js';
import { run } from './run.js';
import { simulate } from './simulate.js';
import { note, print } from './terminal.js';
import { tune } from './tune.js';

const commands: readonly Command[] = [inspect, run, check, bench, tune, predict, simulate, exportNetwork];

/** Runs a command line; gives the exit code. */
export async function skep(words: readonly string[]): Promise<0 | 1 | 2> {
  const [name, ...rest] = words;
  if (name === undefined || name === '--help' || name === '-h' || name === 'help') {
    const about = commands.find((c) => c.name === rest[0]);
    (name === undefined ? note : print)(about === undefined ? overview() : helpOf(about));
    return name === undefined ? 2 : 0;
  }
  if (name === '--version' || name === '-v') {
    print(version());
    return 0;
  }
  const found = commands.find((c) => c.name === name);
  const machine = words.includes('--json');
  try {
    if (found === undefined) throw new UsageError(unknownCommand(name));
    const invocation = parse(found, rest);
    if (invocation !== 'help') return await found.run(invocation);
    print(helpOf(found));
    return 0;
  } catch (error) {
    if (machine) print(JSON.stringify({ error: describe(error) }));
    if (error instanceof UsageError) {
      note(`skep: ${error.message}`);
      note(`Try 'skep ${found === undefined ? '' : `${found.name} `}--help'.`);
      return 2;
    }
    const { code, message } = describe(error);
    note(`skep: ${code === 'INTERNAL' ? trace(error) : message}`);
    return 1;
  }
}

function unknownCommand(name: string): string {
  const near = nearest(
    name,
    commands.map((c) => c.name),
  );
  return `'${name}' is not a command${near === undefined ? '' : `; did you mean '${near}'?`}`;
}

/** A failure by its code and in words. A file that cannot be read or written is the caller's affair, not a bug. */
function describe(error: unknown): { code: string; message: string } {
  if (error instanceof UsageError) return { code: 'USAGE', message: error.message };
  if (error instanceof SkepError || error instanceof OptimizerError)
    return { code: error.code, message: error.message };
  const system = inWords(error);
  if (system !== undefined) return { code: 'INVALID_INPUT', message: system };
  return { code: 'INTERNAL', message: error instanceof Error ? error.message : String(error) };
}

/** Where a failure that nobody foresaw came from. */
function trace(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}

function overview(): string {
  const width = Math.max(...commands.map((c) => c.name.length + c.synopsis.length)) + 1;
  const rows = commands.map((c) => `  skep ${`${c.name} ${c.synopsis}`.padEnd(width)}  ${c.summary}`);
  return ['Neural-network inference for JavaScript.', '', ...rows, '', "'skep COMMAND --help' says more."].join('\n');
}

function version(): string {
  const file = fileURLToPath(new URL('../../../package.json', import.meta.url));
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version;
}
