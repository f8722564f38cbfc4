//! The cage itself, without a broker: each tier that the machine has, from its start to its end.

use std::io::Read;
use std::path::Path;
use std::process::Stdio;

use depute::cage::{self, End, Failure, Keeper, Machine, Start, Word};
use depute::kernel_spec::{Access, KernelSpec, MAX_PROCESSES, Network, PathRule, Place, Programs};
use depute::runtime::Tier;

const DEPUTE: &str = env!("CARGO_BIN_EXE_depute");

/// A shell in a workspace, at this tier.
fn shell(tier: Tier, workspace: &Path, script: &str) -> Start {
    let system = |path: &str| PathRule { place: Place::System(path.to_owned()), access: Access::RUN };
    let mut paths: Vec<PathRule> = ["/usr", "/bin", "/lib", "/lib64"].map(system).to_vec();
    paths.push(PathRule { place: Place::System("/dev/null".to_owned()), access: Access::WRITE });
    paths.push(PathRule { place: Place::Workspace(String::new()), access: Access::ALL });
    Start {
        spec: KernelSpec {
            tier,
            workspace: workspace.display().to_string(),
            private: workspace.with_file_name("private").display().to_string(),
            paths,
            programs: Programs::Executable,
            metadata: true,
            network: Network::None,
            processes: MAX_PROCESSES,
        },
        program: "/bin/sh".to_owned(),
        argv: ["sh", "-c", script].map(str::to_owned).to_vec(),
        outside: workspace.with_file_name("outside").display().to_string(),
        group: None,
    }
}

/// What came of a node: how its program ended, how many outlived it, and all that the node wrote.
fn run(start: Start) -> Result<(End, u32, String), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (end, outlived, mut stdout) = runtime.block_on(async {
        let (keeper, line) = Keeper::new().unwrap();
        let mut command = tokio::process::Command::new(DEPUTE);
        command.arg(cage::GUARD).env_clear().current_dir(&start.spec.workspace);
        command.stdin(line).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut guard = command.spawn().unwrap();
        drop(command);
        keeper.start(start, &std::fs::File::open("/dev/null").unwrap().into()).unwrap();
        let mut end = None;
        let outlived = loop {
            match keeper.hear().await {
                Word::Ready { .. } => keeper.go().unwrap(),
                Word::Exited(exited) => end = Some(exited),
                Word::Failed(failure) => return Err(failure),
                Word::Ended { outlived, .. } => break outlived,
                word @ (Word::Connected(_) | Word::Lost) => panic!("{word:?}"),
            }
        };
        let stdout = guard.stdout.take().unwrap().into_owned_fd().unwrap();
        guard.wait().await.unwrap();
        Ok((end.unwrap(), outlived, std::fs::File::from(stdout)))
    })?;
    // It ends only where nobody holds the other end any more.
    let mut text = String::new();
    stdout.read_to_string(&mut text).unwrap();
    Ok((end, outlived, text))
}

/// A workspace, with a file beside it that no cage opens.
fn workspace() -> (tempfile::TempDir, std::path::PathBuf) {
    let scratch = tempfile::tempdir().unwrap();
    let real = scratch.path().canonicalize().unwrap();
    for directory in ["work", "private"] {
        std::fs::create_dir(real.join(directory)).unwrap();
    }
    std::fs::write(real.join("outside"), "secret").unwrap();
    let workspace = real.join("work");
    (scratch, workspace)
}

/// The tiers that this machine has, above 0.
fn tiers() -> Vec<Tier> {
    let strongest = Machine::measure_for(Tier::N, Path::new(DEPUTE)).tier();
    let (here, missing): (Vec<Tier>, Vec<Tier>) =
        [Tier::F, Tier::K, Tier::N].into_iter().partition(|tier| *tier <= strongest);
    for tier in missing {
        println!("SKIPPED: tier {} is not here", tier.as_str());
    }
    here
}

#[test]
fn all_that_a_node_started_ends_with_it_at_every_tier() {
    for tier in tiers().into_iter().chain([Tier::Zero]) {
        let (_scratch, workspace) = workspace();
        let script = "setsid sleep 1000 & (sleep 1000 & sleep 1000) & echo made > file; cat ../outside; echo end; exit 7";
        let (end, outlived, text) = run(shell(tier, &workspace, script)).unwrap();
        assert_eq!(end, End::Exited(7), "{tier:?}");
        assert!((3..=4).contains(&outlived), "{tier:?}: {outlived}");
        assert_eq!(std::fs::read_to_string(workspace.join("file")).unwrap(), "made\n", "{tier:?}");
        let expected = if tier == Tier::Zero { "secretend\n" } else { "end\n" };
        assert_eq!(text, expected, "{tier:?}");
    }
}

#[test]
fn a_place_that_is_not_there_or_a_link_starts_nothing() {
    for tier in tiers() {
        let (_scratch, workspace) = workspace();
        std::os::unix::fs::symlink("../private", workspace.join("link")).unwrap();
        let with = |place: Place| {
            let mut start = shell(tier, &workspace, "echo ran");
            start.spec.paths.push(PathRule { place, access: Access::WRITE });
            run(start)
        };
        let refused = |place: Place| {
            let failure = with(place).unwrap_err();
            assert_eq!(failure.feature, None, "no kernel would help");
            failure.message
        };
        assert!(
            refused(Place::Workspace("docs".into()))
                .contains("`docs` beneath the workspace cannot be opened")
        );
        assert!(refused(Place::Workspace("link".into())).contains("symbolic links"));
        assert!(refused(Place::Workspace("../private".into())).contains("cannot be opened"));
        assert!(
            refused(Place::Operator("/nowhere".into())).contains("`/nowhere`, which the policy's `paths`")
        );
        std::fs::create_dir(workspace.join("docs")).unwrap();
        assert_eq!(with(Place::Workspace("docs".into())).unwrap().2, "ran\n");
        assert_eq!(with(Place::System("/nowhere".into())).unwrap().2, "ran\n", "it is passed over");
    }
}

#[test]
fn a_program_outside_of_the_cage_is_named_with_the_line_that_allows_it() {
    for tier in tiers() {
        let (_scratch, workspace) = workspace();
        let mut start = shell(tier, &workspace, "");
        let tool = workspace.with_file_name("tool");
        std::fs::copy("/bin/true", &tool).unwrap();
        start.program = tool.display().to_string();
        let failure = run(start.clone()).unwrap_err();
        let line = format!("`paths: {{exec: [{}]}}`", tool.parent().unwrap().display());
        assert!(failure.message.contains(&line), "{}", failure.message);
        start
            .spec
            .paths
            .push(PathRule { place: Place::Operator(start.program.clone()), access: Access::RUN });
        assert_eq!(run(start).unwrap().0, End::Exited(0));
    }
}
