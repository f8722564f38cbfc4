//! How strongly the kernel of this machine holds a node: each tier is tried, not looked up.

use crate::broker::program;
use crate::cage::{Failure, Groups, LANDLOCK_F, LANDLOCK_K, Machine, Namespaces, Observed, attempt};
use crate::host;
use crate::runtime::Tier;

use super::Check;

/// Measures everything that any tier needs.
pub(super) fn measure() -> std::io::Result<Machine> {
    Ok(Machine::measure_for(Tier::C, &host::this_binary()?))
}

pub(super) fn checks(machine: &Machine, checks: &mut Vec<Check>) -> std::io::Result<()> {
    checks.push(Check::note("kernel", kernel()));
    checks.push(tier_k(machine, &host::this_binary()?));
    checks.push(tier_n(machine));
    checks.push(tier_c(machine));
    let path = host::env_var("PATH").unwrap_or_default();
    checks.push(Check::note(
        "git",
        match program("git", &path.to_string_lossy()) {
            Ok(git) => git.display().to_string(),
            Err(_) => "not found; not used yet".to_owned(),
        },
    ));
    Ok(())
}

/// A small file of the kernel's, as a line.
fn line(path: &str) -> std::io::Result<String> {
    std::fs::read_to_string(path).map(|text| text.trim_end().to_owned())
}

fn kernel() -> String {
    let machine = std::env::consts::ARCH;
    match line("/proc/sys/kernel/osrelease") {
        Ok(release) => format!("Linux {release} on {machine}"),
        Err(error) => format!("Linux on {machine}; its release cannot be read: {error}"),
    }
}

fn tier_k(machine: &Machine, itself: &std::path::Path) -> Check {
    const NAME: &str = "tier K";
    let abi = match (&machine.landlock, &machine.seccomp) {
        (Err(why), _) => {
            return Check::note(NAME, format!("missing: {why}"))
                .fix("a kernel of Linux 6.12 or later, with Landlock among its security modules");
        }
        (_, Err(why)) => {
            return Check::note(NAME, format!("missing: {why}")).fix("a kernel with seccomp filters");
        }
        (Ok(abi), Ok(())) => *abi,
    };
    if abi < LANDLOCK_F {
        return Check::note(NAME, format!("missing: Landlock {abi} is too old for any tier but 0"))
            .fix("a kernel of Linux 6.12 or later; 6.2 for tier F");
    }
    if abi < LANDLOCK_K {
        return Check::note(
            NAME,
            format!(
                "missing: Landlock {abi} confines no signals; tier F holds, without \"dies with its node\""
            ),
        )
        .fix("a kernel of Linux 6.12 or later, or `tier: F` in the policy");
    }
    match attempt(itself, Tier::K) {
        Ok(observed) => Check::ok(NAME, held(&observed)),
        Err(failure) => Check::note(NAME, missing(&failure)),
    }
}

fn tier_n(machine: &Machine) -> Check {
    const NAME: &str = "tier N";
    match &machine.namespaces {
        Namespaces::Hold(observed) => Check::ok(NAME, held(observed)),
        Namespaces::Missing(failure) => Check::note(NAME, missing(failure)),
        Namespaces::NotMeasured => Check::note(NAME, "missing: it needs tier K"),
    }
}

fn tier_c(machine: &Machine) -> Check {
    const NAME: &str = "tier C";
    match (machine.tier() >= Tier::N, &machine.groups) {
        (true, Groups::Divided { counted: true }) => {
            Check::ok(NAME, "holds here: a control group was made, and its processes are counted")
        }
        (true, Groups::Divided { counted: false }) => Check::ok(
            NAME,
            "holds here: a control group was made; it can be ended at once, and its processes are not counted",
        ),
        (true, Groups::Missing(why)) => Check::note(NAME, format!("missing: {why}")).fix(
            "a control group of version 2 that is this user's: `systemd-run --user --scope -p Delegate=yes`",
        ),
        (false, _) | (_, Groups::NotMeasured) => Check::note(NAME, "missing: it needs tier N"),
    }
}

fn held(observed: &Observed) -> String {
    let abi = observed.landlock.map(|abi| format!(" with Landlock {abi}")).unwrap_or_default();
    format!("holds here{abi}; {} things were tried from inside, and each was denied", observed.denied.len())
}

fn missing(failure: &Failure) -> String {
    match &failure.feature {
        Some(feature) => format!("missing: `{feature}`: {}", failure.message),
        None => format!("cannot be tried: {}", failure.message),
    }
}
