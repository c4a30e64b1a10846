// How a buffer keeps its elements: float32, 64-bit integers, Q8_0 in tiles, Q8_0 as rows with scales in another buffer,
// or a stage's own quants with their scales and offsets behind them.
enum Element { REAL, INT, TILES, QUANTS, ACTIVATIONS };

// `groups` of `rows` rows of `columns` elements, each group beginning a tile of its own.
struct Memory {
    Element element;
    Size groups, rows, columns;
    int scales;
};

// One kernel over `count` buffers of `operands`; threads that `meet` wait for each other before it.
struct Stage {
    int kernel;
    bool meets;
    int first, count;
};
