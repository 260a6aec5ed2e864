// A stub for every call of the runtime: weak, so that the written ones take its place. It names itself and fails.
#include "link.h"

#define CALL(name) \
  extern "C" __attribute__((weak)) int name() { return standin::unknown(#name); }
#include "symbols.inc"
#undef CALL
