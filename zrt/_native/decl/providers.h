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

typedef struct OrtROCMProviderOptions {
    int device_id;
    int miopen_conv_exhaustive_search;
    size_t gpu_mem_limit;
    int arena_extend_strategy;
    int do_copy_in_default_stream;
    int has_user_compute_stream;
    void *user_compute_stream;
    OrtArenaCfg *default_memory_arena_cfg;
    int enable_hip_graph;
    int tunable_op_enable;
    int tunable_op_tuning_enable;
    int tunable_op_max_tuning_duration_ms;
} OrtROCMProviderOptions;

typedef struct OrtTensorRTProviderOptions {
    int device_id;
    int has_user_compute_stream;
    void *user_compute_stream;
    int trt_max_partition_iterations;
    int trt_min_subgraph_size;
    size_t trt_max_workspace_size;
    int trt_fp16_enable;
    int trt_int8_enable;
    const char *trt_int8_calibration_table_name;
    int trt_int8_use_native_calibration_table;
    int trt_dla_enable;
    int trt_dla_core;
    int trt_dump_subgraphs;
    int trt_engine_cache_enable;
    const char *trt_engine_cache_path;
    int trt_engine_decryption_enable;
    const char *trt_engine_decryption_lib_path;
    int trt_force_sequential_engine_build;
} OrtTensorRTProviderOptions;

typedef struct OrtMIGraphXProviderOptions {
    int device_id;
    int migraphx_fp16_enable;
    int migraphx_fp8_enable;
    int migraphx_int8_enable;
    int migraphx_use_native_calibration_table;
    const char *migraphx_int8_calibration_table_name;
    int migraphx_save_compiled_model;
    const char *migraphx_save_model_path;
    int migraphx_load_compiled_model;
    const char *migraphx_load_model_path;
    bool migraphx_exhaustive_tune;
    size_t migraphx_mem_limit;
    int migraphx_arena_extend_strategy;
} OrtMIGraphXProviderOptions;

typedef struct OrtOpenVINOProviderOptions {
    const char *device_type;
    unsigned char enable_npu_fast_compile;
    const char *device_id;
    size_t num_of_threads;
    const char *cache_dir;
    void *context;
    unsigned char enable_opencl_throttling;
    unsigned char enable_dynamic_shapes;
} OrtOpenVINOProviderOptions;
