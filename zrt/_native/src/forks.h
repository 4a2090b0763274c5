/* Sessions in a forked child: their threads are the parent's, and a lock that one of these held stays locked. */
#pragma once

/* A copy of ONNX Runtime's table, with the functions that every library has which zrt takes; NULL without memory. C
   code has its address: it is never freed. */
OrtApi *zrt_forks_table(const OrtApi *table);

/* Makes the run functions of this table return ZRT_FORKED (code.h). The table is a copy of ONNX Runtime's. */
void zrt_forks_refuse(OrtApi *table);
