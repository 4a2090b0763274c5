/* Records the runs of single sessions in rings. Their runs go through a table of their own, so that those of all other
   sessions pay nothing. */
#pragma once

#define ZRT_RECORDED_INPUTS 4
#define ZRT_RECORDED_DIMS 6
#define ZRT_RECORDED_NAME 48

/* A tensor that a run read; of one with more dimensions the first ones. */
typedef struct zrt_recorded_input {
    /* Cut, and with a NUL at the end. */
    char name[ZRT_RECORDED_NAME];
    int type;
    size_t rank;
    int64_t dims[ZRT_RECORDED_DIMS];
} zrt_recorded_input;

typedef struct zrt_recorded_run {
    /* 1 for the first run of the session that was recorded; 0 in a place that is free. */
    uint64_t number;
    /* On zrt_clock, and for how many nanoseconds. */
    uint64_t begun;
    uint64_t took;
    /* For how many of them it waited for the budget. */
    uint64_t waited;
    uint64_t thread;
    int failed;
    /* How many of the inputs are here. */
    size_t input_count;
    zrt_recorded_input inputs[ZRT_RECORDED_INPUTS];
} zrt_recorded_run;

/* The runs that zrt_run_noted gets with `key`: those that fail, that take more than `slowest` nanoseconds, or, after
   100 runs, more than `times` the median. A bound of 0 is none, and with a key of 0 it gets no run. */
typedef struct zrt_recording {
    size_t key;
    uint64_t slowest;
    uint64_t times;
} zrt_recording;

/* A recorder is never freed, and serves another session later: so runs find theirs without a lock, and one that is at
   its end may still write into it. */
typedef struct zrt_recorder {
    /* NULL for one that is free. */
    OrtSession *session;
    /* The runs that may be writing. */
    size_t users;
    struct zrt_recorder *next;
    const OrtApi *api;
    zrt_recording recording;
    size_t size;
    zrt_recorded_run *runs;
    uint64_t count;
    uint64_t median;
} zrt_recorder;

/* A run that failed or was slow, for the length of a call of zrt_run_noted. */
typedef struct zrt_noted_run {
    const zrt_recorder *recorder;
    const zrt_recorded_run *run;
    const OrtStatus *status;
    /* None of a run by a binding or a lane. */
    size_t input_count;
    const char *const *input_names;
    const OrtValue *const *inputs;
    /* Of a run by a binding or a lane: the inputs of the record, else NULL. */
    const zrt_description *bound;
    /* A guess of the median of all runs, in nanoseconds. */
    uint64_t median;
} zrt_noted_run;

/* Lets runs by this copy of ONNX Runtime's table be recorded. The functions that it replaces are kept once for all
   copies, which have the same ones. */
void zrt_record_install(OrtApi *table);

/* Whether runs of the session are recorded. */
int zrt_record_has(const OrtSession *session);

/* Records the runs of a session, which has no recorder, in a ring of `size` runs. The session must live until
   zrt_record_stop. Returns a code (code.h). */
uintptr_t zrt_record_begin(
    const OrtApi *api, OrtSession *session, size_t size, const zrt_recording *recording, zrt_recorder **recorder);

/* Ends it, also while runs are under way. */
void zrt_record_stop(zrt_recorder *recorder);

/* Copies a record, if it is whole. Returns whether it is. */
int zrt_record_read(const zrt_recorder *recorder, size_t index, zrt_recorded_run *copy);
