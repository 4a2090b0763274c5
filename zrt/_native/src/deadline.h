/* Waits that end at a time. */
#pragma once

#include <time.h>

/* Stores the time in so many seconds, for pthread_cond_timedwait. */
void zrt_deadline(double seconds, struct timespec *end);
