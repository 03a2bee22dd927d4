//! Owns the judgement of every system call, by number.
//!
//! A call that is new to a kernel gets no answer here until somebody has
//! looked at it: numbers above [`NEWEST`] are answered `ENOSYS`, on which
//! libraries fall back. That every number up to it is judged, and none twice,
//! is checked when this is compiled.
//!
//! Some calls need no rule, because something else holds:
//! * signals to other processes (`kill`, …): the PID namespace has none but the
//!   cage's own, and Landlock's scope none outside. Limits and priorities have
//!   a rule only where there is no such namespace;
//! * changes by netlink, `adjtimex`, `setuid`, …: they need a capability, and
//!   there is none;
//! * set-user-id in `mkdir`: the kernel drops it.
//!
//! One thing is out of reach: `openat2` has its mode in memory, so that a file
//! with set-user-id can still be made by it. The view has `nosuid`, and whoever
//! takes a command's results drops such bits. Without `openat2` programs could
//! not open paths safely.

use libc::c_long;

use super::numbers;
use super::verdict::*;

/// The newest call that is judged.
pub(super) const NEWEST: usize = 471;

/// One number.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    name: &'static str,
    pub(super) verdict: Verdict,
}

impl Call {
    /// The call's name; empty for a number that no call has.
    pub(super) fn name(&self) -> &'static str {
        self.name.strip_prefix("SYS_").unwrap_or(self.name)
    }
}

type Row = (c_long, &'static str, Verdict);

/// Rows of calls with one verdict each: `VERDICT => CALL CALL …;`.
macro_rules! calls {
    ($($verdict:ident => $($call:ident)+;)+) => {
        &[$($((numbers::$call, stringify!($call), $verdict)),+),+]
    };
}

/// Calls of every architecture.
const COMMON: &[Row] = calls! {
    // Namespaces and mounts from inside; a root directory of one's own.
    REFUSE => SYS_unshare SYS_setns SYS_mount SYS_umount2 SYS_pivot_root SYS_chroot
        SYS_open_tree SYS_open_tree_attr SYS_move_mount SYS_mount_setattr
        SYS_fsopen SYS_fsconfig SYS_fsmount SYS_fspick;
    CLONE => SYS_clone;
    // Its flags are in memory, where no filter sees them; libraries fall back
    // to `clone`.
    MISSING => SYS_clone3;
    // Which namespaces there are is nothing that a program needs.
    QUIET => SYS_listns;
    // Other processes' memory and descriptors. Allocators call
    // `process_madvise` on themselves, and graphics libraries `kcmp`.
    REFUSE => SYS_ptrace SYS_process_vm_readv SYS_process_vm_writev SYS_pidfd_getfd;
    QUIET => SYS_process_madvise SYS_kcmp;
    // Large parts of the kernel that agents have no use for. Runtimes try
    // io_uring when they start and use threads instead.
    REFUSE => SYS_bpf SYS_perf_event_open SYS_userfaultfd
        SYS_add_key SYS_request_key SYS_keyctl;
    QUIET => SYS_io_uring_setup SYS_io_uring_enter SYS_io_uring_register;
    // The machine as a whole.
    REFUSE => SYS_init_module SYS_finit_module SYS_delete_module
        SYS_kexec_load SYS_kexec_file_load SYS_reboot SYS_swapon SYS_swapoff
        SYS_settimeofday SYS_clock_settime SYS_sethostname SYS_setdomainname
        SYS_acct SYS_quotactl SYS_quotactl_fd SYS_syslog SYS_vhangup
        SYS_fanotify_init SYS_fanotify_mark SYS_open_by_handle_at;
    // The kernel has dropped them, so nothing is prevented.
    QUIET => SYS_lookup_dcookie SYS_nfsservctl;
    // By their arguments.
    PERSONALITY => SYS_personality;
    IOCTL => SYS_ioctl;
    SOCKET => SYS_socket;
    PAIR => SYS_socketpair;
    MODE_1 => SYS_fchmod;
    MODE_2 => SYS_fchmodat SYS_fchmodat2;
    OPENAT => SYS_openat;
    MKNODAT => SYS_mknodat;
    // Files and directories.
    ALLOW => SYS_openat2 SYS_close SYS_close_range SYS_read SYS_write SYS_readv SYS_writev
        SYS_pread64 SYS_pwrite64 SYS_preadv SYS_pwritev SYS_preadv2 SYS_pwritev2
        SYS_lseek SYS_sendfile SYS_splice SYS_tee SYS_vmsplice SYS_copy_file_range
        SYS_truncate SYS_ftruncate SYS_fallocate SYS_fadvise64 SYS_readahead
        SYS_sync SYS_syncfs SYS_fsync SYS_fdatasync SYS_sync_file_range
        SYS_fstat SYS_newfstatat SYS_statx SYS_statfs SYS_fstatfs SYS_cachestat
        SYS_getdents64 SYS_getcwd SYS_chdir SYS_fchdir SYS_faccessat SYS_faccessat2
        SYS_mkdirat SYS_unlinkat SYS_symlinkat SYS_linkat SYS_readlinkat
        SYS_fchown SYS_fchownat SYS_utimensat SYS_umask
        SYS_flock SYS_dup SYS_dup3 SYS_pipe2 SYS_name_to_handle_at
        SYS_setxattr SYS_lsetxattr SYS_fsetxattr SYS_setxattrat
        SYS_getxattr SYS_lgetxattr SYS_fgetxattr SYS_getxattrat
        SYS_listxattr SYS_llistxattr SYS_flistxattr SYS_listxattrat
        SYS_removexattr SYS_lremovexattr SYS_fremovexattr SYS_removexattrat
        SYS_file_getattr SYS_file_setattr
        SYS_inotify_init1 SYS_inotify_add_watch SYS_inotify_rm_watch;
    // Where directories are renamed for the command. Whoever has file rules of
    // its own must not be served by somebody who has them not.
    ASKED => SYS_renameat SYS_renameat2 SYS_landlock_restrict_self;
    // What is mounted can be read in procfs as well.
    ALLOW => SYS_statmount SYS_listmount;
    // Waiting for descriptors; transfers in the background.
    ALLOW => SYS_epoll_create1 SYS_epoll_ctl SYS_epoll_pwait SYS_epoll_pwait2
        SYS_ppoll SYS_pselect6 SYS_eventfd2 SYS_signalfd4
        SYS_timerfd_create SYS_timerfd_settime SYS_timerfd_gettime
        SYS_io_destroy SYS_io_submit SYS_io_cancel SYS_io_getevents
        SYS_io_pgetevents;
    // Its requests are counted for the whole machine; libraries do without.
    MISSING => SYS_io_setup;
    // Memory.
    ALLOW => SYS_mmap SYS_munmap SYS_mprotect SYS_mremap SYS_brk SYS_madvise SYS_msync
        SYS_mincore SYS_mlock SYS_mlock2 SYS_munlock SYS_mlockall SYS_munlockall
        SYS_mseal SYS_remap_file_pages SYS_memfd_create SYS_memfd_secret
        SYS_map_shadow_stack SYS_pkey_mprotect SYS_pkey_alloc SYS_pkey_free
        SYS_mbind SYS_get_mempolicy SYS_set_mempolicy SYS_set_mempolicy_home_node
        SYS_membarrier;
    // Processes and threads.
    ALLOW => SYS_execve SYS_execveat SYS_exit SYS_exit_group SYS_wait4 SYS_waitid
        SYS_getpid SYS_getppid SYS_gettid SYS_set_tid_address SYS_setsid SYS_getsid
        SYS_setpgid SYS_getpgid SYS_pidfd_open SYS_pidfd_send_signal SYS_process_mrelease
        SYS_prctl SYS_seccomp SYS_landlock_create_ruleset SYS_landlock_add_rule
        SYS_futex SYS_futex_waitv SYS_futex_wake
        SYS_futex_wait SYS_futex_requeue SYS_set_robust_list SYS_get_robust_list
        SYS_rseq SYS_rseq_slice_yield SYS_restart_syscall
        SYS_lsm_get_self_attr SYS_lsm_set_self_attr SYS_lsm_list_modules;
    // Users: changes need a capability, except back to what one is.
    ALLOW => SYS_getuid SYS_geteuid SYS_getgid SYS_getegid SYS_getresuid SYS_getresgid
        SYS_getgroups SYS_setuid SYS_setgid SYS_setreuid SYS_setregid SYS_setresuid
        SYS_setresgid SYS_setfsuid SYS_setfsgid SYS_setgroups SYS_capget SYS_capset;
    // Scheduling and limits of others, where they are seen: a thread can then
    // not pin another one of its own process either.
    OTHER => SYS_sched_setscheduler SYS_sched_setparam SYS_sched_setattr
        SYS_sched_setaffinity SYS_migrate_pages SYS_move_pages;
    // Never of others: the keeper of the cage is one of them, and would be
    // blind without descriptors.
    ONLY_OWN => SYS_prlimit64;
    // Leases hold up whoever opens the file outside.
    FCNTL => SYS_fcntl;
    OTHER_PRIORITY => SYS_setpriority;
    OTHER_IO => SYS_ioprio_set;
    // Scheduling and limits.
    ALLOW => SYS_sched_yield SYS_sched_getscheduler
        SYS_sched_getparam SYS_sched_getattr
        SYS_sched_getaffinity SYS_sched_get_priority_max
        SYS_sched_get_priority_min SYS_sched_rr_get_interval SYS_getpriority
        SYS_ioprio_get SYS_getcpu SYS_getrlimit
        SYS_setrlimit SYS_getrusage SYS_times SYS_sysinfo SYS_uname;
    // Signals.
    ALLOW => SYS_kill SYS_tkill SYS_tgkill SYS_rt_sigaction SYS_rt_sigprocmask
        SYS_rt_sigpending SYS_rt_sigtimedwait SYS_rt_sigsuspend SYS_rt_sigreturn
        SYS_rt_sigqueueinfo SYS_rt_tgsigqueueinfo SYS_sigaltstack;
    // Time: setting it by `adjtimex` needs a capability.
    ALLOW => SYS_clock_gettime SYS_clock_getres SYS_clock_nanosleep SYS_clock_adjtime
        SYS_adjtimex SYS_gettimeofday SYS_nanosleep SYS_getitimer SYS_setitimer
        SYS_timer_create SYS_timer_settime SYS_timer_gettime SYS_timer_getoverrun
        SYS_timer_delete SYS_getrandom;
    // Sockets that exist.
    ALLOW => SYS_bind SYS_listen SYS_accept SYS_accept4 SYS_connect SYS_shutdown
        SYS_getsockname SYS_getpeername SYS_setsockopt SYS_getsockopt
        SYS_sendto SYS_recvfrom SYS_sendmsg SYS_recvmsg SYS_sendmmsg SYS_recvmmsg;
    // Shared memory, semaphores and queues: the cage's own, where it has a
    // namespace for them.
    KEYED => SYS_shmget SYS_shmat SYS_shmctl SYS_semget SYS_semop SYS_semtimedop
        SYS_semctl SYS_msgget SYS_msgsnd SYS_msgrcv SYS_msgctl SYS_mq_open SYS_mq_unlink;
    ALLOW => SYS_shmdt SYS_mq_timedsend SYS_mq_timedreceive SYS_mq_notify SYS_mq_getsetattr;
};

#[cfg(target_arch = "x86_64")]
const HERE: &[Row] = calls! {
    // Ports of the machine; segments of sixteen-bit programs; calls that the
    // kernel has dropped.
    REFUSE => SYS_iopl SYS_ioperm;
    QUIET => SYS_modify_ldt SYS_uselib SYS__sysctl;
    MODE_1 => SYS_chmod;
    CREAT => SYS_creat;
    OPEN => SYS_open;
    MKNOD => SYS_mknod;
    ASKED => SYS_rename;
    ALLOW => SYS_stat SYS_lstat SYS_access SYS_getdents SYS_mkdir SYS_rmdir
        SYS_link SYS_unlink SYS_symlink SYS_readlink SYS_chown SYS_lchown
        SYS_utime SYS_utimes SYS_futimesat SYS_ustat SYS_sysfs
        SYS_poll SYS_select SYS_epoll_create SYS_epoll_wait SYS_eventfd SYS_signalfd
        SYS_inotify_init SYS_pipe SYS_dup2 SYS_fork SYS_vfork SYS_getpgrp SYS_pause
        SYS_alarm SYS_time SYS_arch_prctl SYS_uretprobe SYS_uprobe;
    // The kernel has had none of these for longer than it has had Landlock.
    MISSING => SYS_create_module SYS_get_kernel_syms SYS_query_module SYS_getpmsg
        SYS_putpmsg SYS_afs_syscall SYS_tuxcall SYS_security SYS_vserver
        SYS_epoll_ctl_old SYS_epoll_wait_old SYS_set_thread_area SYS_get_thread_area;
};

#[cfg(target_arch = "aarch64")]
const HERE: &[Row] = &[];

/// Numbers that no call has, each range with both its ends.
#[cfg(target_arch = "x86_64")]
const GAPS: &[(usize, usize)] = &[(337, 423)];
#[cfg(target_arch = "aarch64")]
const GAPS: &[(usize, usize)] = &[(244, 259), (295, 423)];

/// Every number, judged.
pub(super) static TABLE: [Call; NEWEST + 1] = judged();

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "numbers of calls are small and not negative; no conversion is const"
)]
const fn judged() -> [Call; NEWEST + 1] {
    const NOBODY: Call = Call {
        name: "",
        verdict: MISSING,
    };
    let mut table = [NOBODY; NEWEST + 1];
    let mut known = [false; NEWEST + 1];
    let lists = [COMMON, HERE];
    let mut list = 0;
    while list < lists.len() {
        let mut row = 0;
        while row < lists[list].len() {
            let (number, name, verdict) = lists[list][row];
            let number = number as usize;
            assert!(!known[number], "a call is judged twice");
            known[number] = true;
            table[number] = Call { name, verdict };
            row += 1;
        }
        list += 1;
    }
    let mut gap = 0;
    while gap < GAPS.len() {
        let mut number = GAPS[gap].0;
        while number <= GAPS[gap].1 {
            assert!(!known[number], "a call is said not to exist, and judged");
            known[number] = true;
            number += 1;
        }
        gap += 1;
    }
    let mut number = 0;
    while number < known.len() {
        assert!(known[number], "a call is not judged");
        number += 1;
    }
    table
}
