//! A caged start, from the call to the end of everything it started.

use std::path::Path;
use std::process::{Command, Stdio};

use depute::cage::{self, Keeper, Machine, Start, Word};
use depute::kernel_spec::{Access, KernelSpec, MAX_PROCESSES, Network, PathRule, Place, Programs};
use depute::runtime::Tier;

use super::measure::{alternating, quantile, ratio, report};

const ROUNDS: usize = 200;
const DEPUTE: &str = env!("CARGO_BIN_EXE_depute");
/// What a broker that has grown holds in memory.
const RESIDENT: usize = 2 * 1024 * 1024 * 1024;

pub(super) fn run() {
    let scratch = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let caged = |tier| runtime.block_on(caged(tier, scratch.path()));
    let machine = Machine::measure_for(Tier::N, Path::new(DEPUTE));
    if machine.tier() < Tier::K {
        return println!("spawn: no tier above 0 here, so nothing is measured");
    }

    let times = alternating(ROUNDS, bare_twice, || caged(Tier::K));
    say("tier K over two bare re-executions", "<= 1.5 ×", &times, |ratio| ratio <= 1.5);
    let unshared = || bubblewrap(scratch.path());
    let has_bubblewrap = Command::new("bwrap").arg("--version").stdout(Stdio::null()).status().is_ok();
    if has_bubblewrap {
        let times = alternating(ROUNDS, unshared, || caged(Tier::K));
        say("tier K over bubblewrap, all unshared", "< 1 ×", &times, |ratio| ratio < 1.0);
    } else {
        println!("SKIPPED: bubblewrap is not here");
    }
    if machine.tier() >= Tier::N {
        if has_bubblewrap {
            let times = alternating(ROUNDS, unshared, || caged(Tier::N));
            say("tier N over bubblewrap, all unshared", "< 1 ×", &times, |ratio| ratio < 1.0);
        }
    } else {
        println!("SKIPPED: no name spaces here");
    }

    let small: Vec<_> = alternating(ROUNDS, || (), || caged(Tier::K)).1;
    let resident = vec![1_u8; RESIDENT];
    let large = alternating(ROUNDS, || (), || caged(Tier::K)).1;
    assert!(std::hint::black_box(&resident).iter().step_by(4096).all(|byte| *byte == 1));
    say("tier K with 2 GiB resident over without", "<= 1.1 ×", &(small, large), |ratio| ratio <= 1.1);
}

fn say(
    what: &str,
    goal: &str,
    times: &(Vec<std::time::Duration>, Vec<std::time::Duration>),
    met: fn(f64) -> bool,
) {
    let ratio = ratio(times);
    let (floor, ours) = (quantile(&times.0, 0.5), quantile(&times.1, 0.5));
    report(what, goal, &format!("{ratio:.2} × ({ours:.2?} over {floor:.2?})"), met(ratio));
}

/// This binary started twice, one after the other, with nothing to do.
fn bare_twice() {
    for _ in 0..2 {
        let mut command = Command::new(DEPUTE);
        command.arg(cage::GUARD).env_clear();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().unwrap();
    }
}

fn bubblewrap(workspace: &Path) {
    let mut command = Command::new("bwrap");
    command.args(["--unshare-all", "--die-with-parent", "--new-session"]);
    for place in ["/usr", "/bin", "/lib", "/lib64"] {
        command.args(["--ro-bind", place, place]);
    }
    command.args(["--proc", "/proc", "--dev", "/dev", "--bind"]).args([workspace, workspace]);
    command.arg("/bin/true").env_clear();
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    assert!(status.success());
}

async fn caged(tier: Tier, workspace: &Path) {
    let (keeper, line) = Keeper::new().unwrap();
    let mut command = tokio::process::Command::new(DEPUTE);
    command.arg(cage::GUARD).env_clear().current_dir(workspace);
    command.stdin(line).stdout(Stdio::null()).stderr(Stdio::null());
    let mut guard = command.spawn().unwrap();
    drop(command);
    keeper.start(start(tier, workspace), &std::fs::File::open("/dev/null").unwrap().into()).unwrap();
    loop {
        match keeper.hear().await {
            Word::Ready { .. } => keeper.go().unwrap(),
            Word::Exited(_) | Word::Connected(_) => {}
            Word::Ended { .. } => break,
            word @ (Word::Failed(_) | Word::Lost) => panic!("{word:?}"),
        }
    }
    guard.wait().await.unwrap();
}

/// A shell that may do all but reach out, as `tool:bash` is.
fn start(tier: Tier, workspace: &Path) -> Start {
    let system = |path: &str| PathRule { place: Place::System(path.to_owned()), access: Access::RUN };
    let mut paths: Vec<PathRule> = ["/usr", "/bin", "/sbin", "/lib", "/lib64"].map(system).to_vec();
    for path in ["/etc/ld.so.cache", "/etc/passwd", "/etc/group", "/etc/ssl", "/dev/urandom"] {
        paths.push(PathRule { place: Place::System(path.to_owned()), access: Access::READ });
    }
    paths.push(PathRule { place: Place::System("/dev/null".to_owned()), access: Access::WRITE });
    paths.push(PathRule { place: Place::Workspace(String::new()), access: Access::ALL });
    Start {
        spec: KernelSpec {
            tier,
            workspace: workspace.display().to_string(),
            private: workspace.display().to_string(),
            paths,
            programs: Programs::Executable,
            metadata: true,
            network: Network::None,
            processes: MAX_PROCESSES,
        },
        program: "/bin/true".to_owned(),
        argv: vec!["true".to_owned()],
        outside: "/dev/full".to_owned(),
        group: None,
    }
}
