// How large products of 16-bit numbers are made. 0: warps load fragments themselves (mma.sync). 1: warp groups multiply
// straight from shared memory that the copy engine fills (wgmma, TMA), up to 128 × 256 results a block.
#ifndef STRATEGY
#define STRATEGY 1
#endif
// At least so many steps of multiply-add make STRATEGY 1 worth its set-up.
#ifndef GROUP_STEPS
#define GROUP_STEPS (1ll << 30)
#endif
// Blocks of a cluster. 2: blocks of two tiles, one below the other, share the copies of the second operand.
// tune: CLUSTER = $CLUSTER [1, 2]
#ifndef CLUSTER
#define CLUSTER $CLUSTER
#endif
// Whether a cluster shares copies (0 only where multicast is not known).
#ifndef MULTICAST
#define MULTICAST 1
#endif
// Results of STRATEGY 1 leave. 0: from registers; 1: through shared memory by the copy engine, while the next tile begins.
// tune: STAGED = 1 [0, 1]
#ifndef STAGED
#define STAGED 1
#endif
// Nanoseconds by which one warp group begins after the other where sums are short; 0: together.
// tune: LAG = 600 [0, 600]
#ifndef LAG
#define LAG 600
#endif
//: part $JOINED_OPTION
// Columns of a tile; 0: 256 or MIDDLE, whichever leaves less of the last round of tiles empty.
#ifndef WIDTH
#define WIDTH 0
#endif
#ifndef MIDDLE
#define MIDDLE $MIDDLE
#endif
// Blocks or clusters that run at once.
#ifndef UNITS
#define UNITS (132 / CLUSTER)
#endif
// Rows of tiles in a band; the tiles of a band are made column by column, so that operands are found in the L2.
#ifndef BAND
#define BAND 16
#endif
