// Declares nothing: no task allows this library, and an include alone calls nothing.
#pragma once
