// The README's example: load a model, run it, close it.
import { load, Tensor } from 'skep';

const model = await load(import.meta.resolve('@ricky0123/vad-web/dist/silero_vad_v6.onnx'));
console.log(model.inputs);
const { output } = await model.run({
  input: new Tensor('float32', new Float32Array(576), [1, 576]),
  state: new Tensor('float32', new Float32Array(256), [2, 1, 128]),
  sr: new Tensor('int64', [16000], []),
});
console.log(`speech with probability ${output.data[0].toFixed(3)}`);
await model.close();
