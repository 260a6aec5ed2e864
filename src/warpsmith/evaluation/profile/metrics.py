"""Names of ncu's metrics, and their groups."""

TIME = "gpu__time_duration.sum"
DRAM_READ, DRAM_WRITTEN = "dram__bytes_read.sum", "dram__bytes_write.sum"
DRAM_BUSY = "dram__throughput.avg.pct_of_peak_sustained_elapsed"
L2_SECTORS = "lts__t_sectors_srcunit_tex.sum"  # between the L1s and the L2; `lts__t_sectors` counts hops inside it too
L2_BUSY = (
    "lts__t_sectors.avg.pct_of_peak_sustained_elapsed",
    "lts__t_tag_requests.avg.pct_of_peak_sustained_elapsed",
    "lts__lts2xbar_cycles_active.avg.pct_of_peak_sustained_elapsed",
    "lts__d_atomic_input_cycles_active.avg.pct_of_peak_sustained_elapsed",
)
L1_BUSY = "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_active"
L1_BUSY_ELSE = "l1tex__throughput.avg.pct_of_peak_sustained_active"
WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts.sum"
SHARED_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"
BANK_CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"
SECTORS = (
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
)
REQUESTS = (
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
)
ISSUE = "smsp__issue_active.avg.pct_of_peak_sustained_active"
PIPES = {
    "integer pipe": "sm__pipe_alu_cycles_active.avg.pct_of_peak_sustained_active",
    "fp32 pipe": "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active",
    "fp64 pipe": "sm__pipe_fp64_cycles_active.avg.pct_of_peak_sustained_active",
    "special function pipe": "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active",
}
TENSOR = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"
OCCUPANCY = "sm__warps_active.avg.pct_of_peak_sustained_active"
OCCUPANCY_LIMIT = "sm__maximum_warps_per_active_cycle_pct"
LIMITS = {
    "registers": "launch__occupancy_limit_registers",
    "shared memory": "launch__occupancy_limit_shared_mem",
    "threads": "launch__occupancy_limit_warps",
    "blocks": "launch__occupancy_limit_blocks",
}
WAVES = "launch__waves_per_multiprocessor"
REGISTERS = "launch__registers_per_thread"
SHARED_BYTES = ("launch__shared_mem_per_block_static", "launch__shared_mem_per_block_dynamic")
FLOPS = {  # operations an executed instruction of a thread stands for
    "sm__sass_thread_inst_executed_op_ffma_pred_on.sum": 2,
    "sm__sass_thread_inst_executed_op_fadd_pred_on.sum": 1,
    "sm__sass_thread_inst_executed_op_fmul_pred_on.sum": 1,
}
TENSOR_FLOPS = {
    "sm__ops_path_tensor_src_bf16_dst_fp32.sum": "bfloat16",
    "sm__ops_path_tensor_src_fp16.sum": "float16",
    "sm__ops_path_tensor_src_tf32_dst_fp32.sum": "tf32",
}
STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
STALLS = {
    "long_scoreboard": "waiting for global or local memory",
    "short_scoreboard": "waiting for shared memory or special functions",
    "mio_throttle": "shared memory queue full",
    "lg_throttle": "load-store queue full",
    "barrier": "waiting at a barrier",
    "math_pipe_throttle": "arithmetic pipe full",
    "wait": "fixed latency of the instruction before",
    "membar": "waiting at a fence",
    "drain": "writing out before exit",
    "dispatch_stall": "dispatch stall",
    "branch_resolving": "resolving branches",
    "no_instruction": "waiting for instructions",
    "imc_miss": "waiting for constants",
    "tex_throttle": "texture queue full",
    "sleeping": "sleeping",
    "gmma": "waiting for tensor cores",
}


def metric_names() -> tuple[str, ...]:
    """Return the names of all requested metrics."""
    memory = (DRAM_READ, DRAM_WRITTEN, DRAM_BUSY, L2_SECTORS, L1_BUSY, L1_BUSY_ELSE, WAVEFRONTS, SHARED_WAVEFRONTS)
    rest = (TIME, BANK_CONFLICTS, ISSUE, TENSOR, OCCUPANCY, OCCUPANCY_LIMIT, WAVES, REGISTERS)
    many = (*L2_BUSY, *SECTORS, *REQUESTS, *PIPES.values(), *LIMITS.values(), *SHARED_BYTES, *FLOPS, *TENSOR_FLOPS)
    return (*memory, *rest, *many, *(STALL.format(name) for name in STALLS))
