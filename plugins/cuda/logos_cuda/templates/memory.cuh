// How a buffer keeps its elements: as they are, as float16, or in Q8_0 with its scales in another buffer.
enum Element { PLAIN, HALVES, QUANTS };

struct Memory {
    const char *name;
    Size bytes;
    Element element;
    int scales;
};

const Size BLOCK = 32;  // elements that share a scale in Q8_0
