/* The result of a run. */
#pragma once

/* A run returns one of these codes, or the address of an OrtStatus, which the caller releases. ZRT_BUSY: another thread
   uses the lane. ZRT_MISALIGNED: memory does not suit a tensor. ZRT_INCOMPLETE: an input or every output may be
   unbound, and nothing ran. ZRT_VALUES: the run succeeded, and Python has to make the objects of some results.
   ZRT_TIMEOUT, ZRT_INTERRUPTED: its deadline or an interrupt ended the run. ZRT_FORKED: the session was made before a
   fork, in the parent, and nothing ran. Of a run on a state: ZRT_STATE_BUSY: another run or thread uses the state.
   ZRT_STATE_FOREIGN: the state does not fit the lane. ZRT_STATE_FULL: the steps of the run exceed its capacity. Of a
   tensor of strings: ZRT_NO_TEXT, an array does not suit, or an element is no string. ZRT_UNREADABLE: a feed cannot be
   copied, or there is no memory for it, and nothing ran. ZRT_NO_MEMORY: there is none for a result, or for the UTF-8 of
   strings. ZRT_LAST: the largest. */
enum {
    ZRT_OK = 0,
    ZRT_BUSY = 1,
    ZRT_MISALIGNED = 2,
    ZRT_INCOMPLETE = 3,
    ZRT_VALUES = 4,
    ZRT_TIMEOUT = 5,
    ZRT_INTERRUPTED = 6,
    ZRT_STATE_BUSY = 7,
    ZRT_STATE_FOREIGN = 8,
    ZRT_STATE_FULL = 9,
    ZRT_FORKED = 10,
    ZRT_NO_TEXT = 11,
    ZRT_UNREADABLE = 12,
    ZRT_NO_MEMORY = 13,
    ZRT_LAST = 13
};
