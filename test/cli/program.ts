// Runs a command line in this process, catching what it prints.
import { skep as runCommand } from '../../src/cli/skep.js';

export async function skep(...words: string[]): Promise<{ code: number; out: string; err: string }> {
  const { stdout, stderr } = process;
  const printed = { out: '', err: '' };
  const writes = [stdout.write, stderr.write] as const;
  const into = (key: 'out' | 'err') => (text: unknown) => {
    printed[key] += String(text);
    return true;
  };
  stdout.write = into('out');
  stderr.write = into('err');
  try {
    return { code: await runCommand(words), ...printed };
  } finally {
    [stdout.write, stderr.write] = writes;
  }
}
