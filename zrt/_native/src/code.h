/* The result of a run. */
#pragma once

/* A run returns one of these, or the address of the OrtStatus that it failed with, which the caller releases. Another
   thread uses the lane; the memory of a feed is misaligned, and nothing ran. */
enum { ZRT_OK = 0, ZRT_BUSY = 1, ZRT_MISALIGNED = 2 };
