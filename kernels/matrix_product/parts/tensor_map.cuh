#include <warpsmith/tensor_map.h>
