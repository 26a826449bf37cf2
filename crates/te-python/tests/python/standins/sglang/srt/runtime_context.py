"""The flags of a server: one rank that sends or takes, without any feature beside that."""
from types import SimpleNamespace

CONTEXT = SimpleNamespace(
    device=SimpleNamespace(device="cuda"),
    disagg=SimpleNamespace(
        disaggregation_mode="prefill", disaggregation_transfer_backend="mooncake", disaggregation_ib_device=None,
        disaggregation_bootstrap_port=0, disaggregation_decode_allocation_policy="early", encoder_only=False,
        language_only=False, encoder_transfer_backend=None),
    exec=SimpleNamespace(moe=SimpleNamespace(elastic_ep_backend=None, enable_elastic_expert_backup=False, mooncake_ib_device=None)),
    memory=SimpleNamespace(enable_unified_memory=False, enable_hierarchical_cache=False, hicache_storage_backend=None),
    observability=SimpleNamespace(enable_trace=False),
    parallel=SimpleNamespace(
        attn_tp_size=1, attn_tp_rank=0, attn_cp_size=1, attn_cp_rank=0, attn_dcp_size=1, attn_dcp_rank=0, attn_dp_size=1,
        attn_dp_rank=0, dp_size=1, num_dp_ranks=1, pp_size=1, pp_group=None, world_group=None, nnodes=1, dist_init_addr=None,
        load_balance_method="round_robin", enable_cp_tp_group_sharing=False, enable_dsa_cache_layer_split=False,
        enable_kv_cache_sharding=False),
    resources=SimpleNamespace(),
    schedule=SimpleNamespace(chunked_prefill_size=8192, max_prefill_tokens=16384),
    serving=SimpleNamespace(host="127.0.0.1", port=0),
    spec=SimpleNamespace(speculative_algorithm=None, speculative_num_draft_tokens=None),
)


def _get(name):
    return lambda: getattr(CONTEXT, name)


get_device, get_disagg, get_exec, get_memory = _get("device"), _get("disagg"), _get("exec"), _get("memory")
get_observability, get_parallel, get_resources = _get("observability"), _get("parallel"), _get("resources")
get_schedule, get_serving, get_spec = _get("schedule"), _get("serving"), _get("spec")


def linear_attn_tp_size():
    return CONTEXT.parallel.attn_tp_size


def max_prefill_buffer_tokens():
    return CONTEXT.schedule.max_prefill_tokens
