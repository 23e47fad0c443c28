"""A KV connector that is missing, of the wrong role, or used against its grain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from launcher.known_bad.entry import HASH, WORKER, KnownBad
from launcher.known_bad.view import View


def _role_swapped(view: View) -> Iterator[str]:
    wrong = {"prefill": "kv_consumer", "decode": "kv_producer"}
    for role in view.pair or ():
        if role.transfer.get("kv_role") == wrong[role.name]:
            yield (
                f"{role.at('kv-transfer-config.kv_role', role.transfer['kv_role'])}: "
                f"the {role.name} role would {'receive' if role.name == 'prefill' else 'send'} KV"
            )


def _no_connector(view: View) -> Iterator[str]:
    for role in view.pair or ():
        written = role.flags.get("kv-transfer-config")
        no_form = not isinstance(written, Mapping) and written not in (None, "", "None")
        if not (role.transfer.get("kv_connector") or no_form):  # a wrong form is told elsewhere
            yield (
                f"{role.at('kv-transfer-config')}: prefill and decode are apart and {role.name} "
                "has no KV connector"
            )


def _no_role(view: View) -> Iterator[str]:
    for role in view.roles.values():
        if role.transfer.get("kv_connector") and not role.transfer.get("kv_role"):
            yield f"{role.at('kv-transfer-config')}: names a connector but no kv_role"


def _kv_both(view: View) -> Iterator[str]:
    for role in view.pair or ():
        if role.transfer.get("kv_role") == "kv_both":
            yield (
                f"{role.at('kv-transfer-config.kv_role', 'kv_both')}: deprecated with NIXL, and "
                "arms deferred block freeing on prefill too"
            )


def _connector_differs(view: View) -> Iterator[str]:
    if view.pair is None:
        return
    names = [str(role.transfer.get("kv_connector")) for role in view.pair]
    names = [name.replace("NixlPullConnector", "NixlConnector") for name in names]
    if names[0] != names[1] and "None" not in names:
        role = view.pair[0]
        yield (
            f"{role.at('kv-transfer-config.kv_connector', names[0])}: decode has {names[1]}: pull "
            "and push do not understand each other"
        )


def _recompute(view: View) -> Iterator[str]:
    for role in view.pair or ():
        if role.transfer.get("kv_load_failure_policy") == "recompute":
            yield (
                f"{role.at('kv-transfer-config.kv_load_failure_policy', 'recompute')}: decode "
                "computes the prompt itself where a transfer fails, so the figures hide failures"
            )


def _no_handshake(view: View) -> Iterator[str]:
    for role in view.pair or ():
        extra = role.nested("kv-transfer-config", "kv_connector_extra_config")
        if isinstance(extra, dict) and extra.get("enforce_handshake_compat") is False:
            yield (
                f"{role.at('kv-transfer-config.kv_connector_extra_config')}: without the check, "
                "roles that do not fit exchange bytes all the same"
            )


def _host_buffer(view: View) -> Iterator[str]:
    for role in view.pair or ():
        if view.cuda and role.transfer.get("kv_buffer_device") == "cpu":
            yield (
                f"{role.at('kv-transfer-config.kv_buffer_device', 'cpu')}: KV goes through host "
                "memory on its way between GPUs"
            )


def _routed_experts(view: View) -> Iterator[str]:
    for role in view.pair or ():
        if role.flags.get("enable-return-routed-experts") is True:
            yield f"{role.at('enable-return-routed-experts')}: refused with NIXL connectors"


def _expandable(view: View) -> Iterator[str]:
    for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
        if "expandable_segments:true" not in view.env.get(name, "").lower():
            continue
        for role in view.roles.values():
            if role.transfer and role.flags.get("enable-cumem-allocator") is not True:
                yield f"{view.at_env(name)}: moves memory under the connector's registrations"
                return


ENTRIES = (
    KnownBad(
        name="kv-role-swapped",
        level="error",
        check=_role_swapped,
        remedy="prefill is kv_producer, decode is kv_consumer",
        reference="vLLM docs/features/nixl_connector_usage.md",
        example=("flags.roles.prefill.kv-transfer-config.kv_role=kv_consumer",),
        near_miss=("flags.roles.prefill.kv-transfer-config.kv_role=kv_producer",),
    ),
    KnownBad(
        name="no-connector",
        level="error",
        check=_no_connector,
        remedy="set kv-transfer-config (kv_connector: NixlConnector) on both roles",
        reference="vLLM docs/features/disagg_prefill.md",
        example=("+topology.roles.decode.flags.kv-transfer-config=null",),
        near_miss=("topology=dep8_aggregated",),
    ),
    KnownBad(
        name="no-kv-role",
        level="error",
        check=_no_role,
        remedy="add kv_role: kv_producer on prefill, kv_consumer on decode",
        reference="vLLM 0.33.0 config/kv_transfer.py, __post_init__",
        example=("flags.roles.prefill.kv-transfer-config.kv_role=null",),
        near_miss=("flags.roles.prefill.kv-transfer-config.kv_role=kv_producer",),
    ),
    KnownBad(
        name="kv-both",
        level="warning",
        since="0.23.0",
        check=_kv_both,
        remedy="use kv_producer on prefill and kv_consumer on decode",
        reference="vLLM 0.33.0 distributed/kv_transfer/kv_connector/v1/nixl/connector.py:97",
        example=("flags.roles.prefill.kv-transfer-config.kv_role=kv_both",),
        near_miss=(
            "flags.roles.prefill.kv-transfer-config.kv_role=kv_both",
            "engine.release=0.22.0",
        ),
    ),
    KnownBad(
        name="connector-differs",
        level="error",
        check=_connector_differs,
        remedy="name one connector in flags.all.kv-transfer-config",
        reference=f"{HASH} (version 7: transfer mode)",
        example=("+flags.roles.prefill.kv-transfer-config.kv_connector=NixlPushConnector",),
        near_miss=("flags.all.kv-transfer-config.kv_connector=NixlPushConnector",),
    ),
    KnownBad(
        name="load-failure-recompute",
        level="warning",
        check=_recompute,
        remedy="use kv_load_failure_policy: fail for measurements",
        reference="vLLM 0.33.0 config/kv_transfer.py; vllm#27083",
        example=("flags.all.kv-transfer-config.kv_load_failure_policy=recompute",),
        near_miss=("flags.all.kv-transfer-config.kv_load_failure_policy=fail",),
    ),
    KnownBad(
        name="handshake-not-enforced",
        level="warning",
        check=_no_handshake,
        remedy="leave enforce_handshake_compat at its default, true",
        reference=WORKER,
        example=(
            "+flags.all.kv-transfer-config.kv_connector_extra_config="
            "{enforce_handshake_compat:false}",
        ),
        near_miss=(
            "+flags.all.kv-transfer-config.kv_connector_extra_config="
            "{enforce_handshake_compat:true}",
        ),
    ),
    KnownBad(
        name="kv-through-host-memory",
        level="warning",
        check=_host_buffer,
        remedy="leave kv_buffer_device out, or set cuda",
        reference="vLLM docs/features/nixl_connector_usage.md",
        example=("+flags.all.kv-transfer-config.kv_buffer_device=cpu",),
        near_miss=("+flags.all.kv-transfer-config.kv_buffer_device=cuda",),
    ),
    KnownBad(
        name="routed-experts-over-nixl",
        level="error",
        check=_routed_experts,
        remedy="leave the flag out",
        reference="vLLM 0.33.0 config/vllm.py:1231",
        example=("+flags.all.enable-return-routed-experts=true",),
        near_miss=("+flags.all.enable-return-routed-experts=false",),
    ),
    KnownBad(
        name="expandable-segments",
        level="error",
        check=_expandable,
        remedy="unset it, or set flags.all.enable-cumem-allocator=true",
        reference="vLLM 0.33.0 config/vllm.py, _verify_kv_transfer_compat; vllm#40812",
        example=("+flags.env.PYTORCH_CUDA_ALLOC_CONF='expandable_segments:True'",),
        near_miss=(
            "+flags.env.PYTORCH_CUDA_ALLOC_CONF='expandable_segments:True'",
            "+flags.all.enable-cumem-allocator=true",
        ),
    ),
)
