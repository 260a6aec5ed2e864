// Declares nothing where the task does not allow the library: an include alone calls nothing.
#pragma once
#ifdef WARPSMITH_LIBRARY_CUBLAS
#include_next <cublas.h>
#endif
