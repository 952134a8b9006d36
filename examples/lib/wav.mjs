// WAV files as mono samples between −1 and 1: integer PCM of 8 to 32 bits and 32-bit floats.
import { readFileSync } from 'node:fs';

/** @returns {{ sampleRate: number, samples: Float32Array }} channels averaged */
export function readWav(file) {
  const bytes = readFileSync(file);
  if (bytes.toString('latin1', 0, 4) !== 'RIFF' || bytes.toString('latin1', 8, 12) !== 'WAVE')
    throw new Error(`${file} is no WAV file`);
  let format;
  for (let at = 12; at + 8 <= bytes.length; ) {
    const id = bytes.toString('latin1', at, at + 4);
    const length = bytes.readUInt32LE(at + 4);
    // A writer that streamed does not know the length: what is there counts.
    const body = bytes.subarray(at + 8, Math.min(at + 8 + length, bytes.length));
    if (id === 'fmt ') format = readFormat(body, file);
    if (id === 'data') {
      if (format === undefined) throw new Error(`${file} has data before its format`);
      return { sampleRate: format.sampleRate, samples: readSamples(body, format) };
    }
    at += 8 + length + (length % 2);
  }
  throw new Error(`${file} holds no samples`);
}

function readFormat(body, file) {
  // An extensible format (0xfffe) has the real one in its GUID.
  const tag = body.readUInt16LE(0) === 0xfffe ? body.readUInt16LE(24) : body.readUInt16LE(0);
  const format = {
    channels: body.readUInt16LE(2),
    sampleRate: body.readUInt32LE(4),
    bytes: body.readUInt16LE(14) / 8,
    float: tag === 3,
  };
  const known = tag === 1 ? [1, 2, 3, 4].includes(format.bytes) : tag === 3 && format.bytes === 4;
  if (!known || format.channels === 0)
    throw new Error(`${file}: format ${tag} of ${format.bytes} bytes is not supported`);
  return format;
}

function readSamples(body, { channels, bytes, float }) {
  const read = float
    ? (at) => body.readFloatLE(at)
    : bytes === 1
      ? (at) => (body[at] - 128) / 128
      : (at) => body.readIntLE(at, bytes) / 2 ** (8 * bytes - 1);
  const samples = new Float32Array(Math.floor(body.length / (channels * bytes)));
  for (let i = 0; i < samples.length; i++) {
    let sum = 0;
    for (let c = 0; c < channels; c++) sum += read((i * channels + c) * bytes);
    samples[i] = sum / channels;
  }
  return samples;
}

/** The samples at another rate, by linear interpolation: good enough to tell speech from silence. */
export function resample(samples, from, to) {
  if (from === to) return samples;
  const out = new Float32Array(Math.floor((samples.length * to) / from));
  for (let i = 0; i < out.length; i++) {
    const x = (i * from) / to;
    const left = Math.floor(x);
    const right = Math.min(left + 1, samples.length - 1);
    out[i] = samples[left] + (samples[right] - samples[left]) * (x - left);
  }
  return out;
}
