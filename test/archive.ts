// Reads the conformance cases straight from their archive: gzip, then tar with hard links inside.
import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';

/** The regular files of a .tar.gz by path; hard links give the file they point to. */
export function readArchive(file: string): Map<string, Uint8Array> {
  const bytes = gunzipSync(readFileSync(file));
  const files = new Map<string, Uint8Array>();
  const text = (from: number, length: number) => bytes.toString('utf8', from, from + length).split('\0')[0]!;
  let longName = '';
  let longLink = '';
  for (let at = 0; at + 512 <= bytes.length && bytes[at] !== 0; ) {
    const size = Number.parseInt(text(at + 124, 12), 8) || 0;
    const kind = String.fromCharCode(bytes[at + 156]!);
    const prefix = text(at + 257, 5) === 'ustar' ? text(at + 345, 155) : '';
    const name = longName || (prefix === '' ? text(at, 100) : `${prefix}/${text(at, 100)}`);
    const link = longLink || text(at + 157, 100);
    const data = bytes.subarray(at + 512, at + 512 + size);
    if (kind === 'L') longName = text(at + 512, size);
    else if (kind === 'K') longLink = text(at + 512, size);
    else {
      if (kind === '0' || kind === '\0') files.set(name, data);
      else if (kind === '1') files.set(name, files.get(link)!);
      longName = '';
      longLink = '';
    }
    at += 512 + Math.ceil(size / 512) * 512;
  }
  return files;
}
