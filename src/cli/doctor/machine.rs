//! What the kernel of this machine offers. None of it is used yet: each line says that.

use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};

use crate::broker::program;
use crate::host;

use super::Check;

/// What follows what is there and does nothing.
const UNUSED: &str = "present here, not used yet";

pub(super) fn checks(checks: &mut Vec<Check>) {
    checks.push(Check::note("kernel", kernel()));
    checks.push(Check::note("landlock", landlock()));
    checks.push(Check::note("seccomp", seccomp()));
    checks.push(Check::note("namespaces", user_namespaces()));
    checks.push(Check::note("cgroup", control_group()));
    let path = host::env_var("PATH").unwrap_or_default();
    checks.push(Check::note(
        "git",
        match program("git", &path.to_string_lossy()) {
            Ok(git) => format!("{}: {UNUSED}", git.display()),
            Err(_) => "not found; not used yet".to_owned(),
        },
    ));
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

/// The list of active modules is all that can be asked without a system call that has no safe form.
fn landlock() -> String {
    match line("/sys/kernel/security/lsm") {
        Ok(modules) if modules.split(',').any(|module| module == "landlock") => {
            format!("{UNUSED}; its ABI is not asked")
        }
        Ok(modules) => format!("not among the active security modules ({modules})"),
        Err(error) => format!("not asked: /sys/kernel/security/lsm cannot be read ({error})"),
    }
}

fn seccomp() -> String {
    let filters = match line("/proc/sys/kernel/seccomp/actions_avail") {
        Ok(actions) if actions.split(' ').any(|action| action == "errno") => format!("filters {UNUSED}"),
        Ok(actions) => format!("filters cannot refuse a call here ({actions})"),
        Err(error) => format!("no filters: /proc/sys/kernel/seccomp/actions_avail cannot be read ({error})"),
    };
    let status = line("/proc/self/status").unwrap_or_default();
    let mode = status.lines().find_map(|line| line.strip_prefix("Seccomp:")).map(str::trim);
    match mode {
        Some("2") => format!("{filters}; this process is itself under a filter"),
        Some(_) | None => filters,
    }
}

fn user_namespaces() -> String {
    let is = |path: &str, value: &str| line(path).is_ok_and(|line| line == value);
    match line("/proc/sys/user/max_user_namespaces") {
        Err(_) => "the kernel has no user namespaces".to_owned(),
        Ok(most) if most == "0" => {
            "user namespaces are switched off (user.max_user_namespaces is 0)".to_owned()
        }
        Ok(_) if is("/proc/sys/kernel/unprivileged_userns_clone", "0") => {
            "user namespaces are for root alone (kernel.unprivileged_userns_clone is 0)".to_owned()
        }
        Ok(_) if is("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1") => {
            "user namespaces are narrowed by AppArmor (kernel.apparmor_restrict_unprivileged_userns is 1)"
                .to_owned()
        }
        Ok(most) => format!("user namespaces {UNUSED}; at most {most}"),
    }
}

/// Whether this process's own group of version 2 is this user's to divide.
fn control_group() -> String {
    let mounts = line("/proc/self/mountinfo").unwrap_or_default();
    let Some(mount) = mounts.lines().find_map(mounted_at) else {
        return "no control groups of version 2 are mounted".to_owned();
    };
    let groups = line("/proc/self/cgroup").unwrap_or_default();
    let Some(own) = groups.lines().find_map(|line| line.strip_prefix("0::/")) else {
        return format!("version 2 at {}; which group this process is in cannot be told", mount.display());
    };
    let group = if own.is_empty() { mount } else { mount.join(own) };
    let is_own = |path: &Path| {
        use std::os::unix::fs::MetadataExt;
        path.metadata().is_ok_and(|found| found.uid() == host::uid())
            && access(path, AccessFlags::W_OK).is_ok()
    };
    let delegated = is_own(&group) && is_own(&group.join("cgroup.procs"));
    let place = group.display();
    if delegated {
        format!("version 2, this user's to divide at {place}: {UNUSED}")
    } else {
        format!("version 2, not this user's to divide at {place}")
    }
}

/// The mount point in a line of `mountinfo`, where a control group of version 2 is mounted there.
fn mounted_at(line: &str) -> Option<PathBuf> {
    let (mount, file_system) = line.split_once(" - ")?;
    let is_version_2 = file_system.split(' ').next() == Some("cgroup2");
    is_version_2.then(|| mount.split(' ').nth(4).map(PathBuf::from)).flatten()
}
