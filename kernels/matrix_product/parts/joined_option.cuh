// Independent products. 0: each in a launch of its own; 1: together in one.
// tune: JOINED = 1 [0, 1]
#ifndef JOINED
#define JOINED 1
#endif
