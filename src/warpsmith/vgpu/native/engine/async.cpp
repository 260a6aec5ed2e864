#include "lower.h"
namespace vgpu { const LowerEntry kMatrixOps[]={{nullptr,nullptr}}; const LowerEntry kAsyncOps[]={{nullptr,nullptr}}; }
