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
    uint64_t thread;
    int failed;
    /* How many of the inputs are here: none of a run by a binding or a lane. */
    size_t input_count;
    zrt_recorded_input inputs[ZRT_RECORDED_INPUTS];
} zrt_recorded_run;

/* A run that failed or was slow, for the length of a call of zrt_run_noted. */
typedef struct zrt_noted_run {
    const zrt_recorded_run *run;
    const OrtStatus *status;
    size_t input_count;
    const char *const *input_names;
    const OrtValue *const *inputs;
    /* A guess of the median of all runs, in nanoseconds. */
    uint64_t median;
} zrt_noted_run;

typedef struct zrt_recorder {
    const OrtApi *api;
    OrtSession *session;
    /* The object that zrt_run_noted gets, NULL for none. It is told of runs that fail, that take more than `slowest`
       nanoseconds, or more than `times` the median after 100 runs; 0 for never. */
    void *python;
    uint64_t slowest;
    uint64_t times;
    size_t size;
    zrt_recorded_run *runs;
    uint64_t count;
    uint64_t median;
} zrt_recorder;

/* Lets runs by this copy of ONNX Runtime's table be recorded. All copies have the same functions. */
void zrt_record_install(OrtApi *table);

/* Makes the ring of a recorder whose fields up to `size` are set, and begins. Returns 0, or -1 without memory. */
int zrt_record_begin(zrt_recorder *recorder);

/* Ends what zrt_record_begin began; no run of the session may be under way by the table. */
void zrt_record_end(zrt_recorder *recorder);

/* Copies a record, if it is whole. Returns whether it is. */
int zrt_record_read(const zrt_recorder *recorder, size_t index, zrt_recorded_run *copy);
