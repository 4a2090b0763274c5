#include <stdint.h>
#include <time.h>

#include "deadline.h"

void zrt_deadline(double seconds, struct timespec *end) {
    clock_gettime(CLOCK_REALTIME, end);
    int64_t nanoseconds = end->tv_nsec + (int64_t)(seconds * 1e9);
    end->tv_sec += nanoseconds / 1000000000;
    end->tv_nsec = nanoseconds % 1000000000;
}
