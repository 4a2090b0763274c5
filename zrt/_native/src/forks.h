/* Sessions in a forked child: their threads are the parent's, and a lock that one of these held stays locked. */
#pragma once

/* Makes the run functions of this table return ZRT_FORKED (code.h). The table is a copy of ONNX Runtime's. */
void zrt_forks_refuse(OrtApi *table);
