#pragma once
#ifndef WARPSMITH_LIBRARY_CUBLAS
#error "warpsmith: library cublas is not allowed by the task"
#else
#include_next <cublas_api.h>
#endif
