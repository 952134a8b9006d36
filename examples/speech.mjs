// Finds the speech in a recording with Silero VAD: a small recurrent network that hears 32 ms at a time.
//
//   node examples/speech.mjs [RECORDING.wav]
import { fileURLToPath } from 'node:url';
import { load, Tensor } from 'skep';
import { readWav, resample } from './lib/wav.mjs';

const RATE = 16000;
const CHUNK = 512;
/** The network sees the end of the chunk before, too. */
const CONTEXT = 64;

/** Loads the network. `find(samples)` takes mono samples at 16 kHz and gives `[{ start, end }]` in seconds. */
export async function openDetector() {
  const model = await load(import.meta.resolve('@ricky0123/vad-web/dist/silero_vad_v6.onnx'));
  const sr = new Tensor('int64', [RATE], []);

  /** How likely each chunk is speech. What the network remembers goes from one run into the next. */
  async function probabilities(samples) {
    const found = [];
    let state = new Tensor('float32', new Float32Array(2 * 1 * 128), [2, 1, 128]);
    for (let at = 0; at < samples.length; at += CHUNK) {
      const window = new Float32Array(CONTEXT + CHUNK);
      const from = Math.max(at - CONTEXT, 0);
      window.set(samples.subarray(from, at + CHUNK), CONTEXT - (at - from));
      const { output, stateN } = await model.run({
        input: new Tensor('float32', window, [1, window.length]),
        state,
        sr,
      });
      found.push(output.data[0]);
      state = stateN;
    }
    return found;
  }

  return {
    model,
    async find(samples) {
      return segments(await probabilities(samples), samples.length / RATE);
    },
    close: () => model.close(),
  };
}

/**
 * From probabilities to segments. Speech begins above `on` and ends when it has been below `off` for `silence` seconds,
 * so that a wavering value does not chop a word; what is shorter than `least` is noise; `padding` is added at both ends.
 */
export function segments(
  probabilities,
  duration,
  { on = 0.5, off = 0.35, silence = 0.1, least = 0.25, padding = 0.03 } = {},
) {
  const time = (chunk) => (chunk * CHUNK) / RATE;
  const found = [];
  let start = -1;
  let quiet = -1;
  for (let i = 0; i <= probabilities.length; i++) {
    const p = probabilities[i] ?? 0;
    if (p >= on) {
      if (start < 0) start = i;
      quiet = -1;
    } else if (start >= 0 && p < off) {
      if (quiet < 0) quiet = i;
      const over = i === probabilities.length || time(i - quiet) >= silence;
      if (!over) continue;
      if (time(quiet - start) >= least) found.push([time(start), time(quiet)]);
      start = quiet = -1;
    }
  }
  return found.map(([a, b], i) => {
    // Padding may not reach into the neighbour's.
    const before = i === 0 ? 0 : (found[i - 1][1] + a) / 2;
    const after = i === found.length - 1 ? duration : (b + found[i + 1][0]) / 2;
    return { start: Math.max(a - padding, before), end: Math.min(b + padding, after) };
  });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const file = process.argv[2] ?? fileURLToPath(new URL('./assets/speech.wav', import.meta.url));
  const { sampleRate, samples } = readWav(file);
  const detector = await openDetector();
  for (const { start, end } of await detector.find(resample(samples, sampleRate, RATE)))
    console.log(`${start.toFixed(2)} s to ${end.toFixed(2)} s`);
  await detector.close();
}
