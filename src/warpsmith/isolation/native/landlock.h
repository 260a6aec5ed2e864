// Landlock, as far as this kernel has it: the paths that may be read, written and executed, no TCP, no signals out.
#pragma once

#include "report.h"
#include "spec.h"

namespace warpsmith {

// Builds the rules while paths can still be opened. -1 when the kernel has no Landlock; the reason is reported.
int landlock_rules(const Spec& spec, bool new_root, Report* report);

// Enforces the rules on this process, which cannot remove them.
void landlock_enforce(int rules, Report* report);

}  // namespace warpsmith
