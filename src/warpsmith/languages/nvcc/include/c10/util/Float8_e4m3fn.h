#pragma once
#include <warpsmith/torch/all.h>
