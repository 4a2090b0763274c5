/* Log lines (log.h) from threads without the GIL to Python. Any thread may push one: pushing never waits for Python,
   never takes the GIL, and is safe while the interpreter shuts down. One Python thread takes the lines (bridge.py). */
#pragma once

/* Call it before the other functions; a second call does nothing. Returns 0 or an errno. */
int zrt_bridge_open(void);

/* Queues a line and takes ownership of it. Returns 0 after zrt_bridge_end: the caller still owns the line then. */
int zrt_bridge_push(zrt_log *log);

/* Waits for lines and returns all there are, oldest first, as a list by `next`, which the caller owns; NULL after
   zrt_bridge_end. `delivered` is how many lines the caller has delivered since its last call. */
zrt_log *zrt_bridge_take(size_t delivered);

/* How many lines were pushed so far. */
uint64_t zrt_bridge_pushed(void);

/* Waits until the first `count` lines are delivered, for `seconds` at most. Returns whether they are. */
int zrt_bridge_flush(uint64_t count, double seconds);

/* Ends the bridge: zrt_bridge_take returns NULL from now on. Prints the lines that wait to standard error, where log.c
   prints all later ones. */
void zrt_bridge_end(void);
