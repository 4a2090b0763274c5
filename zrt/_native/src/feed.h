/* `Session.run` in one C call: from the caller's feeds to the arrays of the outputs. */
#pragma once

/* `call` is a handle on a zrt_call. `request` is the address of a tuple of the feeds and of an empty list for the
   results. The feeds are a dict of numpy arrays by name, or a list or tuple of them in the session's order. `made` is
   that of zrt_call_run. The function takes the GIL and frees it during the run. Returns a code (code.h): ZRT_OTHER
   where the feeds are no arrays of the call's names, types and shapes, or where memory is missing; nothing ran then. */
uintptr_t zrt_feed_run(zrt_handle *call, uintptr_t request, zrt_made *made);
