"""The keys of ONNX Runtime's config entries as names, which editors complete and type checkers check.

The names stand in plain classes: an enum of this size would take a tenth of the time in which a session's modules are
imported.
"""

from __future__ import annotations

from zrt._common.public import public


@public
class SessionConfigKey:
    """The keys of `SessionOptions.config_entries`: those of ORT's ``onnxruntime_session_options_config_keys.h``.

    Each attribute is a key: DISABLE_PREPACKING is "session.disable_prepacking".
    """

    DISABLE_PREPACKING = "session.disable_prepacking"
    USE_ENV_ALLOCATORS = "session.use_env_allocators"
    LOAD_MODEL_FORMAT = "session.load_model_format"
    SAVE_MODEL_FORMAT = "session.save_model_format"
    SET_DENORMAL_AS_ZERO = "session.set_denormal_as_zero"
    DISABLE_QUANT_QDQ = "session.disable_quant_qdq"
    DISABLE_QDQ_CONSTANT_FOLDING = "session.disable_qdq_constant_folding"
    DISABLE_DOUBLE_QDQ_REMOVER = "session.disable_double_qdq_remover"
    ENABLE_QUANT_QDQ_CLEANUP = "session.enable_quant_qdq_cleanup"
    ENABLE_GELU_APPROXIMATION = "optimization.enable_gelu_approximation"
    ENABLE_CAST_CHAIN_ELIMINATION = "optimization.enable_cast_chain_elimination"
    DISABLE_AOT_FUNCTION_INLINING = "session.disable_aot_function_inlining"
    MEMORY_OPTIMIZER_CONFIG = "optimization.memory_optimizer_config"
    ENABLE_MEMORY_PROBE_RECOMPUTE_CONFIG = "optimization.enable_memory_probe_recompute_config"
    DISABLE_SPECIFIED_OPTIMIZERS = "optimization.disable_specified_optimizers"
    CONSTANT_FOLDING_MAX_OUTPUT_SIZE_IN_BYTES = "optimization.constant_folding_max_output_size_in_bytes"
    GRAPH_OPTIMIZATIONS_LOOP_LEVEL = "session.graph_optimizations_loop_level"
    USE_DEVICE_ALLOCATOR_FOR_INITIALIZERS = "session.use_device_allocator_for_initializers"
    INTER_OP_ALLOW_SPINNING = "session.inter_op.allow_spinning"
    INTRA_OP_ALLOW_SPINNING = "session.intra_op.allow_spinning"
    INTRA_OP_SPIN_DURATION_US = "session.intra_op.spin_duration_us"
    INTER_OP_SPIN_DURATION_US = "session.inter_op.spin_duration_us"
    INTRA_OP_SPIN_BACKOFF_MAX = "session.intra_op.spin_backoff_max"
    INTER_OP_SPIN_BACKOFF_MAX = "session.inter_op.spin_backoff_max"
    USE_ORT_MODEL_BYTES_DIRECTLY = "session.use_ort_model_bytes_directly"
    USE_ORT_MODEL_BYTES_FOR_INITIALIZERS = "session.use_ort_model_bytes_for_initializers"
    USE_MEMORY_MAPPED_ORT_MODEL = "session.use_memory_mapped_ort_model"
    QDQISINT8ALLOWED = "session.qdqisint8allowed"
    X64QUANTPRECISION = "session.x64quantprecision"
    MINIMAL_BUILD_OPTIMIZATIONS = "optimization.minimal_build_optimizations"
    EP_NNAPI_PARTITIONING_STOP_OPS = "ep.nnapi.partitioning_stop_ops"
    DYNAMIC_BLOCK_BASE = "session.dynamic_block_base"
    FORCE_SPINNING_STOP = "session.force_spinning_stop"
    STRICT_SHAPE_TYPE_INFERENCE = "session.strict_shape_type_inference"
    ALLOW_RELEASED_OPSETS_ONLY = "session.allow_released_opsets_only"
    NODE_PARTITION_CONFIG_FILE = "session.node_partition_config_file"
    INTRA_OP_THREAD_AFFINITIES = "session.intra_op_thread_affinities"
    DEBUG_LAYOUT_TRANSFORMATION = "session.debug_layout_transformation"
    DISABLE_CPU_EP_FALLBACK = "session.disable_cpu_ep_fallback"
    OPTIMIZED_MODEL_EXTERNAL_INITIALIZERS_FILE_NAME = "session.optimized_model_external_initializers_file_name"
    OPTIMIZED_MODEL_EXTERNAL_INITIALIZERS_MIN_SIZE_IN_BYTES = (
        "session.optimized_model_external_initializers_min_size_in_bytes"
    )
    MODEL_EXTERNAL_INITIALIZERS_FILE_FOLDER_PATH = "session.model_external_initializers_file_folder_path"
    SAVE_EXTERNAL_PREPACKED_CONSTANT_INITIALIZERS = "session.save_external_prepacked_constant_initializers"
    COLLECT_NODE_MEMORY_STATS_TO_FILE = "session.collect_node_memory_stats_to_file"
    RESOURCE_CUDA_PARTITIONING_SETTINGS = "session.resource_cuda_partitioning_settings"
    LAYER_ASSIGNMENT_SETTINGS = "session.layer_assignment_settings"
    EP_CONTEXT_ENABLE = "ep.context_enable"
    EP_CONTEXT_FILE_PATH = "ep.context_file_path"
    EP_CONTEXT_EMBED_MODE = "ep.context_embed_mode"
    EP_CONTEXT_NODE_NAME_PREFIX = "ep.context_node_name_prefix"
    EP_SHARE_EP_CONTEXTS = "ep.share_ep_contexts"
    EP_STOP_SHARE_EP_CONTEXTS = "ep.stop_share_ep_contexts"
    EP_CONTEXT_MODEL_EXTERNAL_INITIALIZERS_FILE_NAME = "ep.context_model_external_initializers_file_name"
    COMPILE_ONLY = "session.compile_only"
    MLAS_ENABLE_GEMM_FASTMATH_ARM64_BFLOAT16 = "mlas.enable_gemm_fastmath_arm64_bfloat16"
    MLAS_USE_LUT_GEMM = "mlas.use_lut_gemm"
    MLAS_DISABLE_KLEIDIAI = "mlas.disable_kleidiai"
    QDQ_MATMULNBITS_ACCURACY_LEVEL = "session.qdq_matmulnbits_accuracy_level"
    QDQ_MATMULNBITS_BLOCK_SIZE = "session.qdq_matmulnbits_block_size"
    ENABLE_DQ_MATMULNBITS_FUSION = "session.enable_dq_matmulnbits_fusion"
    DISABLE_MODEL_COMPILE = "session.disable_model_compile"
    FAIL_ON_SUBOPTIMAL_COMPILED_MODEL = "session.fail_on_suboptimal_compiled_model"
    RECORD_EP_GRAPH_ASSIGNMENT_INFO = "session.record_ep_graph_assignment_info"
    EP_ENABLE_WEIGHTLESS_EP_CONTEXT_NODES = "ep.enable_weightless_ep_context_nodes"


@public
class RunConfigKey:
    """The keys of `RunOptions.config_entries`: those of ORT's ``onnxruntime_run_options_config_keys.h``."""

    MEMORY_ENABLE_MEMORY_ARENA_SHRINKAGE = "memory.enable_memory_arena_shrinkage"
    DISABLE_SYNCHRONIZE_EXECUTION_PROVIDERS = "disable_synchronize_execution_providers"
    QNN_HTP_PERF_MODE = "qnn.htp_perf_mode"
    QNN_HTP_PERF_MODE_POST_RUN = "qnn.htp_perf_mode_post_run"
    QNN_RPC_CONTROL_LATENCY = "qnn.rpc_control_latency"
    QNN_LORA_CONFIG = "qnn.lora_config"
    GPU_GRAPH_ID = "gpu_graph_id"
