/* Messages from ONNX Runtime's threads to Python. Whoever has one pushes it and goes on: it never waits for Python,
   never takes the GIL, and may do so while the interpreter ends. One Python thread takes them. */
#pragma once

/* What a message is, by its `kind`. */
enum { ZRT_MESSAGE_LOG = 0, ZRT_MESSAGE_RUN = 1 };

/* To be called once, before anything else here. 0, or the errno. */
int zrt_bridge_open(void);

/* Queues a message; 0 once the bridge has ended: then nobody will take it, and it stays the caller's. */
int zrt_bridge_push(zrt_message *message);

/* Waits for messages and hands out all there are, oldest first; NULL once the bridge has ended. `delivered` counts
   those of the times before that are delivered since. */
zrt_message *zrt_bridge_take(size_t delivered);

/* Frees the log records among messages that were taken; the others belong to whoever pushed them. */
void zrt_bridge_release(zrt_message *messages);

/* How many were pushed so far. */
uint64_t zrt_bridge_pushed(void);

/* Waits until the first `count` are delivered, for so many seconds at most; whether they are. */
int zrt_bridge_flush(uint64_t count, double seconds);

/* Nothing is taken from now on. Log records that wait go to standard error, as all later ones do. */
void zrt_bridge_end(void);
