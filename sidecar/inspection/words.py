"""The words that errors are told in: English, HTTP, JSON, Python, Go, Rust, CUDA, and those of model servers and APIs.

None of them is a name of a person or a place, and none says what somebody asked or was answered: a text of which only
these are left tells where something broke. Words are in lower case; what they are compared with is, too.
"""

from __future__ import annotations

from typing import Final

_LISTED: Final = """
a abi able abort aborted aborting aborts about above absolute accelerate accept acceptable accepted accepting accepts
access accessible according account accounts acquire action actions active actual actually adapters adaptive add added
adding additional addr address adjacent adjust admin advanced aead afd after again against agent ai aiohttp alert
algorithm algorithms alias aliases align aligned alignment alive all allgather allocate allocated allocates allocating
allocation allow allowed allowing allows allreduce alltoall almost along alpn already also alternative alternatives
always ambiguous amd amount an and annotation annotations another answer anthropic any anymore anyway anywhere apache
api apis app appear appears append appended appending application applied apply appropriate approved apps arbitrary
archive are aren arg args argument arguments around array arrays arrived artifact as ascii asgi assert asserted
assertion asserts assign assigned assigning assignment assistant assumed assuming async asynchronous asyncio at atoi
attached attempt attempted attempting attempts attn attr attribute attributeerror attributes attrs audience audio auth
authenticate authenticated authenticates authenticating authentication authority authorization automatic automatically
autoregressive available avoid avx await awaitable awq aws axis azure back backend backends backlog backoff backslash
backtick backward bad badly balance bare base base64 based bases bash basic batch batched batches be bearer because
become bedrock been before begin beginning begins behavior behaviors behind being below beta between beyond bf16
bfloat16 bigint billed billing bin binaries binary bind binding bit bits bitsandbytes blank blas blob block blocked
blocking blocks bodies body bom bool boolean booleans bos both boto boto3 botocore bound boundaries boundary bounded
bounds bpe br bracket brackets branch break breaking breakpoint breaks broadcast broadcasting broke broken
brokenpipeerror browser browsers bson bucket buckets budget budgets buffer buffered buffering buffers bug bugs build
building builds built bulk bundle bus busy but by byte bytearray bytepair bytes ca cache cached caches calculate
calculating call callable callback callbacks called caller callers calling calls can cancel canceled cancellation
cancelled cancellederror cancelling cancels candidate candidates cannot capabilities capable capacity capture captured
case cases cast categories category caught cause caused causes cc cell cert certain certificate certificates certs cfg
cgroup chain chains change changed changes changing channel channels char character characters charmap chars charset
chat chatcompletion check checked checking checkpoint checkpointing checks child choice choices choose chunk chunked
chunks ci cipher ciphers circular claims clamping class classes clean cleaning clear cleared cli click clickhouse
client clients clip close closed closes closing cloudflare cmd cn code codec codepoint codepoints cohere collect
collected collection collective collector colon column columns combination combine combined combining comma command
commands comment comments common compare comparing compat compatibility compatible compile compiled compiler compiling
complete completed completes completing completion completions complex component components compress compressed
compression compute computed computes computing concat concatenate concatenated concurrency concurrent conda condition
config configs configuration configurations configure configured configuring confirm conflict conflicting conflicts
conn connect connected connecting connection connectionerror connections connector connects consider considered
considers consistent constant constants constraint constraints construct constructed constructing constructor consult
consume consumed consumes consuming contact contacting contain contained container containers containing contains
content contents context contexts contiguous continuation continue continued continues continuing contract contracts
control conv conversation conversion convert converted converting cookie cookies copy copying core coroutine
coroutines correct correspond corresponding corresponds corrupt corrupted corrupting corruption corrupts cors could
couldn count counter cpu cr crash crashed crashes crashing crc create created creates creating creation credential
credentials credit credits criteria critical crl crlf cs csp csrf csv ctrl ctx cublas cuda cudagraph cudnn cuinit
cumem cumulative current currently cursor custom cutlass cutoff cycles dag dalle data database dataclass date datetime
day dead deadline deadlines dealloc debug debugging decimal declaration declared decode decoded decodes decoding
decompression decorator decrease decrypt decrypted deep deepseek deepspeed default defaults defer define defined
defines defining definition definitions deflate delay delayed delaying delays delete deleted deleting delimiter
deliver delivered delivering delivers delta deltas denied denies deny denying depend dependencies dependency depends
deployment deployments deprecate deprecated deprecation deprecations depth dequantize dequantized deque dequeued
derive describing description descriptor descriptors deserialise deserialization deserialize deserialized destination
destinations detached detailed details detect detected detecting detects determine determined detokenization
detokenize detokenizer dev developer developers device devices dial dialing dict dictionaries dictionary dicts did
didn died diff differ difference different differs digest digests digit digits dim dimension dimensional dimensions
dims dir directly directories directory disable disabled disables disabling disallowed discarding disconnect
disconnected disconnecting disconnects discovery disk dispatcher dist distributed dma dns do doc docker dockerfile
docs docstring document documentation documents does doesn dom domain don done double down downgrade download
downloaded downloading drain drained draining drains driver drop dropped dropping drops dsa dtype dtypes due dump
dumping dumps duplicate duplicated duration durations during dying dylib dynamic each eager earlier early ebpf ec ecc
econnaborted econnrefused econnreset edge eexist effect effects ehostunreach einsum einval eio eisdir either elapsed
element elements eligible email embeddings emfile emit emits emitted emitter emitting empty enable enabled
enametoolong encode encoded encoder encodes encoding encodings encountered encrypted encryption end ended ending
endpoint endpoints ends enetunreach enforce engine engines enoent enomem enospc enotconn enotdir enotfound enough
enqueue enqueued enqueues enqueuing ensure enter entered entirely entity entries entry enum env environment eof
eoferror eofs eos eperm epipe epoll equal equivalent erofs errgroup errno error errorf errors escape escaped escapes
esrch establish established etag etc etcd etimedout evaluate evaluation even event events every evict evicted evicting
evicts exact exactly example exceed exceeded exceeding exceeds except excepted exception exceptions exchange exchanges
exclude excluded excludes excluding exclusive exe exec executable execute executed executemany executes executing
execution executor exhaust exhausted exhausting exhausts exist existing exists exit exited exiting exits expand expect
expectation expected expecting expects expensive experiment experimental expert experts expiration expire expired
expires expiring explicit explicitly exponent exporter expose exposing expression expressions ext extend extended
extending extension extensions external extra extract extracted fabric factory fail failed failing fails failure
failures fall fallback falling false family fast fastapi fasttext fatal fault faults fbgemm fds feature features fetch
fetched fetches fetching few ffi ffn field fields fifo file filename filenames filenotfounderror files filesystem fill
filter final finally find finding fine finetune finetuned finetuning finish finished finishes finishing finite
finreason first fix fixed fixing flag flags flashattention flashinfer flatten float floating floats flow flush flushed
flushes flushing fmt folder follow followed following follows footer for forbidden force forced forget fork form
format formats forms forward forwarded forwarding forwards found four fp fp16 fp32 fp4 fp8 fragment fragmentation
fragments frame frames free freeze frequency from frozen fs ftp full fully func funcs function functional functions
further future gap garbage gateway gateways gather gating gc gcc gcp gelu gemini gemm gemv general generate generated
generates generating generation generations generator generatorexit generators generic get getaddrinfo gethostbyname
getting gguf gib gil github gitlab give given giving glibc global glog gloo go goaway goes golang gone google
goroutine goroutines got gpt gptq gpu gpus gqa gradient grammar graph greater groq group groups grpc guid guide guides
gunicorn gzip h2 h2c h3 had handle handled handler handlers handles handling handshake handshakefailure hang hanged
hanging hangs hangup happen happened haproxy hard has hash hashable hashes hasn have hbm head header headers healthy
held help here hex hexadecimal hf higher hint hints history hold holding holds hook hooks hop host hostname hosts how
however hpack hpackerror hsts html http http1 http2 http3 httpcore httperror https httpx hugging huggingface hung
hyphen id identifier identifiers identities identity idle ids ieee ietf if ignore ignored ignoring illegal image
images immediately immutable impacting impl implement implementation implemented implicit implicitly import imported
importerror importing imports impossible improper in incident include included including incoming incompatible
incomplete inconsistent incorrect increase increasing indefinitely independent index indexerror indexes indicate
indices indirect inductor inf infer inferred infiniband infinity inflight info information informational init initial
initialization initialize initialized initializer initializing initially inline inner inode inodes input inputs
insecure insert inside inspect install installed installing installs instance instanceof instances instantiate
instantiated instead instruction instructions insufficient int int16 int32 int4 int64 int8 integer integers
integration intended intentionally interface intermediate internal interpret interpreted interpreter interrupt
interrupted interrupting interrupts interval intervals into introspection invalid invalidated invocation invoke
invoked invokes invoking io ioerror ip ipc ipv4 ipv6 is isn iso issue issuer issues it item items iter iterable
iterables iteration iterations iterator its itself java javascript jinja jit job jobs json jsondecodeerror jsonl
jsonpath jsonrpc jsonschema just jwt k8s kafka keep keepalived keeping kept kernel kernels key keyboardinterrupt
keyerror keys keyword keywords kib kill killed killing kills kind know known kube kubectl kubelet kubernetes kv
kvcache kwarg kwargs label labels lack lacks lambda langchain large larger last late later latest latin latin1 launch
launched launches launching layer layernorm layers layout ld lead leading lease least leaves leaving left legacy len
length lengths less let letter letters level levels lf lib libc libcuda libraries library libs license like likely
limit limitation limitations limited limiting limits line linear lines link links linux list listed listening listing
lists litellm literal literals live ll llama llamacpp llm llms load loaded loader loaders loading loads local
localhost locate located location locations lock locks log logging logic login logit logits logprobs logs long longer
lookup lookuperror loop lora loras lose loses losing lost low lower lowercase lru machine macos made main make making
malformed managed manager managing mandatory manifest manual manually many map mapped mapping mappings maps marker
marshal marshalled mask masked match matched matches matching matmul matrix max maximum may maybe mb mcp md5 meaning
means measure measured measurement measurements mechanism media megatron member members memcached memcpy memory
memoryerror memoryview merge merges merging message messages metaclass metadata method methods metric metrics mib
middle middleware might migrate migrating migration mime min minimum minor minute minutes misaligned misdirected
mismatch mismatched mismatches mismatching miss missed misses missing mistral mixed mixin mixtral mkl mla mlp mlx mmap
mode model models moderation modes modified modify modifying module modulenotfounderror modules moe mongo mongodb
month more most mount move moved mpi mps ms mtls mtu much multi multipart multiple multiply multiprocessing must
mutexes mutually mysql name named namedtuple nameerror names namespace namespaces nan nans native nccl ndarray ndjson
near need needed needs negative negotiates negotiating neither nested netty network never new newer newline newlines
next nf4 nfs nginx ngram nixl no node nodejs nodename nodes non noname nonblocking nonce noncontiguous none nonempty
nonetype nonexistent nonnegative nonpositive nonstreaming noop nor normal normalized normally not note notes nothing
notice notimplementederror now npm npu nsys null nullable nullptr num numa number numbers numeric numpy nvcc nvidia
nvlink nvml nvrtc oauth oauth2 obj object objects obsolete obtain occupancy occurred occurrence occurrences ocsp octet
odd of off offset offsets ok ollama omit omitted on once one oneof ones only onnx oom oomkilled open openai openapi
opened opening openrouter opens openssl operand operands operate operation operations operator optim option optional
options or order ordered ordinary org organization organizations origin original orm os oserror otel other others
otherwise otlp our out outage outcome outdated output outputs outside over overcommitted overflow overflowed
overflowerror overflowing overflows overlap overlaps overload overloaded overloading overloads overridden override
overrides overriding overwrite overwriting own owner owners package packages packet packets pad padding page pageable
paged pagedattention pages pair pairs pandas panicked parallel param parameter parameters params parent parentheses
parenthesis parents parse parsed parser parsers parses parsing part partial partition parts party pass passed passing
password passwords path paths pattern patterns pause paused pauses pausing payload payloads payment pb peer peers pem
penalty pending per percent perf perform performance performed performing performs perhaps period periods permanent
permanently permission permissionerror permissions permit permits permitted permitting permute php picklable pickle
pid ping pinned pip pipe pipeline pipelining pipes place placed placeholder places plain plan platform platforms
please plugin plugins pod pods point points policies policy poll pong pool pooler pooling pools pop port ports
position positive possible postgres postgresql pprof practical pre precise precision precondition preempt preempted
preempting preemption preempts preface preferred prefilling prefix prefixes preflight prepare prepared preprocessor
presence present prevent prevented prevents previous previously primary print printf println prior priority prng
probably problem problems proceed process processed processes processing processor produce produced produces producing
product production profile profiles program progress project projects promise promises prompt prompts proper properly
properties property proto protobuf protocol protocols provide provided provider providers provides providing proxies
proxy ps psk pts ptx public pull pure purpose push put py pydantic pyo3 pypi pytest python python3 pytorch qkv qps
qualified quantized queries query queue queued queues queuing quic quickjs quit quits quitting quota quotas quotation
quote quoted quotes quoting qwen radix raise raised raises raising ram ran random range rank rate rates rather raw
rbac rdma rdzv re reach reached reaches reaching read readable reader readers readiness reading readonly reads ready
real realloc realtime reason reasoning reasons receipts receive received receives receiving recognize recognized
recommend recommended recompute reconcile reconnect reconnected reconnecting reconnects record records recover
recovered recovering recovers recursion recursionerror recursive recv redacted redirect redirected redirecting
redirects redis reduce ref refer reference references reflect refresh refreshed refreshes refreshing refs refusal
refuse refused refuses refusing regex regexp region regions register registered registering registration registry
regular reject rejected rejecting rejects related relationship relative release released releases releasing relevant
reliability reload reloaded reloading reloads relu remain remaining remote remove removed removing rename renamed
render renders rendezvous repeated replace replaced replacement replaces replacing replica replicas replicate replied
replies reply replying report reporting reports repository repr represent representation represented represents
request requested requesting requests require required requirement requirements requires requiring reqwest rerank
reranker reserved reset resets resetting reshape resolution resolv resolve resolved resolver resolves resolving
resource resources respawn respectively respond responded responding responds response responses responsible rest
restart restarted restarting restarts restore restrict restricted restricting restriction restricts result resulted
resulting results resume resumed resumes resuming retained retokenize retried retries retrieval retrieve retry
retryable retrying return returned returning returns reusable reuse reused reverting revision revoke revoked revokes
revoking rfc rgb right rlhf rmsnorm rocm role roles roll root roots rope rotary round rounds route router routers
routes routing row rows rpc rpm rps rs rss rst rtt rule rules run runner running runs runtime runtimeerror rust s s3
safe safely safety sagemaker same saml sample sampled sampler samples sampling sanitizer sasl satisfiable satisfied
satisfy saturated saturation save saved scale scan scanned scanning scatter schedule scheduled schedules scheduling
schema schemas scheme scope script scripts sdk sdks sdpa search sec second seconds secs section sections secure
security see seed seek segfault segment segmentation select selected selection self semantic semantics semicolon send
sending sends sent separate separated separator separators sequence sequences sequential serde serial serialization
serialize serialized serializer serializers serializes serializing serve served server servers serves service services
serving servname session sessions set setattr sets setting settings setup setuptools several sgl sglang sha sha1
sha256 sha512 shape shapes shard sharded shards shared shed shedding shell shm short shorter should shouldn show shut
shutdown shuts shutting side sig sigabrt sigbus sigill sigint sigkill sigmoid sign signal signals signature signatures
signed signing sigpipe sigquit sigsegv sigterm sigusr1 silence silent silu simd similar simple simultaneously since
single size sizeof sizes skip skipped skipping skips sla slash sleep slice slices slo slot slots slow slowdown small
smaller smallest smoothquant smtp snapshot sni so sock socket sockets socks soft softmax solutions solve somaxconn
some sorry sort sorted source sources space span spawn spdy spec special specific specifically specification
specifications specified specifies specify specifying speculative split splits splitting sprintf sqlalchemy sqlite
squeeze src sse ssh ssl sso ssrf stable stack stage stages stale stall stalled stalling stalls standalone standard
standards starlette start started starting starts state statement states static status statuses std stderr stdin
stdlib stdout step steps still stl stop stopiteration stopped stopping stops storage store stored str strategies
strategy strconv stream streamed streamid streaming streams strict strictly stride strides string strings struct
structs structure structured stuck sub subclass subclasses subclassing subject submit submits submitted submitting
subprocess subscribers subscriptable subscription subtype subword succeeded such sudden sudo suffix suffixes suitable
sum summary supplied supply support supported supporting supports supposed suppress sure surrogate surrogateescape
suspend suspended suspending suspends svc swap swapped switch switching symbol symbols syn sync synchronous syntax
syntaxerror sys syscall syscalls system systemd systemerror t tab table tables tabs tag tags take taken takes target
targets task tasks tcp teapot telemetry tell template templates temporarily temporary tensor tensorflow tensorrt
tensors term terminal terminate terminated terminates terminating termination terms test testing tests text tf32 tgi
than that the their them then there therefore these they thinking third this those though thread threads three
threshold throttle throttled throttles throttling through throughput thrown thus tier tiers time timed timedout
timeout timeouterror timeouts timer times timestamp timestamps timing tls tmp to token tokenize tokenized tokenizer
tokenizes tokenizing tokens tokenwise tokio toml tonic too tool toolchoice tools tooluse top topk toplevel topology
topp torch total tp tpd tpm tpu tqdm trace traceback traces trailers trailing transfer transferred transferring
transfers transient translate translation transport transpose traverse treats tree trees tried tries triggered triple
triton trtllm true truncate truncated truncates truncating trust trusted try trying ts tsan ttft ttl tuned tuning
tunnel tunnels tuple tuples turn turns twice two tx txt type typed typeerror typeof types typing typo udp uds uid
uint16 uint32 uint64 uint8 ulimit un unable unacceptable unauthorized unavailable unclosed uncorrectable undeclared
undecodable undefined under underflow underlying underscore unescaped unexpected unexpectedly unhandled unhashable
unhealthy unicode unicodedecodeerror unicodeencodeerror unimplemented uninitialized unique unit units unix unk unknown
unless unlikely unmarshal unmarshalled unmarshalling unordered unpack unpacking unpaired unpicklable unprocessable
unreach unreachable unready unrecognized unregistered unresolved unsafe unset unspecified unsqueeze unsupported
unterminated until untokenized untyped unusable unused unverified unwrapped up update updated updates updating upgrade
upgrading upload uploaded uploading uploads upon upper uppercase upstream upstreams uri uris url urlerror urls us
usable usage usages use used useful user username users uses using usually utc utf utf16 utf8 uuid uvicorn uvloop v1
v1beta v1beta1 v2 v3 v4 val valid validate validated validates validating validation validator validators vals value
valueerror values var variable variables variant variants varint vars ve vector vectors venv verification verified
verifier verifies verify verifying version versions vertex vertexai vertical via view violation virtual virtualenv
visible visit vllm vm vocab vram vs wait waited waiting waits warn warning warnings warns was wasm watch watsonx wav
way we web webhook webp webrtc websocket websockets weights were werkzeug what whatever when where whether which while
whitespace whitespaces whole whose width will win32 window windows with within without won word words work worker
workers working workload works workspace would wrap wrapped wrapper wrappers wrapping wraps writable write writeable
writes writev writing written wrong wrote ws wsgi wss x509 xai xformers xid xml xpu yaml yarn yes yet yield you your
zero zerodivisionerror zip zlib zstd
"""
_CALLED: Final = "case chase field king long max may page root rule short small will young"
_COUNTED: Final = "b d gb ghz gib h hz k kb kib m mb mhz mib min ms ns px s sec tb tib us x"

WORDS: Final = frozenset(_LISTED.split())
NAMES: Final = frozenset(_CALLED.split())
"""Those among them that people are called, too."""
UNITS: Final = frozenset(_COUNTED.split())
"""What may follow a number without a blank."""
