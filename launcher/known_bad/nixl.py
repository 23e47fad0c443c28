"""NIXL's own settings inside kv-transfer-config, where their form alone is not enough."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from launcher.known_bad.entry import KnownBad
from launcher.known_bad.view import RoleView, View
from launcher.options.table import near

DEVICES = {"cuda": ("cuda", "cpu"), "cpu": ("cpu",)}
"""Engine's device -> devices of the transfer buffer (nixl/utils.py, _NIXL_SUPPORTED_DEVICE)."""
PLUGINS = (
    *("UCX", "GDS", "GDS_MT", "LIBFABRIC", "POSIX", "OBJ", "GPUNETIO", "GUSLI", "AZURE_BLOB"),
    *("INFINIA", "UCX_MO", "HF3FS", "Mooncake"),
)
"""Plug-ins of nixl 1.5.1 (libplugin_*.so) and of its source tree."""


def _nixl(view: View) -> Iterator[RoleView]:
    for role in view.pair or ():
        if str(role.transfer.get("kv_connector")).startswith("Nixl"):
            yield role


def _engine_id(view: View) -> Iterator[str]:
    roles = list(_nixl(view))
    ids = [role.transfer.get("engine_id") for role in roles]
    for role in roles:
        name = role.transfer.get("engine_id")
        if name and (role.shape.endpoints > 1 or ids.count(name) > 1):
            yield (
                f"{role.at('kv-transfer-config.engine_id', name)}: several endpoints would have "
                "it, and peers are told apart by it"
            )


def _buffer_device(view: View) -> Iterator[str]:
    allowed = DEVICES.get(view.config.engine.device, ())
    for role in _nixl(view):
        device = role.transfer.get("kv_buffer_device")
        if device is not None and allowed and device not in allowed:
            yield (
                f"{role.at('kv-transfer-config.kv_buffer_device', device)}: on "
                f"{view.config.engine.device} NIXL takes {' or '.join(allowed)}"
            )


def _backends(view: View) -> Iterator[str]:
    for role in _nixl(view):
        extra = role.nested("kv-transfer-config", "kv_connector_extra_config")
        named = extra.get("backends") if isinstance(extra, Mapping) else None
        if not isinstance(named, (list, tuple)):
            continue
        where = role.at("kv-transfer-config.kv_connector_extra_config.backends", named)
        if not named:
            yield f"{where}: without a backend nothing is transferred"
        for name in named:
            meant = near(str(name).upper(), PLUGINS)
            if name not in PLUGINS and meant:
                yield f"{where}: nixl has no {name}; did you mean {meant}?"


EXTRA = "+flags.all.kv-transfer-config.kv_connector_extra_config"
ENTRIES = (
    KnownBad(
        name="engine-id-shared",
        level="error",
        check=_engine_id,
        remedy="leave engine_id out: every engine makes its own",
        reference="vLLM 0.33.0 config/kv_transfer.py, engine_id; v1/engine/core.py adds the rank",
        example=("+flags.all.kv-transfer-config.engine_id=mine",),
        near_miss=("+flags.roles.decode.kv-transfer-config.engine_id=mine",),
    ),
    KnownBad(
        name="kv-buffer-device",
        level="error",
        check=_buffer_device,
        remedy="leave kv_buffer_device out, or name one of these",
        reference="vLLM 0.33.0 distributed/kv_transfer/kv_connector/v1/nixl/base_worker.py:365",
        example=("+flags.all.kv-transfer-config.kv_buffer_device=gpu",),
        near_miss=("+flags.all.kv-transfer-config.kv_buffer_device=cuda",),
    ),
    KnownBad(
        name="nixl-backend",
        level="error",
        check=_backends,
        remedy="name NIXL's plug-ins as it does, as in [UCX]",
        reference="nixl 1.5.1, plug-ins; vLLM 0.33.0 nixl/base_worker.py:261",
        example=(f"{EXTRA}={{backends:[ucx]}}",),
        near_miss=(f"{EXTRA}={{backends:[UCX,GDS]}}",),
    ),
)
