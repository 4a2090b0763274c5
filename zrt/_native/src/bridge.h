/* Messages from threads without the GIL to Python. Any thread may push one: pushing never waits for Python, never takes
   the GIL, and is safe while the interpreter shuts down. One Python thread takes the messages (bridge.py). */
#pragma once

/* The kinds of messages: a zrt_log (log.h) or a zrt_run (async.h). */
enum { ZRT_MESSAGE_LOG = 0, ZRT_MESSAGE_RUN = 1 };

/* Call it before the other functions; a second call does nothing. Returns 0 or an errno. */
int zrt_bridge_open(void);

/* Queues a message and takes ownership of it. Returns 0 after zrt_bridge_end: the caller still owns the message then.
 */
int zrt_bridge_push(zrt_message *message);

/* Waits for messages and returns all there are, oldest first, as a list by `next`; NULL after zrt_bridge_end.
   `delivered` is how many messages the caller has delivered since its last call. */
zrt_message *zrt_bridge_take(size_t delivered);

/* Frees the log records in a list of messages, and drops the messages' references to their runs. */
void zrt_bridge_release(zrt_message *messages);

/* How many messages were pushed so far. */
uint64_t zrt_bridge_pushed(void);

/* Waits until the first `count` messages are delivered, for `seconds` at most. Returns whether they are. */
int zrt_bridge_flush(uint64_t count, double seconds);

/* Ends the bridge: zrt_bridge_take returns NULL from now on. Prints the log records that wait to standard error, where
   log.c prints all later ones. */
void zrt_bridge_end(void);
