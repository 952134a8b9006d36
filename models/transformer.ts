// What BERT and GPT-2 can be set to.
export const transformerOptions = {
  vocabulary: 'tokens',
  positions: 'the longest text',
  hidden: 'numbers a token is represented by',
  layers: 'transformer layers',
  heads: 'attention heads; a divisor of hidden',
};
