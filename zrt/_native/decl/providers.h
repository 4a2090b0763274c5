typedef enum OrtCudnnConvAlgoSearch {
    OrtCudnnConvAlgoSearchExhaustive = 0,
    OrtCudnnConvAlgoSearchHeuristic = 1,
    OrtCudnnConvAlgoSearchDefault = 2
} OrtCudnnConvAlgoSearch;

typedef struct OrtCUDAProviderOptions {
    int device_id;
    OrtCudnnConvAlgoSearch cudnn_conv_algo_search;
    size_t gpu_mem_limit;
    int arena_extend_strategy;
    int do_copy_in_default_stream;
    int has_user_compute_stream;
    void *user_compute_stream;
    OrtArenaCfg *default_memory_arena_cfg;
    int tunable_op_enable;
    int tunable_op_tuning_enable;
    int tunable_op_max_tuning_duration_ms;
} OrtCUDAProviderOptions;
