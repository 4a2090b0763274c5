/* Functions and methods of Python that C makes: a call costs that of a builtin, with no frame of Python and no cffi. */
#pragma once

/* Call it once, before the functions of call.h, bind.h and allocated.h, with the addresses of numpy's type and of its
   function `empty`, which it keeps, and of a list. Appends to the list the type of the objects that own a value
   (allocated.h), then find_call, run_feeds and run_values (call.h) and bind_array (bind.h). Returns 0, or another
   number without memory. */
int zrt_builtin_open(uintptr_t ndarray, uintptr_t empty, uintptr_t list);

enum { ZRT_LANE_RUN = 0, ZRT_BINDING_RUN = 1, ZRT_PREPARED_RUN = 2, ZRT_BUILTINS = 3 };

/* Puts a builtin (one of the enum) into the class at this address, in place of a function of the same name, to which
   calls with arguments go on. `member` is the descriptor of a slot of the class: for an open object its value is a
   tuple, of which the first element is the address of a zrt_handle that the others keep alive. Where it is another
   value or missing, the function is called too. A run that fails calls the object's method `_run_failed` with the code;
   a prepared run calls its method `_complete` with the tuples of zrt_call_prepared and of `member` where it gets no
   list. `doc` begins with the signature as CPython's builtins have it. Returns 0 if it succeeds. */
int zrt_builtin_set(int builtin, uintptr_t type, uintptr_t member, uintptr_t function, const char *doc);
