//! `depute check` over many definition files, against reading and hashing the same bytes on one
//! thread.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use depute_ledger::Digest;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

use super::measure;

const ROUNDS: usize = 7;

pub(super) fn run() {
    let scratch = tempfile::tempdir().unwrap();
    for files in [10_000, 40_000] {
        let corpus = scratch.path().join(files.to_string());
        let (paths, bytes) = make(&corpus, files);
        println!("{files} files, {} MB", bytes / 1_000_000);
        for (cores, goal) in [(1, 3.0), (2, 1.7)] {
            let mut set = CpuSet::new();
            (0..cores).for_each(|core| set.set(core).unwrap());
            sched_setaffinity(Pid::from_raw(0), &set).unwrap();
            let hash = || {
                for path in &paths {
                    std::hint::black_box(Digest::of(&std::fs::read(path).unwrap()));
                }
            };
            let times = measure::alternating(ROUNDS, hash, || check(&corpus, scratch.path()));
            let ratio = measure::ratio(&times);
            let (floor, ours) = (measure::quantile(&times.0, 0.5), measure::quantile(&times.1, 0.5));
            measure::report(
                &format!("`depute check` of {files}, cores: {cores}"),
                &format!("< {goal} ×"),
                &format!("{ratio:.2} × ({ours:.0?} over {floor:.0?})"),
                ratio < goal,
            );
        }
        std::fs::remove_dir_all(&corpus).unwrap();
    }
}

fn check(corpus: &Path, home: &Path) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_depute"));
    command.arg("check").arg(corpus.join("skills")).env_clear().env("HOME", home).current_dir(home);
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    // Some of them declare no tools.
    assert_eq!(status.code(), Some(82));
}

/// Skills as the public ones are: frontmatter of 200 to 600 bytes, a body whose size is spread around
/// 5 KB, four of ten without tools. The same bytes every time.
fn make(corpus: &Path, files: usize) -> (Vec<PathBuf>, usize) {
    const WORDS: [&str; 16] = [
        "review", "the", "change", "and", "report", "what", "is", "missing", "with", "file", "line", "of",
        "each", "finding", "before", "after",
    ];
    let mut seed = 1_u64;
    let mut random = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below
    };
    let mut total = 0;
    let paths = (0..files)
        .map(|at| {
            let mut prose = |length: usize| {
                let mut text = String::new();
                while text.len() < length {
                    text.push_str(WORDS[random(WORDS.len())]);
                    text.push(if text.len() % 80 < 8 { '\n' } else { ' ' });
                }
                text
            };
            let tools = match at % 10 {
                0..3 => "allowed-tools: Read, Grep, Glob\n",
                3..5 => "allowed-tools:\n  - Read\n  - Bash(git log:*)\n",
                5 => "license: MIT\nmetadata:\n  author: somebody\n  version: \"1.0\"\nallowed-tools: []\n",
                _ => "",
            };
            let description = prose(150).replace('\n', " ");
            // The product of two even spreads leans to the small, as real sizes do.
            let size = 500 + (at * 7919 % 97) * (at * 104_729 % 101);
            let text = format!(
                "---\nname: skill-{at}\ndescription: {}\n{tools}---\n\n# Skill\n\n{}",
                description.trim(),
                prose(size)
            );
            let path = corpus.join(format!("skills/skill-{at}/SKILL.md"));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            total += text.len();
            std::fs::write(&path, text).unwrap();
            path
        })
        .collect();
    (paths, total)
}
