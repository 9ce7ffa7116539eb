"""Lines as they stand in real logs, by the pattern that must know them, and lines that nothing must know."""

from __future__ import annotations

SAMPLES: dict[str, tuple[str, ...]] = {
    "slurm-oom-kill": (
        "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=1234.batch cgroup. Some of your processes may have been killed by the cgroup out-of-memory handler.",
        "slurmstepd: error: Detected 3 oom_kill events in StepId=7.0. Some of the step tasks have been OOM Killed.",
        "srun: error: n12: task 0: Out Of Memory",
    ),
    "exceeded-memory-limit": (
        "slurmstepd: error: Exceeded job memory limit",
        "slurmstepd: error: Job 99 exceeded memory limit (4310232 > 4194304), being killed",
    ),
    "kernel-oom-killer": (
        "[123.4] Out of memory: Killed process 4242 (python) total-vm:9000kB",
        "python invoked oom-killer: gfp_mask=0x100cca",
    ),
    "cpp-bad-alloc": (
        "terminate called after throwing an instance of 'std::bad_alloc'",
        "  what():  std::bad_alloc",
    ),
    "java-heap": (
        'Exception in thread "main" java.lang.OutOfMemoryError: Java heap space',
        "java.lang.OutOfMemoryError: GC overhead limit exceeded",
    ),
    "java-native-memory": (
        "# There is insufficient memory for the Java Runtime Environment to continue.",
        "Error: Could not reserve enough space for 4194304KB object heap",
    ),
    "python-memory-error": (
        "MemoryError",
        "numpy.core._exceptions._ArrayMemoryError: Unable to allocate 7.45 GiB for an array with shape (1000000000,)",
        "MemoryError: Unable to allocate 8 GiB",
    ),
    "cannot-allocate-memory": (
        "OSError: [Errno 12] Cannot allocate memory",
        "bash: fork: Cannot allocate memory",
        "bash: fork: retry: Resource temporarily unavailable",
    ),
    "malloc-failed": (
        "ERROR: malloc of 1048576 bytes failed",
        "Memory allocation failed for array rho",
        "failed to allocate 32768 bytes",
    ),
    "fortran-allocation": (
        "Error allocating 80000000000 bytes",
        "forrtl: severe (41): insufficient virtual memory",
        "Error: Allocation would exceed memory limit",
    ),
    "r-cannot-allocate": ("Error: cannot allocate vector of size 14.9 Gb",),
    "matlab-out-of-memory": (
        'Out of memory. Type "help memory" for your options.',
        "Requested 100000x100000 (74.5GB) array exceeds maximum array size preference.",
    ),
    "julia-out-of-memory": ("ERROR: LoadError: OutOfMemoryError()",),
    "shell-killed": (
        "/var/spool/slurmd/job00042/slurm_script: line 12: 20311 Killed                  python train.py",
        "Killed",
    ),
    "worker-died": (
        "joblib.externals.loky.process_executor.TerminatedWorkerError: A worker process managed by the executor was unexpectedly terminated.",
        "RuntimeError: DataLoader worker (pid 1234) is killed by signal: Killed.",
    ),
    "slurm-time-limit": (
        "slurmstepd: error: *** JOB 1234 ON n1 CANCELLED AT 2024-05-01T10:00:00 DUE TO TIME LIMIT ***",
    ),
    "walltime": ("=>> PBS: job killed: walltime 3600 exceeded limit 3500", "Job exceeded walltime limit"),
    "disk-quota": (
        "cp: error writing '/home/ann/out.h5': Disk quota exceeded",
        "OSError: [Errno 122] Disk quota exceeded: 'x'",
    ),
    "no-space-left": (
        "tar: out.tar: Wrote only 4096 of 10240 bytes: No space left on device",
        "write error: disk full",
    ),
    "file-too-large": ("fwrite: File too large", "File size limit exceeded (core dumped)"),
    "too-many-files": ("OSError: [Errno 24] Too many open files: 'a.txt'",),
    "shared-memory-full": (
        "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).",
    ),
    "deadline": (
        "slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2024-05-01T10:00:00 DUE TO JOB DEADLINE ***",
    ),
    "stack-limit": (
        "RecursionError: maximum recursion depth exceeded in comparison",
        "ERROR: LoadError: StackOverflowError:",
        'Exception in thread "main" java.lang.StackOverflowError',
    ),
    "lmod-unknown-module": (
        'Lmod has detected the following error: The following module(s) are unknown: "gcc/99"',
    ),
    "lmod-cannot-load": (
        'Lmod has detected the following error: These module(s) or extension(s) exist but cannot be loaded as requested: "openmpi/4.1"',
    ),
    "tcl-module": ("ERROR: Unable to locate a modulefile for 'intel/2030'",),
    "module-command": ("/var/spool/slurmd/job7/slurm_script: line 4: module: command not found",),
    "module-conflict": (
        "Module 'openmpi/4' conflicts with the currently loaded module(s) 'mpich/3'",
        "ERROR: Module cannot be loaded due to a conflict.",
    ),
    "missing-shared-library": (
        "./solver: error while loading shared libraries: libhdf5.so.103: cannot open shared object file: No such file or directory",
    ),
    "bad-shared-library": (
        "./solver: error while loading shared libraries: libimf.so: wrong ELF class: ELFCLASS32",
    ),
    "glibc-version": (
        "./solver: /lib64/libc.so.6: version `GLIBC_2.34' not found (required by ./solver)",
        "/lib64/libstdc++.so.6: version `GLIBCXX_3.4.29' not found (required by /home/ann/lib.so)",
    ),
    "undefined-symbol": (
        "python: symbol lookup error: /opt/lib/libmkl_intel_thread.so: undefined symbol: omp_get_num_procs",
        "ImportErr: /x/_C.so: undefined symbol: _ZN3c10",
    ),
    "import-shared-object": (
        "ImportError: libcudnn.so.8: cannot open shared object file: No such file or directory",
    ),
    "python-no-module": (
        "ModuleNotFoundError: No module named 'torch'",
        "ModuleNotFoundError: No module named 'sklearn.ensemble'",
    ),
    "python-no-module-run": ("/usr/bin/python3: No module named pytest",),
    "python-import-error": (
        "ImportError: cannot import name 'gcd' from 'fractions' (/usr/lib/python3.11/fractions.py)",
    ),
    "python-distribution": (
        "pkg_resources.DistributionNotFound: The 'tqdm>=4' distribution was not found",
        "importlib.metadata.PackageNotFoundError: mypackage",
    ),
    "conda-not-initialised": (
        "CommandNotFoundError: Your shell has not been properly configured to use 'conda activate'.",
        "CondaError: Run 'conda init' before 'conda activate'",
    ),
    "conda-no-environment": ("EnvironmentNameNotFound: Could not find conda environment: myenv",),
    "virtualenv-missing": ("slurm_script: line 5: /home/ann/venv/bin/activate: No such file or directory",),
    "r-no-package": ("Error in library(ggplot3) : there is no package called ‘ggplot3’",),
    "julia-no-package": ("ERROR: LoadError: ArgumentError: Package Flux not found in current path.",),
    "perl-no-module": ("Can't locate Bio/SeqIO.pm in @INC (you may need to install the Bio::SeqIO module)",),
    "command-not-found": (
        "/var/spool/slurmd/job1/slurm_script: line 7: samtools: command not found",
        "bash: mpiexec: command not found",
        "slurm_script: 3: line 3: gmx_mpi: not found",
    ),
    "csh-command-not-found": ("gaussian16: Command not found.",),
    "env-no-interpreter": (
        "/usr/bin/env: ‘python’: No such file or directory",
        "env: Rscript: No such file or directory",
    ),
    "bad-interpreter": (
        "bash: ./run.sh: /usr/local/bin/python3.6: bad interpreter: No such file or directory",
    ),
    "execve-missing": ("slurmstepd: error: execve(): ./a.out: No such file or directory",),
    "execve-permission": (
        "slurmstepd: error: execve(): /home/ann/run.sh: Permission denied",
        "slurmstepd: error: execve(): ./solver: Exec format error",
    ),
    "carriage-return": (
        "/var/spool/slurmd/job1/slurm_script: line 2: $'\\r': command not found",
        "bash: ./run.sh: /bin/bash^M: bad interpreter: No such file or directory",
    ),
    "bash-syntax": (
        "slurm_script: line 9: syntax error near unexpected token `fi'",
        "slurm_script: line 20: syntax error: unexpected end of file",
        "slurm_script: line 3: unexpected EOF while looking for matching `\"'",
    ),
    "python-syntax": (
        "SyntaxError: invalid syntax",
        "IndentationError: expected an indented block after 'if' statement on line 3",
    ),
    "unbound-variable": ("slurm_script: line 4: DATADIR: unbound variable",),
    "exec-format": ("bash: ./solver: cannot execute binary file: Exec format error",),
    "illegal-instruction": (
        "srun: error: n1: task 0: Illegal instruction (core dumped)",
        "Please verify that both the operating system and the processor support Intel(R) AVX512F instructions.",
    ),
    "unrecognized-option": (
        "solver: unrecognized option '--fast'",
        "train.py: error: unrecognized arguments: --epoch 3",
        "prog.py: error: the following arguments are required: --input",
    ),
    "usage-shown": ("usage: train.py [-h] [--lr LR]", "Usage: samtools view [options] in.bam"),
    "python-file-not-found": ("FileNotFoundError: [Errno 2] No such file or directory: 'data/train.csv'",),
    "no-such-file": (
        "cat: /no/such/input.dat: No such file or directory",
        "slurm_script: line 3: cd: /scratch/ann/run7: No such file or directory",
        "ls: cannot access 'x.nc': No such file or directory",
    ),
    "cannot-open-file": (
        "ERROR: Cannot open input file in.lammps",
        "Error: could not open file params.nml for reading",
        "Unable to read restart file chk.00100",
    ),
    "fortran-file": (
        "Fortran runtime error: Cannot open file 'input.nml': No such file or directory",
        "forrtl: severe (29): file not found, unit 10, file /home/ann/fort.10",
    ),
    "fortran-end-of-file": (
        "Fortran runtime error: End of file",
        "forrtl: severe (24): end-of-file during read, unit 5",
    ),
    "chdir-failed": (
        "slurmstepd: error: couldn't chdir to `/scratch/ann': No such file or directory: going to /tmp instead",
    ),
    "permission-denied": (
        "mkdir: cannot create directory '/data/out': Permission denied",
        "/var/spool/slurmd/job1/slurm_script: line 5: ./run.sh: Permission denied",
    ),
    "python-permission": ("PermissionError: [Errno 13] Permission denied: '/data/ref.fa'",),
    "read-only": ("touch: cannot touch '/sw/x': Read-only file system",),
    "operation-not-permitted": ("chown: changing ownership of 'a': Operation not permitted",),
    "stale-file-handle": ("OSError: [Errno 116] Stale file handle", "cat: a.txt: Stale NFS file handle"),
    "transport-endpoint": (
        "ls: cannot access '/lustre/ann': Transport endpoint is not connected",
        "cp: error: Cannot send after transport endpoint shutdown",
    ),
    "input-output-error": ("cat: data.bin: Input/output error", "OSError: [Errno 5] Input/output error"),
    "nfs-or-lustre": (
        "nfs: server nas01 not responding, still trying",
        "LustreError: 11-0: scratch-OST0003 operation ldlm_enqueue failed",
    ),
    "hdf5-lock": (
        "OSError: unable to lock file, errno = 11, error message = 'Resource temporarily unavailable'",
    ),
    "truncated-or-corrupt": (
        "gzip: reads.fq.gz: unexpected end of file",
        "OSError: file is corrupt: truncated file",
        "RuntimeError: PytorchStreamReader failed: corrupted checkpoint",
    ),
    "mpi-abort": (
        "MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD",
        "application called MPI_Abort(MPI_COMM_WORLD, 1) - process 0",
    ),
    "mpi-fatal": (
        "[n1:123] *** An error occurred in MPI_Recv",
        "[n1:123] *** MPI_ERRORS_ARE_FATAL (processes in this communicator will now abort,",
        "Fatal error in PMPI_Bcast: Other MPI error, error stack:",
    ),
    "orte-launch": (
        "ORTE was unable to reliably start one or more daemons.",
        "There are not enough slots available in the system to satisfy the 64",
    ),
    "mpirun-noticed": (
        "mpirun noticed that process rank 2 with PID 0 on node n1 exited on signal 9 (Killed).",
        "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES",
    ),
    "pmi-init": (
        "PMI2_Init failed to initialize.  Return code: 14",
        'The application appears to have been direct launched using "srun",',
        "[n1:99] PMIX ERROR: ERROR in file gds_ds12_lock_pthread.c at line 169",
    ),
    "mpi-init-failed": (
        "It looks like MPI_INIT failed for some reason; your parallel process is",
        "ompi_mpi_init: ompi_rte_init failed",
    ),
    "ucx-error": ("[1700000000.1] [n1:1234 :0] ucp_worker.c:1783 UCX  ERROR unsupported transport",),
    "hcoll": (
        "[LOG_CAT_COMMPATTERNS] hcoll_create_context() returned error",
        "Error: coll_hcoll initialization of hcoll failed",
    ),
    "infiniband": (
        "mlx5: n1: got completion with error: retry exceeded",
        "[n1] openib BTL failed to initialize",
        "ibv_create_qp failed",
    ),
    "connection-lost": (
        "ssh: connect to host n2 port 22: Connection refused",
        "requests.exceptions.ConnErr: Connection reset by peer",
        "curl: (6) Could not resolve host: huggingface.co",
    ),
    "nccl": (
        "n1:123:456 [0] NCCL WARN Call to connect returned Connection timed out",
        "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.",
    ),
    "nccl-timeout": ("[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=12)",),
    "cuda-out-of-memory": (
        "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 15.78 GiB total capacity)",
        "torch.OutOfMemoryError: CUDA out of memory.",
        "tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating tensor with shape[64,512]",
    ),
    "cuda-no-device": (
        "RuntimeError: No CUDA GPUs are available",
        "CUDA error: no CUDA-capable device is detected",
        "RuntimeError: Found no NVIDIA driver on your system.",
    ),
    "cuda-driver-version": (
        "CUDA driver version is insufficient for CUDA runtime version",
        "Failed to initialize NVML: Driver/library version mismatch",
    ),
    "cuda-architecture": (
        "RuntimeError: CUDA error: no kernel image is available for execution on the device",
    ),
    "cuda-illegal-access": (
        "RuntimeError: CUDA error: an illegal memory access was encountered",
        "RuntimeError: CUDA error: device-side assert triggered",
    ),
    "cuda-error": (
        "CUDA error: unknown error (999) at main.cu:42",
        "RuntimeError: cuDNN error: CUDNN_STATUS_NOT_INITIALIZED",
    ),
    "gpu-ecc": ("RuntimeError: CUDA error: uncorrectable ECC error encountered",),
    "gpu-xid": (
        "kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus.",
        "Unable to determine the device handle for GPU 0000:3B:00.0: GPU is lost.  Reboot the system",
    ),
    "flexnet": (
        "FlexNet Licensing error:-5,357",
        "Licensed number of users already reached. (-4,342)",
        "License server machine is down or not responding.",
    ),
    "matlab-license": (
        "License Manager Error -4",
        "Could not get a license for abaqus",
        "No licenses available for feature ansys",
    ),
    "container-image": (
        "FATAL:   Unable to handle docker://nope/img uri: while building SIF from layers: image not found",
        "FATAL:   could not open image /home/ann/img.sif: failed to retrieve path",
        "slurmstepd: error: pyxis: failed to import docker image",
        "Error response from daemon: manifest unknown",
    ),
    "container-mount": (
        "WARNING: Skipping mount /scratch [binds]: mount source /scratch does not exist",
        "apptainer: bind mount /data failed: no such file or directory",
    ),
    "segmentation-fault": (
        "/var/spool/slurmd/job1/slurm_script: line 9:  4242 Segmentation fault      (core dumped) ./solver",
        "Caught signal 11 (Segmentation fault: address not mapped to object at address (nil))",
    ),
    "fortran-sigsegv": (
        "Program received signal SIGSEGV: Segmentation fault - invalid memory reference.",
        "forrtl: severe (174): SIGSEGV, segmentation fault occurred",
    ),
    "glibc-heap": (
        "double free or corruption (!prev)",
        "free(): invalid pointer",
        "*** stack smashing detected ***: terminated",
    ),
    "bus-error": ("slurm_script: line 3: 1234 Bus error               (core dumped) ./solver",),
    "aborted": ("slurm_script: line 3: 1234 Aborted                 ./solver", "Aborted (core dumped)"),
    "assertion-c": ("solver: grid.c:42: init: Assertion `n > 0' failed.", "ASSERTION FAILED: mesh is empty"),
    "python-assertion": ("AssertionError: shapes differ",),
    "cpp-exception": ("terminate called after throwing an instance of 'std::runtime_error'",),
    "floating-point-exception": (
        "Floating point exception (core dumped)",
        "Program received signal SIGFPE: Floating-point exception - erroneous arithmetic operation.",
    ),
    "zero-division": ("ZeroDivisionError: float division by zero",),
    "nan-loss": (
        "step 100: loss is nan, stopping training",
        "ValueErr: Input contains NaN, infinity",
        "NaN detected in field rho",
    ),
    "no-convergence": ("SCF failed to converge in 100 cycles", "Error: convergence failed"),
    "blown-up-system": ("ERROR: Lost atoms: original 4000 current 3996", "The system has blown up"),
    "python-error": (
        "ValueError: operands could not be broadcast together with shapes (3,) (4,)",
        "KeyError: 'temperature'",
        "xgboost.core.XGBoostError: bad input",
    ),
    "python-traceback": ("Traceback (most recent call last):",),
    "r-error": (
        "Error in read.csv(\"x.csv\") : duplicate 'row.names' are not allowed",
        "Error: object 'x' not found",
    ),
    "r-halted": ("Execution halted",),
    "matlab-error": ("Error using load", "Undefined function or variable 'foo'.", "{Error using horzcat"),
    "julia-error": (
        "ERROR: LoadError: UndefVarError: `x` not defined",
        "ERROR: BoundsError: attempt to access 3-element Vector",
    ),
    "java-exception": ('Exception in thread "main" java.lang.NullPointerException',),
    "fortran-runtime": (
        "Fortran runtime error: Index '11' of dimension 1 of array 'a' above upper bound of 10",
        "forrtl: severe (59): list-directed I/O syntax error",
    ),
    "make-error": ("make: *** [Makefile:3: all] Error 2",),
    "compiler-error": (
        "main.c:3:5: error: unknown type name 'foo'",
        "main.c:1:10: fatal error: mpi.h: No such file or directory",
    ),
    "linker-error": ("main.o: undefined reference to `dgemm_'", "/usr/bin/ld: cannot find -lfftw3"),
    "fatal-error": (
        "Fatal error: the domain decomposition is not possible",
        "FATAL ERROR: Unable to read psf file",
    ),
    "snakemake": ("Error in rule align:", "Error executing process > 'FASTQC (1)'"),
    "core-dumped": ("something ended (core dumped)",),
    "slurm-node-failure": (
        "slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2024-05-01T10:00:00 DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***",
    ),
    "slurm-preempted": (
        "slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2024-05-01T10:00:00 DUE TO PREEMPTION ***",
    ),
    "slurm-requeued": (
        "slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2024-05-01T10:00:00 DUE TO JOB REQUEUE ***",
    ),
    "slurm-cancelled": (
        "slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2024-05-01T10:00:00 ***",
        "slurmstepd: error: *** STEP 12.0 ON n1 CANCELLED AT 2024-05-01T10:00:00 ***",
    ),
    "srun-task-exited": (
        "srun: error: n1: task 0: Exited with exit code 1",
        "srun: error: n1: tasks 0-3: Killed",
    ),
    "srun-terminating": (
        "srun: Terminating StepId=12.0",
        "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.",
    ),
    "srun-step-resources": (
        "srun: error: Unable to create step for job 12: More processors requested than permitted",
        "srun: error: Unable to create step for job 12: Requested node configuration is not available",
    ),
    "srun-launch-failed": (
        "srun: error: Task launch for StepId=12.0 failed on node n3: Communication connection failure",
    ),
    "slurm-output-file": (
        "slurmstepd: error: Could not open stdout file /no/dir/out: No such file or directory",
    ),
    "prolog-failed": ("slurmd: error: Prolog failed on node n1", "task prolog exited with exit code 1"),
    "slurm-communication": (
        "srun: error: Timed out waiting for job step to complete",
        "srun: error: n3: Communication connection failure",
    ),
    "slurm-gres": ("srun: error: gres_plugin: gpu device not available",),
}

# What healthy jobs print, in words that are near to those above.
HARMLESS = (
    "Loaded module python/3.11; all modules are known",
    "No errors found.",
    "0 errors, 0 warnings",
    "error rate: 0.03",
    "loss: 0.312 accuracy: 0.91",
    "memory usage: 12.1 GiB of 64 GiB",
    "Total memory allocated: 3.2 GB",
    "Memory: malloc pools: 3, allocated blocks: 18",
    "The job was not killed. Nobody Killed it either way.",
    "checking for mpicc... not found, using gcc",
    "Segment 12 done; faults: 0",
    "conflict-free replicated data type initialised",
    "license: MIT",
    "License: GPLv3, see COPYING",
    "information about the NaN policy: propagate",
    "infinite impulse response filter ready",
    "processor 3 of 16 ready",
    "converged after 12 iterations",
    "SCF converged",
    "Reading option table",
    "usage of disk: 10 %",
    "This file is not a problem",
    "Connection to database established",
    "broken symmetry solution found",
    "permission granted",
    "writing file output.dat",
    "epoch 12/100, elapsed 00:01:02",
    "Aborting is not needed",
    "assertion checks are disabled",
    "gpu 0: 45 C, 120 W, 3000 MiB / 16000 MiB",
    "UCX  INFO  ep_cfg[0]: tag(self/memory)",
    "NCCL INFO Bootstrap : Using eth0",
    "srun: job 12 queued and waiting for resources",
    "srun: job 12 has been allocated resources",
    "CUDA_VISIBLE_DEVICES=0",
    "deadline scheduler: mq-deadline",
    "docker image layers: 12",
    "INFO: singularity version 3.8",
    "prolog done",
    "make: Nothing to be done for 'all'.",
    "make[1]: Entering directory '/home/ann/src'",
    "Error bars are one standard deviation",
    "Exception handling enabled",
    "FATAL is the highest log level",
    "Traceback of the optimiser path: 3 steps",
    "The walltime so far is 12 minutes",
    "stack of 12 images",
    "ImportErrors are counted below: 0",
    "MemoryErrors: 0",
    "Killed 0 of 12 workers",
    "signal 110 detected in channel 4",
    "/bin/activate is fine",
    "stale data removed",
    "import os",
    "quota: 10 GiB of 100 GiB used",
)
