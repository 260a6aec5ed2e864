// A seccomp filter builder and the two profiles: `general` for any confined child, `worker` for a process that has its
// CUDA context and is about to load untrusted code. Header only: the worker includes it and calls install_worker().
#pragma once

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

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

  // `hit` when (low word of argument & mask) == value, else `miss`.
  void on_argument(long call, int argument, uint32_t mask, uint32_t value, uint32_t hit, uint32_t miss) {
    std::vector<sock_filter> body = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, low(argument)),
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, mask),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, hit),
        BPF_STMT(BPF_RET | BPF_K, miss),
    };
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
  static uint32_t low(int argument) { return offsetof(seccomp_data, args) + 8 * static_cast<uint32_t>(argument); }
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
      SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_kcmp, SYS_mount, SYS_umount2, SYS_pivot_root,
      SYS_chroot, SYS_setns, SYS_unshare, SYS_bpf, SYS_perf_event_open, SYS_keyctl, SYS_add_key, SYS_request_key,
      SYS_kexec_load, SYS_init_module, SYS_finit_module, SYS_delete_module, SYS_userfaultfd, SYS_swapon, SYS_swapoff,
      SYS_reboot, SYS_acct, SYS_quotactl, SYS_syslog, SYS_settimeofday, SYS_clock_settime, SYS_clock_adjtime,
      SYS_adjtimex, SYS_sethostname, SYS_setdomainname, SYS_vhangup, SYS_open_by_handle_at, SYS_name_to_handle_at,
      SYS_lookup_dcookie, SYS_nfsservctl, SYS_personality, SYS_fanotify_init, SYS_move_pages, SYS_migrate_pages,
      SYS_shmget, SYS_shmat, SYS_msgget, SYS_semget, SYS_mq_open,
#ifdef SYS_kexec_file_load
      SYS_kexec_file_load,
#endif
#ifdef SYS_io_uring_setup
      SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register,
#endif
#ifdef SYS_pidfd_getfd
      SYS_pidfd_getfd,
#endif
#ifdef SYS_process_madvise
      SYS_process_madvise,
#endif
#ifdef SYS_open_tree
      SYS_open_tree, SYS_move_mount, SYS_fsopen, SYS_fsconfig, SYS_fsmount, SYS_fspick,
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
      SYS_iopl, SYS_ioperm, SYS_modify_ldt, SYS_uselib, SYS_ustat, SYS_sysfs, SYS__sysctl, SYS_create_module,
      SYS_get_kernel_syms, SYS_query_module,
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
  filter.on_argument(SYS_clone, 0, kNamespaceFlags, 0, SECCOMP_RET_ALLOW, fail(EPERM));
  filter.on_argument(SYS_socket, 0, 0xFFFFFFFF, AF_UNIX, SECCOMP_RET_ALLOW, fail(EACCES));
  filter.on_argument(SYS_ioctl, 1, 0xFFFFFFFF, TIOCSTI, fail(EPERM), SECCOMP_RET_ALLOW);
  if (!options.memory_files) filter.on(SYS_memfd_create, fail(EPERM));
  if (options.largest_bytes) {
    const uint64_t most = options.largest_bytes;
    filter.on_above(SYS_mmap, 1, most, 3, MAP_ANONYMOUS | MAP_NORESERVE, MAP_ANONYMOUS, options.over);
    filter.on_above(SYS_mremap, 2, most, 3, 0, 0, options.over);
  }
  return filter;
}

// For a worker whose CUDA context exists. `load` stays open until the artifact is loaded, then install again without
// it: filters add up and the stricter one wins.
struct Worker {
  bool load = true;         // read-only openat and its kin, for dlopen
  bool threads = false;     // clone of threads
  bool descriptors = true;  // recvmsg and sendmsg on sockets that are already open
};

// Calls that compute, wait, and talk over descriptors that are already open.
inline std::vector<long> worker_calls() {
  return {
      SYS_read, SYS_write, SYS_readv, SYS_writev, SYS_pread64, SYS_pwrite64, SYS_close, SYS_lseek, SYS_fstat, SYS_ioctl,
      SYS_ppoll, SYS_pselect6, SYS_epoll_pwait, SYS_epoll_ctl, SYS_epoll_create1, SYS_eventfd2, SYS_pipe2, SYS_dup,
      SYS_dup3, SYS_fcntl, SYS_mmap, SYS_munmap, SYS_mprotect, SYS_mremap, SYS_madvise, SYS_mincore, SYS_mlock,
      SYS_munlock, SYS_mbind, SYS_get_mempolicy, SYS_set_mempolicy, SYS_brk, SYS_futex, SYS_sched_yield,
      SYS_sched_getaffinity, SYS_sched_setaffinity, SYS_sched_getparam, SYS_sched_getscheduler, SYS_getcpu,
      SYS_nanosleep, SYS_clock_nanosleep, SYS_clock_gettime, SYS_clock_getres, SYS_gettimeofday, SYS_times, SYS_getpid,
      SYS_gettid, SYS_getppid, SYS_getuid, SYS_geteuid, SYS_getgid, SYS_getegid, SYS_getrusage, SYS_sysinfo, SYS_uname,
      SYS_getrandom, SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_rt_sigtimedwait, SYS_sigaltstack,
      SYS_set_robust_list, SYS_get_robust_list, SYS_set_tid_address, SYS_restart_syscall, SYS_membarrier, SYS_exit,
      SYS_exit_group, SYS_getcwd, SYS_timerfd_create, SYS_timerfd_settime, SYS_timerfd_gettime,
#ifdef SYS_rseq
      SYS_rseq,
#endif
#ifdef SYS_futex_waitv
      SYS_futex_waitv,
#endif
#if defined(__x86_64__)
      SYS_poll, SYS_select, SYS_epoll_wait, SYS_time, SYS_arch_prctl, SYS_pipe,
#endif
  };
}

inline Filter worker_filter(const Worker& options) {
  Filter filter;
  filter.on_all(worker_calls(), SECCOMP_RET_ALLOW);
  filter.on(SYS_clone3, fail(ENOSYS));
  const auto self = static_cast<uint32_t>(getpid());
  filter.on_argument(SYS_tgkill, 0, 0xFFFFFFFF, self, SECCOMP_RET_ALLOW, fail(EPERM));  // abort() and raise()
  filter.on_argument(SYS_prlimit64, 2, 0xFFFFFFFF, 0, SECCOMP_RET_ALLOW, fail(EPERM));  // reading only
  filter.on_argument(SYS_prctl, 0, 0xFFFFFFFF, PR_SET_NAME, SECCOMP_RET_ALLOW, fail(EPERM));
  if (options.threads)
    filter.on_argument(SYS_clone, 0, CLONE_THREAD | kNamespaceFlags, CLONE_THREAD, SECCOMP_RET_ALLOW, fail(EPERM));
  if (options.descriptors) filter.on_all({SYS_recvmsg, SYS_sendmsg}, SECCOMP_RET_ALLOW);
  if (options.load) {
    constexpr uint32_t kWriting = 01 | 02 | 0100 | 01000 | 020000000;  // WRONLY, RDWR, CREAT, TRUNC, TMPFILE
    filter.on_argument(SYS_openat, 2, kWriting, 0, SECCOMP_RET_ALLOW, fail(EPERM));
    filter.on_all({SYS_newfstatat, SYS_faccessat, SYS_readlinkat, SYS_statfs, SYS_getdents64, SYS_seccomp},
                  SECCOMP_RET_ALLOW);
#ifdef SYS_statx
    filter.on(SYS_statx, SECCOMP_RET_ALLOW);
#endif
#if defined(__x86_64__)
    filter.on_argument(SYS_open, 1, kWriting, 0, SECCOMP_RET_ALLOW, fail(EPERM));
    filter.on_all({SYS_stat, SYS_lstat, SYS_access, SYS_readlink}, SECCOMP_RET_ALLOW);
#endif
  }
  return filter;
}

// True when the filter is on for all threads of this process; else errno says why it is not.
inline bool install_worker(const Worker& options) {
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);  // the second time the first filter refuses it, and it stands already
  return worker_filter(options).install(fail(EPERM), SECCOMP_FILTER_FLAG_TSYNC) == 0;
}

}  // namespace warpsmith::seccomp
