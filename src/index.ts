// What a user imports: the public API, re-exported from the layers that own it. No code of its own.
export {};
