"""The cluster's configuration files as text; nothing here touches the machine."""

from tests.cluster.install import library_dir
from tests.cluster.spec import HOST_ADDRESS, ClusterSpec

DATABASE = "slurm_acct_db"


def slurm_conf(spec: ClusterSpec, *, user: str, hostname: str, cgroups: bool) -> str:
    """slurm.conf for this shape."""
    d = spec.directory
    host = HOST_ADDRESS if spec.namespaces else "127.0.0.1"
    lines = [
        "ClusterName=nvl72test",
        f"SlurmctldHost={hostname}({host})",
        f"SlurmctldPort={spec.port}",
        f"SlurmUser={user}",
        f"SlurmdUser={user}",
        "AuthType=auth/munge",
        # A requeued job waits cred_expire + 1 s: 121 s by default.
        f"AuthInfo=socket={spec.munge_socket},cred_expire=5",
        "CredType=cred/munge",
        f"PluginDir={library_dir(spec.prefix)}/slurm-wlm",
        "MpiDefault=none",
        "MailProg=/bin/true",
        f"StateSaveLocation={d}/state",
        f"SlurmdSpoolDir={d}/spool/%n",
        f"SlurmctldPidFile={d}/slurmctld.pid",
        f"SlurmdPidFile={d}/slurmd.%n.pid",
        f"SlurmctldLogFile={d}/log/slurmctld.log",
        f"SlurmdLogFile={d}/log/slurmd.%n.log",
        "SlurmdDebug=info",
        "SlurmctldDebug=info",
        "SlurmdParameters=config_overrides",
        f"ProctrackType=proctrack/{'cgroup' if cgroups else 'linuxproc'}",
        "TaskPlugin=task/none",
        "JobAcctGatherType=jobacct_gather/linux",
        "JobAcctGatherFrequency=5",
        "SelectType=select/cons_tres",
        "SelectTypeParameters=CR_Core_Memory",
        "DefMemPerNode=100000",
        "GresTypes=gpu",
        "TopologyPlugin=topology/block",
        "ReturnToService=2",
        "SlurmdTimeout=20",
        "SlurmctldTimeout=10",
        "MessageTimeout=10",
        "TCPTimeout=2",
        "InactiveLimit=0",
        "KillWait=5",
        "UnkillableStepTimeout=60",
        "MinJobAge=600",
        "MaxArraySize=2001",
        "RequeueExit=99",
        "SchedulerType=sched/backfill",
        "SchedulerParameters=batch_sched_delay=0,sched_interval=2,sched_min_interval=50000,"
        "bf_interval=2,bf_min_age_reserve=0",
        "JobCompType=jobcomp/filetxt",
        f"JobCompLoc={d}/log/jobcomp.txt",
        *_accounting(spec, host),
        f"NodeName=node[1-{spec.nodes}] {_addresses(spec)} CPUs={spec.cpus} Sockets=2 "
        f"CoresPerSocket={spec.cpus // 2} ThreadsPerCore=1 RealMemory={spec.memory_mb} "
        f"Gres=gpu:gb200:{spec.gpus} State=UNKNOWN",
        "PreemptType=preempt/partition_prio",
        "PreemptMode=REQUEUE",
        "PartitionName=gb200 Nodes=ALL Default=YES MaxTime=INFINITE DefaultTime=60 State=UP",
        # Its jobs take nodes from those of gb200, which go back into the queue.
        "PartitionName=urgent Nodes=ALL MaxTime=60 DefaultTime=5 PriorityTier=2 PreemptMode=OFF",
    ]
    return "\n".join(lines) + "\n"


def _accounting(spec: ClusterSpec, host: str) -> list[str]:
    if not spec.accounting:
        return ["AccountingStorageType=accounting_storage/none"]
    return [
        "AccountingStorageType=accounting_storage/slurmdbd",
        f"AccountingStorageHost={host}",
        f"AccountingStoragePort={spec.dbd_port}",
        # Without the socket slurmctld hangs: it looks for munge's default one.
        f"AccountingStoragePass={spec.munge_socket}",
        "AccountingStorageTRES=gres/gpu",
        "AccountingStoreFlags=job_comment,job_env,job_script",
    ]


def _addresses(spec: ClusterSpec) -> str:
    if spec.namespaces:
        prefix = spec.address("node1").rpartition(".")[0]
        return f"NodeAddr={prefix}.[1-{spec.nodes}] Port={spec.port + 1}"
    first = spec.port + 101
    return f"NodeHostname=localhost NodeAddr=127.0.0.1 Port=[{first}-{first + spec.nodes - 1}]"


def slurmdbd_conf(spec: ClusterSpec, *, user: str) -> str:
    """slurmdbd.conf: the database listens on the loopback, one port above slurmdbd."""
    d = spec.directory
    lines = [
        "AuthType=auth/munge",
        f"PluginDir={library_dir(spec.prefix)}/slurm-wlm",
        f"AuthInfo=socket={spec.munge_socket}",
        "DbdHost=localhost",
        f"DbdPort={spec.dbd_port}",
        f"SlurmUser={user}",
        f"PidFile={d}/slurmdbd.pid",
        f"LogFile={d}/log/slurmdbd.log",
        "StorageType=accounting_storage/mysql",
        "StorageHost=127.0.0.1",
        f"StoragePort={spec.dbd_port + 1}",
        "StorageUser=slurm",
        "StoragePass=slurm",
        f"StorageLoc={DATABASE}",
    ]
    return "\n".join(lines) + "\n"


def gres_conf(spec: ClusterSpec) -> str:
    """GPUs as device files; Slurm wants character devices, and a link to one will do."""
    return f"Name=gpu Type=gb200 File={spec.directory}/dev/nvidia[0-{spec.gpus - 1}]\n"


def topology_conf(spec: ClusterSpec) -> str:
    """One block a rack."""
    n = spec.rack_nodes
    blocks = [
        f"BlockName=rack{rack + 1} Nodes=node[{rack * n + 1}-{(rack + 1) * n}]\n"
        for rack in range(spec.racks)
    ]
    return "".join(blocks) + f"BlockSizes={n}\n"


def cgroup_conf() -> str:
    """Cgroups only to find and kill every process of a step; they limit nothing."""
    return (
        "CgroupPlugin=cgroup/v1\nCgroupMountpoint=/sys/fs/cgroup\nConstrainCores=no\n"
        "ConstrainDevices=no\nConstrainRAMSpace=no\n"
    )


def hosts(spec: ClusterSpec, hostname: str) -> str:
    """/etc/hosts as the nodes see it."""
    entries = [f"{spec.address(name)} {name}\n" for name in spec.node_names]
    return f"127.0.0.1 localhost\n{HOST_ADDRESS} {hostname}\n" + "".join(entries)


def resolv_conf() -> str:
    """No name server: the machine's is out of a node's reach, and each question would wait 10 s."""
    return "nameserver 127.0.0.1\n"
