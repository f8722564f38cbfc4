//! Which system calls a node may not make: what no rule of Landlock reaches.

use libc::c_long;

use crate::kernel_spec::{KernelSpec, Network, Programs};

use super::filter::{Answer, Condition, Rules};

const DENIED: Answer = Answer::Error(libc::EPERM);

/// Calls that no node makes: they reach other processes, the kernel itself, or undo a cage.
const NEVER: &[c_long] = &[
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Other name spaces and mounts.
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_open_by_handle_at,
    SYS_STATMOUNT,
    SYS_LISTMOUNT,
    // Calls by another road, past these rules.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // The kernel.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_fanotify_init,
    libc::SYS_lookup_dcookie,
    libc::SYS_vhangup,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_syslog,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
    // Memory and queues that outlive a node and have no place in the file system.
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
];

/// What else `x86_64` has.
#[cfg(target_arch = "x86_64")]
const NEVER_HERE: &[c_long] = &[libc::SYS_iopl, libc::SYS_ioperm, libc::SYS_modify_ldt, libc::SYS_uselib];
#[cfg(not(target_arch = "x86_64"))]
const NEVER_HERE: &[c_long] = &[];

/// What changes modes, owners, times and attributes of files, which no rule bounds by place.
const METADATA: &[c_long] = &[
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    SYS_FCHMODAT2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    SYS_SETXATTRAT,
    SYS_REMOVEXATTRAT,
    SYS_FILE_SETATTR,
];
#[cfg(target_arch = "x86_64")]
const METADATA_HERE: &[c_long] = &[
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_futimesat,
];
#[cfg(not(target_arch = "x86_64"))]
const METADATA_HERE: &[c_long] = &[];

/// The same by `ioctl`, which needs no right to write: flags, versions, and that a file never changes again.
const METADATA_REQUESTS: [u32; 4] = [0x4008_6602, 0x4008_7602, 0x401c_5820, 0x4080_6685];

// Newer than the library's list; the same numbers on every architecture.
const SYS_FCHMODAT2: c_long = 452;
const SYS_STATMOUNT: c_long = 457;
const SYS_LISTMOUNT: c_long = 458;
const SYS_SETXATTRAT: c_long = 463;
const SYS_REMOVEXATTRAT: c_long = 466;
const SYS_FILE_SETATTR: c_long = 469;

/// Calls that say of another process by its id what it may use. The own one is 0.
const OF_PROCESS: &[c_long] = &[
    libc::SYS_prlimit64,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler,
];

/// The flags of `clone` and `unshare` that make name spaces.
const NAMESPACES: u32 = 0x7e02_0080;

/// What `setpriority` and `ioprio_set` call the processes of a user.
const PRIO_USER: u32 = 2;
const IOPRIO_WHO_USER: u32 = 3;

/// Puts text into a terminal as if it had been typed, by two requests.
const TIOCSTI: u32 = 0x5412;
const TIOCLINUX: u32 = 0x541c;

/// The rules of a node.
pub(super) fn rules_of(spec: &KernelSpec) -> Rules {
    rules(spec.programs, spec.metadata, &spec.network)
}

pub(super) fn rules(programs: Programs, metadata: bool, network: &Network) -> Rules {
    use Condition::{Has, Is, IsNot};
    let mut rules = Rules::default();
    rules.always(NEVER, DENIED);
    rules.always(NEVER_HERE, DENIED);
    if !metadata {
        rules.always(METADATA, DENIED);
        rules.always(METADATA_HERE, DENIED);
        for request in METADATA_REQUESTS {
            rules.when(&[libc::SYS_ioctl], &[Is(1, request)], DENIED);
        }
    }
    rules.when(OF_PROCESS, &[IsNot(0, 0)], DENIED);
    for (call, user) in [(libc::SYS_setpriority, PRIO_USER), (libc::SYS_ioprio_set, IOPRIO_WHO_USER)] {
        rules.when(&[call], &[IsNot(1, 0)], DENIED);
        // All processes of a user, the own one being 0 too.
        rules.when(&[call], &[Is(0, user)], DENIED);
    }
    for request in [TIOCSTI, TIOCLINUX] {
        rules.when(&[libc::SYS_ioctl], &[Is(1, request)], DENIED);
    }
    rules.when(&[libc::SYS_unshare], &[Has(0, NAMESPACES)], DENIED);
    // Its low byte is a signal, so the one flag there means something else.
    rules.when(&[libc::SYS_clone], &[Has(0, NAMESPACES & !0xff)], DENIED);
    if programs == Programs::OwnOnly {
        rules.always(&[libc::SYS_memfd_create], DENIED);
        rules.always(&[libc::SYS_execve, libc::SYS_execveat], Answer::Ask);
    }
    sockets(network, &mut rules);
    rules
}

/// A node has no socket but those that it is given: each of them is connected already, to the proxy of its
/// broker. So there is nothing to bind, listen on or accept, and connecting does nothing.
fn sockets(network: &Network, rules: &mut Rules) {
    use Condition::{Has, Is, IsNot};
    const INET: u32 = libc::AF_INET.unsigned_abs();
    const INET6: u32 = libc::AF_INET6.unsigned_abs();
    const UNIX: u32 = libc::AF_UNIX.unsigned_abs();
    const TCP: u32 = libc::IPPROTO_TCP.unsigned_abs();
    // The kinds of sockets but streams, and with pairs but those that are pointed nowhere else later.
    const NO_STREAM: u32 = 2 | 4 | 8;
    const NO_PAIR: u32 = 2 | 8;
    rules.when(&[libc::SYS_socketpair], &[IsNot(0, UNIX)], DENIED);
    rules.when(&[libc::SYS_socketpair], &[Has(1, NO_PAIR)], DENIED);
    rules.always(&[libc::SYS_bind, libc::SYS_listen, libc::SYS_accept, libc::SYS_accept4], DENIED);
    if *network == Network::None {
        rules.always(&[libc::SYS_socket, libc::SYS_connect], DENIED);
        return;
    }
    let socket = [libc::SYS_socket];
    // Programs go on with the other family.
    rules.when(&socket, &[Is(0, INET6)], Answer::Error(libc::EAFNOSUPPORT));
    rules.when(&socket, &[IsNot(0, INET)], DENIED);
    rules.when(&socket, &[Has(1, NO_STREAM)], DENIED);
    rules.when(&socket, &[IsNot(2, 0), IsNot(2, TCP)], DENIED);
    rules.always(&socket, Answer::Ask);
    rules.always(&[libc::SYS_connect], Answer::Error(0));
    // One that was closed from afar could be connected again by sending, past every rule for connecting.
    const FASTOPEN: u32 = 0x2000_0000;
    rules.when(&[libc::SYS_sendto, libc::SYS_sendmmsg], &[Has(3, FASTOPEN)], DENIED);
    rules.when(&[libc::SYS_sendmsg], &[Has(2, FASTOPEN)], DENIED);
    const TCP_FASTOPEN: u32 = 23;
    const TCP_FASTOPEN_CONNECT: u32 = 30;
    for option in [TCP_FASTOPEN, TCP_FASTOPEN_CONNECT] {
        rules.when(&[libc::SYS_setsockopt], &[Is(1, TCP), Is(2, option)], DENIED);
    }
}
