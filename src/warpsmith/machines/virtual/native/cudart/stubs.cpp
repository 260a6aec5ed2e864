// Stubs for all calls of the runtime. They are weak, so an implemented call replaces its stub. A stub reports its name
// and returns an error.
#include "link.h"

#define CALL(name) \
  extern "C" __attribute__((weak)) int name() { return standin::report_unknown_call(#name); }
#include "symbols.inc"
#undef CALL
