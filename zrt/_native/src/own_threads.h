/* Threads of zrt's own, which never run Python. */
#pragma once

/* Starts a thread that nobody joins. It gets no signals: Python's own threads handle these. Returns 0 or an errno. */
int zrt_own_thread(const char *name, void *(*work)(void *), void *argument);
