//! `depute plan` as a whole process, against `/bin/true`.

use std::path::Path;
use std::process::{Command, Stdio};

use nix::sys::resource::{UsageWho, getrusage};

use super::measure;
const ROUNDS: usize = 300;

pub(super) fn run() {
    let scratch = tempfile::tempdir().unwrap();
    let root = scratch.path();
    let skill = root.join("shop/.claude/skills/reviewer/SKILL.md");
    std::fs::create_dir_all(skill.parent().unwrap()).unwrap();
    std::fs::create_dir_all(root.join("shop/.git")).unwrap();
    std::fs::write(
        skill,
        "---\nname: reviewer\ndescription: Reads.\nallowed-tools: Read, Grep\n---\nRead.\n",
    )
    .unwrap();
    let bare = || quiet(Command::new("/bin/true"), root);
    let plan = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_depute"));
        command.args([
            "plan",
            "reviewer",
            "--runtime",
            "scripted",
            "--trust-workspace",
            "--task",
            "x",
            "--json",
        ]);
        quiet(command, root);
    };
    let times = measure::alternating(ROUNDS, bare, plan);
    let (floor, ours) = (measure::quantile(&times.0, 0.5), measure::quantile(&times.1, 0.5));
    let ratio = measure::ratio(&times);
    let found = format!("{ratio:.2} × ({ours:.2?} over {floor:.2?})");
    measure::report("`depute plan` over `/bin/true`", "< 3 ×", &found, ratio < 3.0);
    // The largest child of this process: `true` is far smaller.
    let kib = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap().max_rss();
    let mib = kib as f64 / 1024.0;
    measure::report("`depute plan`, resident at most", "< 20 MiB", &format!("{mib:.1} MiB"), mib < 20.0);
}

fn quiet(mut command: Command, root: &Path) {
    command.current_dir(root.join("shop")).env_clear().env("HOME", root).env("PATH", "/usr/bin:/bin");
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    assert!(status.success(), "{command:?}");
}
