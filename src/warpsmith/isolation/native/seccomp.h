// A seccomp filter builder and the two filters: `general`, which the launcher puts on every confined child before it
// runs, and `worker`, which the worker puts on itself before it loads untrusted code. Header only: the worker includes
// it.
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <utility>
#include <vector>

namespace warpsmith::seccomp {

#if defined(__x86_64__)
constexpr uint32_t kArch = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kArch = AUDIT_ARCH_AARCH64;
#else
#error "warpsmith confines children on x86_64 and aarch64 only"
#endif

constexpr uint32_t fail(int error) { return SECCOMP_RET_ERRNO | static_cast<uint32_t>(error); }

// One 32-bit word of a call's arguments holds, where `mask` has ones, one of `values`.
struct Test {
  uint32_t offset, mask;
  std::vector<uint32_t> values;
};

// The kernel reads commands and flags as 32-bit numbers, so their low word decides; of a pointer both words count.
constexpr uint32_t low(int argument) { return offsetof(seccomp_data, args) + 8 * static_cast<uint32_t>(argument); }
inline Test word(int argument, std::vector<uint32_t> values, uint32_t mask = ~0U) {
  return {low(argument), mask, std::move(values)};
}
inline std::vector<Test> null_pointer(int argument) {
  return {{low(argument), ~0U, {0}}, {low(argument) + 4, ~0U, {0}}};
}

// Builds a BPF program as a list of independent rules; what no rule takes gets the default action.
class Filter {
 public:
  Filter() {
    load(offsetof(seccomp_data, arch));
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kArch, 1, 0));
    ret(SECCOMP_RET_KILL_PROCESS);  // the numbers below mean other calls in another ABI
    load(offsetof(seccomp_data, nr));
#if defined(__x86_64__)
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1));  // x32
    ret(SECCOMP_RET_KILL_PROCESS);
#endif
  }

  void on(long call, uint32_t action) {
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(call), 0, 1));
    ret(action);
  }

  void on_all(const std::vector<long>& calls, uint32_t action) {
    for (const long call : calls) on(call, action);
  }

  // `action` when every test holds; else the rules that follow decide.
  void on_arguments(long call, const std::vector<Test>& tests, uint32_t action) {
    std::vector<sock_filter> body;
    std::vector<size_t> misses;
    for (const Test& test : tests) {
      body.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, test.offset));
      body.push_back(BPF_STMT(BPF_ALU | BPF_AND | BPF_K, test.mask));
      for (size_t left = test.values.size(); left > 0; --left)  // a hit jumps over the other values and the miss
        body.push_back(
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, test.values[test.values.size() - left], static_cast<uint8_t>(left), 0));
      misses.push_back(body.size());
      body.push_back(BPF_STMT(BPF_JMP | BPF_JA, 0));
    }
    body.push_back(BPF_STMT(BPF_RET | BPF_K, action));
    for (const size_t at : misses) body[at].k = static_cast<uint32_t>(body.size() - at - 1);
    body.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)));
    only_for(call, body);
  }

  // `action` when the 64-bit argument is above `most` and (argument `flags` & mask) == value.
  void on_above(long call, int argument, uint64_t most, int flags, uint32_t mask, uint32_t value, uint32_t action) {
    const auto high = static_cast<uint32_t>(most >> 32), bottom = static_cast<uint32_t>(most);
    std::vector<sock_filter> body = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, low(flags)),
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, mask),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 6),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, low(argument) + 4),
        BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, high, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, high, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, low(argument)),
        BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, bottom, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, action),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
    };
    only_for(call, body);
  }

  // Puts the filter on every thread of this process, for good. Returns a listener when one is asked for, 0, or -1.
  int install(uint32_t otherwise, unsigned int flags) {
    ret(otherwise);
    sock_fprog program = {static_cast<unsigned short>(code_.size()), code_.data()};
    return static_cast<int>(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program));
  }

 private:
  void load(size_t offset) { code_.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset))); }
  void ret(uint32_t action) { code_.push_back(BPF_STMT(BPF_RET | BPF_K, action)); }
  void only_for(long call, const std::vector<sock_filter>& body) {
    const auto skip = static_cast<uint8_t>(body.size());
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(call), 0, skip));
    code_.insert(code_.end(), body.begin(), body.end());
  }

  std::vector<sock_filter> code_;
};

// Calls that no child of ours needs: other processes' memory, namespaces and mounts, the kernel's own machinery, and
// memory that no resident-set watch can see.
inline std::vector<long> refused_calls() {
  std::vector<long> calls = {
      SYS_ptrace,
      SYS_process_vm_readv,
      SYS_process_vm_writev,
      SYS_kcmp,
      SYS_mount,
      SYS_umount2,
      SYS_pivot_root,
      SYS_chroot,
      SYS_setns,
      SYS_unshare,
      SYS_bpf,
      SYS_perf_event_open,
      SYS_keyctl,
      SYS_add_key,
      SYS_request_key,
      SYS_kexec_load,
      SYS_init_module,
      SYS_finit_module,
      SYS_delete_module,
      SYS_userfaultfd,
      SYS_swapon,
      SYS_swapoff,
      SYS_reboot,
      SYS_acct,
      SYS_quotactl,
      SYS_syslog,
      SYS_settimeofday,
      SYS_clock_settime,
      SYS_clock_adjtime,
      SYS_adjtimex,
      SYS_sethostname,
      SYS_setdomainname,
      SYS_vhangup,
      SYS_open_by_handle_at,
      SYS_name_to_handle_at,
      SYS_lookup_dcookie,
      SYS_nfsservctl,
      SYS_personality,
      SYS_fanotify_init,
      SYS_move_pages,
      SYS_migrate_pages,
      SYS_shmget,
      SYS_shmat,
      SYS_msgget,
      SYS_semget,
      SYS_mq_open,
#ifdef SYS_kexec_file_load
      SYS_kexec_file_load,
#endif
#ifdef SYS_io_uring_setup
      SYS_io_uring_setup,
      SYS_io_uring_enter,
      SYS_io_uring_register,
#endif
#ifdef SYS_pidfd_getfd
      SYS_pidfd_getfd,
#endif
#ifdef SYS_process_madvise
      SYS_process_madvise,
#endif
#ifdef SYS_open_tree
      SYS_open_tree,
      SYS_move_mount,
      SYS_fsopen,
      SYS_fsconfig,
      SYS_fsmount,
      SYS_fspick,
#endif
#ifdef SYS_mount_setattr
      SYS_mount_setattr,
#endif
#ifdef SYS_quotactl_fd
      SYS_quotactl_fd,
#endif
#ifdef SYS_memfd_secret
      SYS_memfd_secret,
#endif
#if defined(__x86_64__)
      SYS_iopl,
      SYS_ioperm,
      SYS_modify_ldt,
      SYS_uselib,
      SYS_ustat,
      SYS_sysfs,
      SYS__sysctl,
      SYS_create_module,
      SYS_get_kernel_syms,
      SYS_query_module,
#endif
  };
  return calls;
}

constexpr uint32_t kNamespaceFlags = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |
                                     CLONE_NEWPID | CLONE_NEWNET | 0x00000080 /* CLONE_NEWTIME */;

struct General {
  uint64_t largest_bytes = 0;  // a single writable anonymous mapping above this gets `over`; 0: no bound
  uint32_t over = SECCOMP_RET_KILL_PROCESS;
  bool memory_files = true;  // memfd_create: pages nobody maps, so no watch of resident memory sees them
};

inline Filter general_filter(const General& options) {
  Filter filter;
  filter.on_all(refused_calls(), fail(EPERM));
  filter.on(SYS_clone3, fail(ENOSYS));  // its flags are out of a filter's reach; libc falls back to clone
  filter.on_arguments(SYS_clone, {word(0, {0}, kNamespaceFlags)}, SECCOMP_RET_ALLOW);
  filter.on(SYS_clone, fail(EPERM));
  filter.on_arguments(SYS_socket, {word(0, {AF_UNIX})}, SECCOMP_RET_ALLOW);
  filter.on(SYS_socket, fail(EACCES));
  filter.on_arguments(SYS_ioctl, {word(1, {TIOCSTI})}, fail(EPERM));
  if (!options.memory_files) filter.on(SYS_memfd_create, fail(EPERM));
  if (options.largest_bytes) {
    const uint64_t most = options.largest_bytes;
    filter.on_above(SYS_mmap, 1, most, 3, MAP_ANONYMOUS | MAP_NORESERVE, MAP_ANONYMOUS, options.over);
    filter.on_above(SYS_mremap, 2, most, 3, 0, 0, options.over);
  }
  return filter;
}

// While the artifact is loaded its constructors run already, so they meet all of the filter but its last part: files
// may be opened to read, for dlopen. Installed again as closed, the two filters add up and the stricter answer counts.
enum class Phase { kLoading, kClosed };

// Calls that compute, wait, and talk over descriptors that are already open.
//
// Host code of a candidate runs inside a call and at no other time. The kernel has these ways to run code of a process
// later, and each lacks a call here or an argument below:
//   - a signal handler, whatever sends the signal (SIGIO, timers, message queues, directory and lease notices, a fault
//     on a guarded page, SIGSYS): no rt_sigaction and no sigaltstack. A mask only delays signals, and without a handler
//     each of them ends the process or does nothing, so rt_sigprocmask stays for the C library.
//   - another thread or process: no clone, fork, vfork, exec; io_uring and aio are missing too, though they run no
//   code.
//   - a restartable sequence, to whose abort address the kernel returns after a preemption, in any code: no rseq, and
//   the
//     worker refuses to load where the C library has registered an area (GLIBC_TUNABLES).
//   - a page fault answered by somebody else: no userfaultfd.
// What remains is code that the candidate writes over the worker's own. Hence answers are claims, and what is timed is
// repeated by a process that never held the artifact.
inline std::vector<long> worker_calls() {
  return {
      SYS_read,
      SYS_write,
      SYS_readv,
      SYS_writev,
      SYS_pread64,
      SYS_pwrite64,
      SYS_close,
      SYS_lseek,
      SYS_fstat,
      SYS_ppoll,
      SYS_pselect6,
      SYS_epoll_pwait,
      SYS_epoll_ctl,
      SYS_epoll_create1,
      SYS_eventfd2,
      SYS_pipe2,
      SYS_dup,
      SYS_dup3,
      SYS_mmap,
      SYS_munmap,
      SYS_mprotect,
      SYS_mremap,
      SYS_madvise,
      SYS_mincore,
      SYS_mlock,
      SYS_munlock,
      SYS_mbind,
      SYS_get_mempolicy,
      SYS_set_mempolicy,
      SYS_brk,
      SYS_futex,
      SYS_sched_yield,
      SYS_sched_getaffinity,
      SYS_sched_setaffinity,
      SYS_sched_getparam,
      SYS_sched_getscheduler,
      SYS_getcpu,
      SYS_nanosleep,
      SYS_clock_nanosleep,
      SYS_clock_gettime,
      SYS_clock_getres,
      SYS_gettimeofday,
      SYS_times,
      SYS_getpid,
      SYS_gettid,
      SYS_getppid,
      SYS_getuid,
      SYS_geteuid,
      SYS_getgid,
      SYS_getegid,
      SYS_getrusage,
      SYS_sysinfo,
      SYS_uname,
      SYS_getrandom,
      SYS_rt_sigprocmask,
      SYS_rt_sigreturn,
      SYS_restart_syscall,
      SYS_membarrier,
      SYS_exit,
      SYS_exit_group,
      SYS_getcwd,
      SYS_timerfd_create,
      SYS_timerfd_settime,
      SYS_timerfd_gettime,
      SYS_sendto,  // the line to the executor of a virtual GPU; no socket can be made here
#ifdef SYS_futex_waitv
      SYS_futex_waitv,
#endif
#if defined(__x86_64__)
      SYS_poll,
      SYS_select,
      SYS_epoll_wait,
      SYS_time,
      SYS_arch_prctl,
      SYS_pipe,
#endif
  };
}

// Read-only ways to open: WRONLY, RDWR, CREAT, TRUNC and TMPFILE are absent.
constexpr uint32_t kWriting = 01 | 02 | 0100 | 01000 | 020000000;

inline void allow_loading(Filter* filter) {
  filter->on_arguments(SYS_openat, {word(2, {0}, kWriting)}, SECCOMP_RET_ALLOW);
  filter->on_all({SYS_newfstatat, SYS_faccessat, SYS_readlinkat, SYS_statfs, SYS_getdents64}, SECCOMP_RET_ALLOW);
  // For the second filter only: with another flag a constructor would get a descriptor that answers for calls.
  filter->on_arguments(SYS_seccomp, {word(0, {SECCOMP_SET_MODE_FILTER}), word(1, {SECCOMP_FILTER_FLAG_TSYNC})},
                       SECCOMP_RET_ALLOW);
#ifdef SYS_statx
  filter->on(SYS_statx, SECCOMP_RET_ALLOW);
#endif
#if defined(__x86_64__)
  filter->on_arguments(SYS_open, {word(1, {0}, kWriting)}, SECCOMP_RET_ALLOW);
  filter->on_all({SYS_stat, SYS_lstat, SYS_access, SYS_readlink}, SECCOMP_RET_ALLOW);
#endif
}

// What the C library does with descriptors. Missing are owners, signals, leases and notices (F_SETOWN, F_SETSIG,
// F_SETLEASE, F_NOTIFY, and O_ASYNC among the flags), by which the kernel sends a signal when a request comes.
inline void allow_descriptors(Filter* filter) {
  filter->on_arguments(SYS_fcntl, {word(1, {F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL})}, SECCOMP_RET_ALLOW);
  filter->on_arguments(SYS_fcntl, {word(1, {F_SETFL}), word(2, {0}, O_ASYNC)}, SECCOMP_RET_ALLOW);
  filter->on_arguments(SYS_ioctl, {word(1, {FIONREAD, FIONBIO, FIOCLEX, TCGETS})}, SECCOMP_RET_ALLOW);
  // NVIDIA's commands: of type 'F' for /dev/nvidia*, plain numbers for /dev/nvidia-uvm. FIOASYNC, FIOSETOWN, SIOCSPGRP
  // and all that terminals and sockets have are of other types.
  filter->on_arguments(SYS_ioctl, {word(1, {0, 'F' << 8}, 0xFF00)}, SECCOMP_RET_ALLOW);
}

inline Filter worker_filter(Phase phase) {
  Filter filter;
  filter.on_all(worker_calls(), SECCOMP_RET_ALLOW);
  filter.on(SYS_clone3, fail(ENOSYS));
  // abort() and a fault of the worker's own. glibc's own signals, which have handlers, are not sent.
  filter.on_arguments(SYS_tgkill, {word(0, {static_cast<uint32_t>(getpid())}), word(2, {SIGABRT, SIGSEGV})},
                      SECCOMP_RET_ALLOW);
  filter.on_arguments(SYS_prlimit64, null_pointer(2), SECCOMP_RET_ALLOW);  // reading only
  filter.on_arguments(SYS_prctl, {word(0, {PR_SET_NAME})}, SECCOMP_RET_ALLOW);
  allow_descriptors(&filter);
  if (phase == Phase::kLoading) allow_loading(&filter);
  return filter;
}

// True when the filter is on for all threads of this process; else errno says why it is not.
inline bool install_worker(Phase phase) {
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);  // the second time the first filter refuses it, and it stands already
  return worker_filter(phase).install(fail(EPERM), SECCOMP_FILTER_FLAG_TSYNC) == 0;
}

}  // namespace warpsmith::seccomp
