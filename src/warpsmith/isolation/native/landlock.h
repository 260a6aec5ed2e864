// Landlock: which paths may be read, written and executed, no TCP, no signals out; as far as the kernel knows it.
#pragma once

#include "report.h"
#include "spec.h"

namespace warpsmith {

// Builds the rules while paths can still be opened. -1 when the kernel has no Landlock; the reason is reported.
int landlock_rules(const Spec& spec, bool new_root, Report* report);

// Puts them on this process for good.
void landlock_enforce(int rules, Report* report);

}  // namespace warpsmith
