//! What the kernel of this machine offers, as measured.

use std::path::Path;
use std::process::{Command, Stdio};

use nix::errno::Errno;

use crate::kernel_spec::{Access, KernelSpec, MAX_PROCESSES, Network, PathRule, Place, Programs};
use crate::runtime::Tier;

use super::cgroup::Group;
use super::wire::{self, Failure, FromGuard, Observed, Start, ToGuard};
use super::{GUARD, sys};

/// The oldest interface of Landlock with which a node's processes are one domain that is ended at once.
pub const LANDLOCK_K: u32 = 6;
/// The oldest one that holds files against being cut short.
pub const LANDLOCK_F: u32 = 3;

/// What a tier needs of a machine, and what it holds there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct About {
    /// The tier.
    pub tier: Tier,
    /// What it needs.
    pub needs: &'static str,
    /// What holds there.
    pub holds: &'static str,
}

/// Every tier, the weakest first.
pub const TIERS: [About; 5] = [
    About {
        tier: Tier::Zero,
        needs: "nothing",
        holds: "nothing in the kernel: the runtime's own flags, and the broker",
    },
    About {
        tier: Tier::F,
        needs: "Landlock 3 (Linux 6.2), seccomp",
        holds: "files, programs and sockets; what a node leaves behind is looked for and ended, one by one",
    },
    About {
        tier: Tier::K,
        needs: "Landlock 6 (Linux 6.12), seccomp",
        holds: "files, programs, sockets and signals; a node ends as one, with its guard",
    },
    About {
        tier: Tier::N,
        needs: "tier K, unprivileged user namespaces",
        holds: "as K, and what is not granted is not even there: files, processes, network",
    },
    About {
        tier: Tier::C,
        needs: "tier N, a control group of this user's",
        holds: "as N, in a control group: ended at once, and counted where the kernel counts",
    },
];

/// What was measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The version of Landlock's interface, or why there is none.
    pub landlock: Result<u32, String>,
    /// Whether system calls can be filtered, or why not.
    pub seccomp: Result<(), String>,
    /// Whether a cage in name spaces of its own holds; measured by making one, where it was asked for.
    pub namespaces: Namespaces,
    /// Whether this process's control group is its user's to divide, and whether processes are counted
    /// there; measured by dividing it, where it was asked for.
    pub groups: Groups,
}

/// What is known of control groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Groups {
    /// Nobody asked.
    NotMeasured,
    /// One was made; whether the kernel counts the processes in it.
    Divided {
        /// Whether a number of processes can be held.
        counted: bool,
    },
    /// None could be made; why.
    Missing(String),
}

/// What is known of cages in name spaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Namespaces {
    /// Nobody asked.
    NotMeasured,
    /// One was made, and tried from inside.
    Hold(Observed),
    /// None could be made.
    Missing(Failure),
}

impl Machine {
    /// Measures what tier K and those below it need: no process is started.
    #[must_use]
    pub fn measure() -> Self {
        Self {
            landlock: landlock(),
            seccomp: seccomp(),
            namespaces: Namespaces::NotMeasured,
            groups: Groups::NotMeasured,
        }
    }

    /// Measures all that this tier needs. `itself` is this binary.
    #[must_use]
    pub fn measure_for(tier: Tier, itself: &Path) -> Self {
        let machine = Self::measure();
        if tier < Tier::N || machine.tier() < Tier::K {
            return machine;
        }
        let namespaces = match attempt(itself, Tier::N) {
            Ok(observed) => Namespaces::Hold(observed),
            Err(failure) => Namespaces::Missing(failure),
        };
        let groups = match tier {
            Tier::C => groups(),
            Tier::Zero | Tier::F | Tier::K | Tier::N => Groups::NotMeasured,
        };
        Self { namespaces, groups, ..machine }
    }

    /// The strongest tier that these give.
    #[must_use]
    pub fn tier(&self) -> Tier {
        match (&self.landlock, &self.seccomp) {
            (Ok(abi), Ok(())) if *abi >= LANDLOCK_K => match (&self.namespaces, &self.groups) {
                (Namespaces::Hold(_), Groups::Divided { .. }) => Tier::C,
                (Namespaces::Hold(_), _) => Tier::N,
                (Namespaces::NotMeasured | Namespaces::Missing(_), _) => Tier::K,
            },
            (Ok(abi), Ok(())) if *abi >= LANDLOCK_F => Tier::F,
            _ => Tier::Zero,
        }
    }
}

impl Machine {
    /// The tier that holds a node where the policy demands this one; a weaker one where there is no more.
    #[must_use]
    pub fn in_force(&self, demanded: Tier) -> Tier {
        match demanded {
            // The operator's word for no cage at all.
            Tier::Zero => Tier::Zero,
            // All of F and more, where it is there.
            Tier::F | Tier::K => self.tier().min(Tier::K),
            Tier::N | Tier::C => self.tier().min(demanded),
        }
    }

    /// What is missing of a tier, in words that name the feature; nothing where all of it was measured to
    /// be there.
    #[must_use]
    pub fn lacks(&self, tier: Tier) -> Option<String> {
        let needed = match tier {
            Tier::Zero => return None,
            Tier::F => LANDLOCK_F,
            Tier::K | Tier::N | Tier::C => LANDLOCK_K,
        };
        match &self.landlock {
            Err(why) => return Some(format!("`landlock`: {why}")),
            Ok(abi) if *abi < needed => {
                let feature = if needed == LANDLOCK_K { "landlock.scope" } else { "landlock" };
                return Some(format!(
                    "`{feature}`: it came with version {needed} of Landlock's interface, and this kernel has {abi}"
                ));
            }
            Ok(_) => {}
        }
        if let Err(why) = &self.seccomp {
            return Some(format!("`seccomp`: {why}"));
        }
        let why_not = |failure: &Failure| {
            let feature = failure.feature.as_deref().unwrap_or("namespaces");
            format!("`{feature}`: {}", failure.message)
        };
        match (&self.namespaces, &self.groups) {
            (Namespaces::Missing(failure), _) if tier >= Tier::N => Some(why_not(failure)),
            (_, Groups::Missing(why)) if tier >= Tier::C => Some(format!("`cgroup`: {why}")),
            _ => None,
        }
    }
}

fn groups() -> Groups {
    match Group::make(&crate::host::new_id().to_string(), MAX_PROCESSES) {
        Ok((_, counted)) => Groups::Divided { counted },
        Err(error) => Groups::Missing(error.to_string()),
    }
}

fn landlock() -> Result<u32, String> {
    sys::landlock_abi().map_err(|error| {
        if error == Errno::ENOSYS {
            "the kernel was built without Landlock".to_owned()
        } else if error == Errno::EOPNOTSUPP {
            "Landlock is switched off: add `landlock` to `lsm=` of the kernel".to_owned()
        } else {
            format!("Landlock cannot be asked: {error}")
        }
    })
}

fn seccomp() -> Result<(), String> {
    const ACTIONS: &str = "/proc/sys/kernel/seccomp/actions_avail";
    let actions =
        std::fs::read_to_string(ACTIONS).map_err(|error| format!("{ACTIONS} cannot be read: {error}"))?;
    for needed in ["errno", "kill_process", "user_notif"] {
        if !actions.split_whitespace().any(|action| action == needed) {
            return Err(format!("the kernel's filters lack `{needed}`"));
        }
    }
    Ok(())
}

/// Makes a cage of this tier around nothing, has it tried from inside, and ends it.
///
/// # Errors
/// What is missing or does not hold.
pub fn attempt(itself: &Path, tier: Tier) -> Result<Observed, Failure> {
    let (line, theirs) = wire::line().map_err(Failure::other)?;
    let guard = Command::new(itself)
        .arg(GUARD)
        .env_clear()
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut guard = guard.map_err(Failure::other)?;
    let stdin = std::fs::File::open("/dev/null").map_err(Failure::other)?;
    let start = ToGuard::Start(Box::new(nothing(tier)));
    let said = wire::send(&line, &start, &[std::os::fd::AsFd::as_fd(&stdin)])
        .and_then(|()| wire::receive::<FromGuard>(&line));
    // The guard ends what is there when its line breaks.
    drop(line);
    let _ = guard.wait();
    match said.map_err(Failure::other)? {
        Some((FromGuard::Ready { observed, .. }, _)) => Ok(observed),
        Some((FromGuard::Failed(failure), _)) => Err(failure),
        Some((FromGuard::Connected | FromGuard::Exited(_) | FromGuard::Ended { .. }, _)) | None => {
            Err(Failure::other("the guard ended before it could begin"))
        }
    }
}

/// A node that may do nothing.
fn nothing(tier: Tier) -> Start {
    let rule = |path: &str| PathRule { place: Place::System(path.to_owned()), access: Access::RUN };
    Start {
        spec: KernelSpec {
            tier,
            workspace: "/tmp".to_owned(),
            private: "/tmp".to_owned(),
            paths: ["/usr", "/bin", "/lib", "/lib64"].map(rule).to_vec(),
            programs: Programs::OwnOnly,
            metadata: false,
            network: Network::None,
            processes: MAX_PROCESSES,
        },
        program: "/bin/true".to_owned(),
        argv: vec!["true".to_owned()],
        outside: "/dev/full".to_owned(),
        group: None,
    }
}
