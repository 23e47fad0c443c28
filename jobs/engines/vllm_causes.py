"""What vLLM, NIXL, UCX, NCCL, CUDA and the model hub say when they fail, and what it means.

Texts as in vLLM 0.26-0.33 (read from 0.32.0's package where quoted by it) and its public issues.
To add a rule: words, meaning, what to try, a line they are in; the tests take it from here.
"""

from __future__ import annotations

from jobs.engines.dialect import FOLLOWS, REQUEST, Cause, rule

COMPILED = (
    r"(?:torch_compile_cache|torch_aot_compile|torchinductor_|\.triton/|/triton/|/flashinfer/"
    r"|\.cache/vllm|deep_gemm|\.tilelang|torch_extensions)"
)
"""Parts of the paths of compiled kernels and graphs."""
GONE = r"FileNotFoundError|FileExistsError|Stale file handle|JSONDecodeError|EOFError"

MEMORY: tuple[Cause, ...] = (
    rule(
        r"CUDA out of memory|torch\.(?:cuda\.)?OutOfMemoryError|CUDA error: out of memory",
        "the GPU's memory is full",
        "lower gpu-memory-utilization, max-num-seqs or max-num-batched-tokens",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total",
    ),
    rule(
        r"Free memory on device .*is less than desired GPU memory utilization",
        "another process holds GPU memory, or gpu-memory-utilization is too high",
        "look with nvidia-smi what is left over on the node, or lower gpu-memory-utilization",
        "ValueError: Free memory on device cuda:0 (12.3/184.3 GiB) on startup is less than desired "
        "GPU memory utilization (0.92, 169.5 GiB).",
    ),
    rule(
        r"No available memory for the cache blocks",
        "no GPU memory is left for the KV cache",
        "raise gpu-memory-utilization, or lower max-num-batched-tokens or the graph sizes",
        "ValueError: No available memory for the cache blocks. Try increasing "
        "`gpu_memory_utilization` when initializing the engine.",
    ),
    rule(
        r"larger than the available KV\s+cache|KV cache is needed, which is larger",
        "the KV cache cannot hold one request of max-model-len",
        "lower max-model-len to isl + osl, or raise gpu-memory-utilization",
        "ValueError: To serve at least one request with the model's max seq len (262144), 30.0 GiB "
        "KV cache is needed, which is larger than the available KV cache memory (12.5 GiB).",
    ),
    rule(
        r"exceeds available Mamba cache",
        "more sequences than blocks for recurrent state",
        "lower --max-num-seqs or use a 16-bit SSM cache (mamba-ssm-cache-dtype: bfloat16)",
        "ValueError: max_num_seqs (1024) exceeds available Mamba cache blocks (665).",
    ),
    rule(
        r"assert num_cache_lines >= batch",
        "more running sequences than state slots in the GDN kernel",
        "lower --max-num-seqs, or use a release with the fix",
        "    assert num_cache_lines >= batch",
    ),
)

START: tuple[Cause, ...] = (
    rule(
        r"Timed out waiting for (?:new )?engine|engine.*ready timeout",
        "loading took longer than VLLM_ENGINE_READY_TIMEOUT_S, which is budgets.start_s",
        "raise budgets.start_s, or stage the weights on a faster file system",
        "TimeoutError: Timed out waiting for engines to send initial message on input socket.",
    ),
    rule(
        r"corrupted compilation artifact",
        "engines share a compile cache and spoilt it",
        "give every process its own VLLM_CACHE_ROOT on local disk, and remove the spoilt one",
        "RuntimeError: vLLM failed to compile the model ... corrupted compilation artifact.",
    ),
    rule(
        rf"(?:{GONE}).*{COMPILED}|{COMPILED}.*(?:{GONE}|file too short)|InductorError: (?:EOFError|"
        r"UnpicklingError)",
        "engines share a compile cache: a file of it went, or was not whole, while another wrote",
        "give every process its own cache on local disk (cluster.cache_dir does), remove this one",
        "FileNotFoundError: [Errno 2] No such file or directory: '/home/u/.triton/cache/AB/tmp.1'"
        " -> '/home/u/.triton/cache/AB/k.json'",
    ),
    rule(
        r"unrecognized arguments|invalid choice: ",
        "this engine release does not know one of the flags, or not that value",
        "compare flags with engine.release; the launcher checks them for the release it is told",
        "vllm serve: error: unrecognized arguments: --gdn-prefill-backend",
    ),
    rule(
        r"greater than the derived max_model_len",
        "max-model-len is beyond what the model was trained for",
        "lower flags.all.max-model-len to the model's max_position",
        "ValueError: User-specified max_model_len (300000) is greater than the derived "
        "max_model_len (max_position_embeddings=262144)",
    ),
    rule(
        r"Configuration mismatch detected for engine",
        "data parallel ranks of one endpoint were started with different settings",
        "every process of an endpoint needs the same image, flags and environment",
        "RuntimeError: Configuration mismatch detected for engine 4. All DP workers must have",
    ),
    rule(
        r"Ninja build failed|Could not find nvcc|nvcc fatal|ptxas fatal|CUDA_HOME.*not set",
        "a kernel had to be compiled on the node and could not be",
        "use an image with the CUDA toolkit, or one whose kernels are built ahead",
        "RuntimeError: Ninja build failed. Ninja output: ...",
    ),
    rule(
        r"expandable_segments.*(?:not supported|incompatible|cannot)",
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments does not go with a KV connector",
        "remove it, or add enable-cumem-allocator",
        "ValueError: expandable_segments is not supported with a KV connector",
    ),
)

MODEL: tuple[Cause, ...] = (
    rule(
        r"GatedRepoError|gated repo|Access to model .* is restricted|401 Client Error",
        "the model is gated on the hub, and jobs work offline",
        "stage the files and name the folder in model.path",
        "huggingface_hub.errors.GatedRepoError: 401 Client Error. Access to model x is restricted",
    ),
    rule(
        r"OfflineModeIsEnabled|LocalEntryNotFoundError|couldn't connect to 'https://huggingface"
        r"|Cannot reach https://huggingface|outgoing traffic has been disabled",
        "a file of the model is not on this node, and jobs work offline",
        "stage model and tokenizer completely and name the folder in model.path",
        "huggingface_hub.errors.LocalEntryNotFoundError: Cannot find the requested files in the "
        "disk cache and outgoing traffic has been disabled.",
    ),
    rule(
        r"does not appear to have a file named|Can't load the (?:configuration|tokenizer|model)"
        r"|Repo id must|Cannot find any model weights|Invalid repository ID or local directory",
        "model.path lacks a file, or is not seen on this node",
        "compare the folder with the hub's file list; in a container it must be mounted",
        "OSError: /models/x does not appear to have a file named config.json.",
    ),
    rule(
        r"SafetensorError|Error while deserializing header|InvalidHeader|MetadataIncompleteBuffer",
        "a weight file is torn or of another kind",
        "copy it again and compare its checksum",
        "safetensors_rust.SafetensorError: Error while deserializing header: "
        "MetadataIncompleteBuffer",
    ),
    rule(
        r"No such file or directory: '[^']*\.(?:safetensors|json|model|bin)'",
        "a file of the model is missing on this node",
        "stage the model completely, or correct model.path",
        "FileNotFoundError: [Errno 2] No such file or directory: '/models/x/model-07.safetensors'",
    ),
    rule(
        r"model type .* but Transformers does not recognize|Model architectures .* not supported",
        "this release does not know the model's architecture",
        "use a newer engine release or image",
        "ValueError: Model architectures ['Qwen3_5MoeForCausalLM'] are not supported for now.",
    ),
)

GPU: tuple[Cause, ...] = (
    rule(
        r"cuMemImportFromShareableHandle.*NOT_PERMITTED",
        "another node's memory may not be imported: the nodes are of different NVLink domains",
        "ask for nodes of one domain (cluster.segment), and look at the IMEX daemon's node list",
        "cuMemImportFromShareableHandle failed: CUDA_ERROR_NOT_PERMITTED",
    ),
    rule(
        r"CUDA_ERROR_NOT_PERMITTED|CUDA error: operation not permitted"
        r"|Cuda failure (?:800|'operation not permitted')",
        "no NVLink fabric access: the IMEX channel is missing",
        "/dev/nvidia-caps-imex-channels/channel0 must be on the node and in the container",
        "[CUDA_ERROR_NOT_PERMITTED] operation not permitted in expression cuMemCreate(&handle,",
    ),
    rule(
        r"uncorrectable ECC|NVRM: Xid|\bXid \(|CUDA error: unspecified launch failure"
        r"|GPU is lost|fallen off the bus|nvlink.{0,20}error",
        "a GPU or its NVLink has a hardware fault",
        "leave the node out (cluster.exclude) and tell the site; dmesg has the Xid",
        "RuntimeError: CUDA error: uncorrectable ECC error encountered",
    ),
    rule(
        r"illegal memory access|device-side assert|misaligned address",
        "a GPU kernel failed",
        "run once with CUDA_LAUNCH_BLOCKING=1; try another back end or release",
        "RuntimeError: CUDA error: an illegal memory access was encountered",
    ),
    rule(
        r"driver version is insufficient|driver on your system is too old"
        r"|forward compatibility was attempted",
        "the node's GPU driver is too old for the image's CUDA",
        "use an image built for this driver, or nodes with a newer one",
        "RuntimeError: The NVIDIA driver on your system is too old (found version 12080).",
    ),
    rule(
        r"no kernel image is available for execution",
        "the image has no kernels for this GPU",
        "use an image built for this GPU's compute capability (GB200: sm_100)",
        "RuntimeError: CUDA error: no kernel image is available for execution on the device",
    ),
    rule(
        r"No CUDA GPUs are available|no CUDA-capable device|Failed to infer device type"
        r"|libcuda\.so\.1: cannot open|devices? (?:is|are|is/are) busy or unavailable",
        "the process sees no usable GPU",
        "look at --gpus-per-node, CUDA_VISIBLE_DEVICES, and the container's GPU support",
        "RuntimeError: No CUDA GPUs are available",
    ),
)

TRANSFER: tuple[Cause, ...] = (
    rule(
        r"(?i:(?:local|remote) block size \d+ .{0,40}divisible by (?:the )?(?:local|remote))",
        "prefill and decode chose different KV block sizes",
        "set the same --block-size on both roles",
        "AssertionError: Local block size 16 is not divisible by remote block size 32",
    ),
    rule(
        r"compatibility hash mismatch|compatibility.{0,20}mismatch",
        "prefill and decode differ in image, model string, KV dtype or attention back end",
        "both roles need the same image, model.path and kv-cache-dtype",
        "RuntimeError: NIXL compatibility hash mismatch. Local: 74708be8, Remote: 1f00ba11.",
    ),
    rule(
        r"check_nixl_version|requires nixl|NIXL is not available",
        "NIXL is missing in the image, or of another version than this engine needs",
        "use an image in which vLLM and NIXL belong together",
        "RuntimeError: NIXL is not available",
    ),
    rule(
        r"requires (?:the )?DS (?:conv )?(?:state )?layout",
        "a hybrid model's state crosses NIXL in layout DS only",
        "set model.env.VLLM_SSM_CONV_STATE_LAYOUT=DS, for both roles",
        "AssertionError: 3-read Mamba conv transfer requires DS conv state layout.",
    ),
    rule(
        r"NotImplementedError.{0,80}DS (?:conv|layout)|DS conv state with num_accepted_tokens",
        "layout DS does not go with this speculative decoding",
        "switch speculative decoding off, or change mamba-cache-mode",
        "NotImplementedError: DS conv state with num_accepted_tokens > 1 must be handled by",
    ),
    rule(
        r"engine[_ ]id.{0,20}(?:mismatch|does not match)",
        "a side channel is left on localhost, so that decode talks to itself",
        "VLLM_NIXL_SIDE_CHANNEL_HOST must be each node's own address",
        "RuntimeError: Remote NIXL agent engine ID mismatch. Expected a_dp0, received b_dp0.",
    ),
    rule(
        r"ibv_reg_mr|memory registration.{0,40}fail|RLIMIT_MEMLOCK|mlock.{0,20}fail",
        "memory could not be registered for RDMA",
        "the site's memlock limit must be unlimited in jobs (PropagateResourceLimits)",
        "UCX  ERROR ibv_reg_mr(address=0x7f00, length=1073741824) failed: Cannot allocate memory : "
        "Please set max locked memory (ulimit -l) to 'unlimited'",
    ),
    rule(
        r"no (?:active messages|remote registered memory) transport|Destination is unreachable"
        r"|no auxiliary transport|network device '[^']+' is not available",
        "UCX has no way between these nodes with the transports it was given",
        "look at UCX_TLS and UCX_NET_DEVICES: the named devices must exist on every node",
        "UCX  ERROR no remote registered memory access transport to node3: Destination is "
        "unreachable",
    ),
    rule(
        r"NIXL_ERR_BACKEND|nixlBackendError",
        "NIXL's transport failed",
        "UCX_LOG_LEVEL=info tells why; on GB200 NVLink needs enable-cumem-allocator",
        "nixl._bindings.nixlBackendError: NIXL_ERR_BACKEND",
    ),
    rule(
        r"handshake_(?:setup_)?failed",
        "decode could not talk to prefill's side channel",
        "look at the prefill worker first; VLLM_NIXL_SIDE_CHANNEL_HOST must be its node's address",
        "NIXL transfer failure: handshake_setup_failed",
        REQUEST,
    ),
    rule(
        r"Releasing expired KV blocks|Potentially invalid KV blocks",
        "the KV lease ran out before decode read the blocks",
        "raise kv_lease_duration in kv-transfer-config, or lower the concurrency",
        "Releasing expired KV blocks for request r-101 which were retrieved by 0 remote worker(s)",
        REQUEST,
    ),
    rule(
        r"maximum context length is \d+",
        "requests are longer than max-model-len",
        "max-model-len must be at least the longest isl + osl",
        "This model's maximum context length is 4096 tokens. However, you requested 1024 output",
        REQUEST,
    ),
)

RANKS: tuple[Cause, ...] = (
    rule(
        r"Unable to find address for: \^",
        "GLOO_SOCKET_IFNAME takes device names only, no exclusion list such as ^lo",
        "name the device that reaches the other nodes, for each site in cluster.env",
        "ValueError: Unable to find address for: ^lo,docker",
    ),
    rule(
        r"Unable to find address for: ",
        "GLOO_SOCKET_IFNAME names a device that this node does not have",
        "name the device that reaches the other nodes; ip -br addr on the node lists them",
        "RuntimeError: [enforce fail at gloo/transport/tcp/device.cc:83] ifa != nullptr. Unable to "
        "find address for: bond0",
    ),
    rule(
        r"Using the loopback address as fallback|Gloo connectFullMesh failed"
        r"|gloo/transport.*\[(?:127\.\d+\.\d+\.\d+|::1)\]",
        "Gloo fell back to loopback",
        "set GLOO_SOCKET_IFNAME to the device between the nodes",
        "[rank1] Gloo connectFullMesh failed with connect timeout",
    ),
    rule(
        r"NCCL WARN .*(?:no such device|ibv_open_device)|Bootstrap : no socket interface",
        "NCCL found no usable network device",
        "look at NCCL_SOCKET_IFNAME and NCCL_IB_HCA; NCCL_DEBUG=INFO lists what it tried",
        "node3:77:88 [0] NCCL WARN Bootstrap : no socket interface found",
    ),
    rule(
        r"unhandled (?:system|cuda) error|ncclSystemError|ncclUnhandledCudaError|ncclInternalError",
        "NCCL failed between the ranks",
        "NCCL_DEBUG=WARN names the call; without an earlier error suspect IMEX, memlock, network",
        "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp, unhandled system "
        "error (run with NCCL_DEBUG=INFO for details)",
    ),
    rule(
        r"Watchdog caught collective operation timeout|collective operation timeout",
        "a rank waited in vain for the others in a collective operation",
        "look for the rank that stopped first, by its process or its log's last time",
        "[rank3]: Watchdog caught collective operation timeout: WorkNCCL(SeqNum=12, Op",
        FOLLOWS,
    ),
    rule(
        r"Connection (?:closed by peer|reset by peer|was likely closed)|Failed to recv, got 0 bytes"
        r"|ncclRemoteError|REMOTE_DISCONNECT|Socket closed|Broken pipe",
        "another rank went away first",
        "look for the process that ended earliest",
        "[Gloo] Failed to recv, got 0 bytes. Connection was likely closed. Did the remote process "
        "go down?",
        FOLLOWS,
    ),
    rule(
        r"Endpoint timeout|Connection reset by remote peer|Transport retry count exceeded",
        "UCX lost its peer",
        "look for the process that ended earliest; without one, for a link that went down",
        "UCX  ERROR mlx5_0: Transport retry count exceeded on mlx5_0:1/RoCE",
        FOLLOWS,
    ),
    rule(
        r"EngineDeadError|EngineCore encountered an issue",
        "its engine process (EngineCore) ended before it",
        "look further up in the same log for that process's own error; without one it was killed: "
        "dmesg and sacct tell of out-of-memory",
        "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack "
        "trace (above) for the root cause.",
        FOLLOWS,
    ),
    rule(
        r"See (?:root cause|stack trace).{0,10} (?:above|for)|Failed core proc",
        "an engine process failed before this",
        "look further up in the same log",
        "RuntimeError: Engine core initialization failed. See root cause above.",
        FOLLOWS,
    ),
    rule(
        r"No (?:available|healthy) (?:workers?|prefill|decode)|Unhealthy servers"
        r"|Timeout waiting for workers? to become healthy|is unhealthy",
        "the router has no healthy worker",
        "look for the worker that stopped answering",
        "ERROR vllm_router_rs: Timeout waiting for workers to become healthy",
        FOLLOWS,
    ),
)

CAUSES = (*MEMORY, *START, *MODEL, *GPU, *TRANSFER, *RANKS)
