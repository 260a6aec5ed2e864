#pragma once
#ifndef WARPSMITH_LIBRARY_CUDNN
#error "warpsmith: library cudnn is not allowed by the task"
#else
#include_next <cudnn_frontend.h>
#endif
