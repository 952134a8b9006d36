// Profiles on disk: what `tune` has measured is kept in the user's cache folder, one file a model, machine and version,
// and read again by who asks the same. A file says for what it was measured; one that says something else, or that cannot
// be read, is as if it were not there. Nothing here ever fails a caller: a folder that cannot be written keeps nothing.
import { createHash } from 'node:crypto';
import { createReadStream, readFileSync } from 'node:fs';
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { availableParallelism, cpus, homedir } from 'node:os';
import path from 'node:path';
import { Profile } from '../optimizer/profile.js';
import type { Source } from '../runtime/source.js';
import { SkepError } from '../tensor/errors.js';

/** What a profile depends on besides the machine and Skep's version, which are added here. */
export interface ProfileKey {
  /** Digest of the model's file. */
  readonly model: string;
  readonly weights: string;
  readonly winograd: boolean;
  readonly build: string;
  readonly wide: boolean;
  readonly threads: number;
}

/** A profile as it is kept. */
export interface StoredProfile {
  readonly profile: Profile;
  /** What requests it was measured with: types and shapes of a row. */
  readonly request: string;
  /** The largest batch that was to be measured, and whether all was. */
  readonly batch: number;
  readonly complete: boolean;
}

const FORMAT = 'skep-stored-profile';
const VERSION = 1;

/** Reads what is stored for a key; undefined where there is nothing that fits. */
export async function loadProfile(key: ProfileKey): Promise<StoredProfile | undefined> {
  try {
    const whole = JSON.parse(await readFile(fileOf(key), 'utf8')) as Record<string, unknown>;
    const { format, version, profile, request, batch, complete } = whole;
    if (format !== FORMAT || version !== VERSION || JSON.stringify(whole.key) !== JSON.stringify(fullKey(key)))
      return undefined;
    if (typeof request !== 'string' || typeof batch !== 'number' || typeof complete !== 'boolean') return undefined;
    return { profile: Profile.from(profile), request, batch, complete };
  } catch {
    return undefined;
  }
}

/** Stores a profile; false when the folder cannot be written. */
export async function saveProfile(key: ProfileKey, { profile, ...rest }: StoredProfile): Promise<boolean> {
  const file = fileOf(key);
  const temporary = `${file}.${process.pid}`;
  const text = JSON.stringify({ format: FORMAT, version: VERSION, key: fullKey(key), ...rest, profile }, undefined, 1);
  try {
    await mkdir(path.dirname(file), { recursive: true });
    await writeFile(temporary, text);
    // Readers see the old one or the new one, never half of it.
    await rename(temporary, file);
    return true;
  } catch {
    return false;
  }
}

/** A digest of a model's file, taken a piece at a time. */
export async function digestOf(source: Source): Promise<string> {
  const hash = createHash('sha256');
  if (source.kind === 'file') {
    try {
      for await (const chunk of createReadStream(source.path)) hash.update(chunk as Buffer);
    } catch (cause) {
      throw new SkepError('INVALID_INPUT', `cannot read the model: ${(cause as Error).message}`, { cause });
    }
  } else {
    const bytes = new Uint8Array(source.bytes);
    for (let at = 0; at < bytes.length; at += PIECE) {
      hash.update(bytes.subarray(at, at + PIECE));
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
  return hash.digest('hex');
}

/** Bytes digested between two turns of the event loop. */
const PIECE = 1 << 20;

function fullKey(key: ProfileKey): Record<string, string | number | boolean> {
  const { model, weights, winograd, build, wide, threads } = key;
  const machine = { cpu: cpus()[0]?.model.trim() ?? '', cores: availableParallelism(), arch: process.arch };
  return { model, weights, winograd, build, wide, threads, ...machine, node: process.version, skep: skepVersion() };
}

function fileOf(key: ProfileKey): string {
  const name = createHash('sha256')
    .update(JSON.stringify(fullKey(key)))
    .digest('hex')
    .slice(0, 32);
  return path.join(cacheFolder(), 'profiles', `${name}.json`);
}

/** SKEP_CACHE, or skep's folder in the user's cache folder. */
function cacheFolder(): string {
  const { SKEP_CACHE, XDG_CACHE_HOME, LOCALAPPDATA } = process.env;
  if (SKEP_CACHE) return SKEP_CACHE;
  if (process.platform === 'darwin') return path.join(homedir(), 'Library', 'Caches', 'skep');
  if (process.platform === 'win32') return path.join(LOCALAPPDATA || path.join(homedir(), 'AppData', 'Local'), 'skep');
  return path.join(XDG_CACHE_HOME || path.join(homedir(), '.cache'), 'skep');
}

let version: string | undefined;

function skepVersion(): string {
  version ??= (
    JSON.parse(readFileSync(new URL('../../../package.json', import.meta.url), 'utf8')) as { version: string }
  ).version;
  return version;
}
