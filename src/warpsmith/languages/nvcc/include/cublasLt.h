#pragma once
#ifndef WARPSMITH_LIBRARY_CUBLASLT
#error "warpsmith: library cublaslt is not allowed by the task"
#else
#include_next <cublasLt.h>
#endif
