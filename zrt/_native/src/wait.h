/* Waits for conditions until a time on zrt_clock, which a change of the system's time does not move. */
#pragma once

#include <pthread.h>
#include <stdint.h>

/* Makes a condition for zrt_wait. Returns 0 or an errno. */
int zrt_wait_open(pthread_cond_t *condition);

/* Waits until `end` at most, without the lock. Returns 0, or ETIMEDOUT after that time. */
int zrt_wait(pthread_cond_t *condition, pthread_mutex_t *lock, uint64_t end);
