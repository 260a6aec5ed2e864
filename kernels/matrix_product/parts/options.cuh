// Steps of the sum that are on their way to shared memory at once.
// tune: STAGES = 4 [3, 4]
#ifndef STAGES
#define STAGES 4
#endif
// Tiles of large float32 products. 1: 128 × 128, one block of eight warps a multiprocessor; 0: 128 × 64, two blocks.
// tune: WIDE = 1 [0, 1]
#ifndef WIDE
#define WIDE 1
#endif
//: part $GROUP_OPTIONS
// At most so many results are made by the path that reads operands straight into registers (float32 only).
#ifndef TINY_RESULTS
#define TINY_RESULTS (1 << 17)
#endif
#ifndef TINY_STEPS
#define TINY_STEPS (48 << 20)
#endif
// At most so many float32 results are summed in float64, or products with no axis longer than SHORT_AXIS.
#ifndef FEW_RESULTS
#define FEW_RESULTS 128
#endif
#ifndef SHORT_AXIS
#define SHORT_AXIS 32
#endif
// At least so many tiles of 128 by 128 are worth the large tile.
#ifndef BIG_TILES
#define BIG_TILES 96
#endif

