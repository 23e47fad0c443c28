"""Text of `nvidia-smi -q` for tests, and a program on PATH that prints it.

The form is that of driver 580.159.04 on an H200, idle and with a process holding memory; the fabric
values are those that public reports show for GB200 (kubernetes-sigs/dra-driver-nvidia-gpu#626,
Azure/azhpc-images#506).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

UUID = "dc6e40c4-d722-4357-9ba6-5291dd461278"
ZEROS = "00000000-0000-0000-0000-000000000000"

HEAD = """
==============NVSMI LOG==============

Timestamp                                              : Sun Nov 29 20:31:33 2026
Driver Version                                         : {driver}
CUDA Version                                           : 13.0

Attached GPUs                                          : {count}
"""

GPU = """GPU {bus}
    Product Name                                       : NVIDIA GB200
    Product Brand                                      : NVIDIA
    MIG Mode
        Current                                        : {mig}
        Pending                                        : Disabled
    GPU UUID                                           : GPU-7384407f-891b-985e-ebe3-eeaca06fd471
    Platform Info
        Chassis Serial Number                          : N/A
        GPU Fabric GUID                                : N/A
    GPU Recovery Action                                : {recovery}
    PCI
        Bus                                            : 0x00
    FB Memory Usage
        Total                                          : 189471 MiB
        Reserved                                       : 616 MiB
        Used                                           : {used} MiB
        Free                                           : 188855 MiB
    BAR1 Memory Usage
        Total                                          : 262144 MiB
        Used                                           : 1 MiB
        Free                                           : 262143 MiB
    ECC Errors
        Volatile
            SRAM Correctable                           : 0
            SRAM Uncorrectable Parity                  : 0
            SRAM Uncorrectable SEC-DED                 : 0
            DRAM Correctable                           : 17
            DRAM Uncorrectable                         : {uncorrectable}
        Aggregate
            SRAM Correctable                           : 0
            DRAM Uncorrectable                         : 5
            SRAM Threshold Exceeded                    : No
    Remapped Rows
        Correctable Error                              : 0
        Uncorrectable Error                            : 0
        Pending                                        : {pending}
        Remapping Failure Occurred                     : No
        Bank Remap Availability Histogram
            Max                                        : 3072 bank(s)
    Fabric
        State                                          : {state}
        Status                                         : {status}
        CliqueId                                       : {clique}
        ClusterUUID                                    : {cluster}
        Health
            Summary                                    : {health}
            Bandwidth                                  : Full
            Route Recovery in progress                 : False
    Processes{processes}
    Capabilities
        EGM                                            : disabled
"""

NO_PROCESS = "                                          : None"
PROCESS = """
        GPU instance ID                   : N/A
        Compute instance ID               : N/A
        Process ID                        : {pid}
            Type                          : C
            Name                          : python3
            Used GPU Memory               : 3590 MiB"""


@dataclass(kw_only=True)
class Smi:
    """One node's GPUs; what is not said is as on an idle and healthy GB200 tray."""

    count: int = 4
    driver: str = "580.159.04"
    used: int = 0
    pids: tuple[int, ...] = ()
    mig: str = "Disabled"
    recovery: str = "None"
    uncorrectable: int = 0
    pending: str = "No"
    state: str = "Completed"
    status: str = "Success"
    clique: str = "32766"
    cluster: str = UUID
    health: str = "Healthy"

    def text(self) -> str:
        """What `nvidia-smi -q` prints."""
        head = HEAD.format(driver=self.driver, count=self.count)
        processes = "".join(PROCESS.format(pid=pid) for pid in self.pids) or NO_PROCESS
        fields = {**vars(self), "processes": processes}
        buses = [f"00000{index + 8:03x}:01:00.0" for index in range(self.count)]
        return head + "".join(GPU.format(bus=bus, **fields) for bus in buses)

    def install(self, folder: Path) -> Path:
        """A stand-in `nvidia-smi` in `folder`, to be put first on PATH."""
        folder.mkdir(parents=True, exist_ok=True)
        program = folder / "nvidia-smi"
        program.write_text(f"#!/bin/sh\ncat <<'END'\n{self.text()}\nEND\n")
        program.chmod(0o755)
        return folder
