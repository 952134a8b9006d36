// What Skep leaves out on purpose, in words, and the upstream cases that therefore cannot pass. Part of docs/operators.md;
// the conformance tests take the list of cases from here.

/** [what, why or what to do instead] */
export const leftOut: readonly (readonly [string, string])[] = [
  [
    'Training',
    'operators of `ai.onnx.preview.training` (Gradient, Momentum, Adagrad, Adam). Dropout and BatchNormalization in training mode run (a random mask, batch statistics).',
  ],
  [
    '`ai.onnx.ml`',
    'classical machine learning but for LabelEncoder: TreeEnsemble, LinearClassifier, SVM, other encoders, ZipMap. Export with `options={"zipmap": False}` and keep the tree model in a library for trees.',
  ],
  [
    'Maps',
    'no operator of ai.onnx gives or takes them; a model whose input or output is a map loads and is refused when run.',
  ],
  [
    'Sequences',
    'of tensors, and of sequences, at inputs, outputs, in Loop, If, Scan and SequenceMap. They live in JavaScript, are handled by the reference, and end a plan: what follows is compiled when they are known. Models with sequences are not batched across requests.',
  ],
  ['Optionals', 'of tensors and of sequences, in the same way; an empty one is `null`.'],
  [
    'Strings',
    'tensors of strings at inputs and outputs, in StringConcat, StringSplit, StringNormalizer, RegexFullMatch, Cast, Equal, Where, Unique and everything that moves elements. RegexFullMatch takes the syntax of RE2 but for bytes (\\C) and octal numbers that do not begin with 0.',
  ],
  ['ImageDecoder', 'decoding files is left to libraries (pngjs, @cwasm/jpeg-turbo): feed pixels.'],
  [
    'Sparse tensors',
    'sparse initializers are made dense when the file is read; Constant’s `sparse_value` is refused, and inputs cannot be sparse.',
  ],
  [
    'Random numbers',
    'are Skep’s own generator’s: the specification fixes none. With `seed` they are the same each time.',
  ],
  [
    'Options of `com.microsoft`',
    'Attention with `do_rotary` or a buffer shared by past and present; MultiHeadAttention with `past_sequence_length` or `cache_indirection`; GroupQueryAttention with a quantized cache; FusedMatMul with `transBatchA` or `transBatchB`; `channels_last` pools. Each is refused by name.',
  ],
  ['DeformConv', 'of two spatial dimensions; others are refused.'],
];

/** Cases upstream has that do not pass: [name or pattern, why]. */
export const openCases: readonly (readonly [string, string])[] = [
  ['test_image_decoder_decode_*', 'ImageDecoder is left out'],
  ['test_ai_onnx_ml_*', 'the domain is left out but for LabelEncoder'],
  ['test_adagrad*, test_adam*, test_momentum*, test_nesterov_momentum', 'training'],
  [
    'test_bernoulli*, test_training_dropout*',
    'random numbers: upstream itself compares only shapes (their `_expanded` forms with a fixed seed hold numbers of NumPy)',
  ],
];
