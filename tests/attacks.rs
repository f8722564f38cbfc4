//! Attacks on what is promised, each shown to fail inside of a cage and to succeed outside of one.
//!
//! A row of the threat table is a function here. It runs a node whose program is this very binary, by the
//! real command line, and looks at effects: bytes that arrived, files that changed, processes that live.
//! The same code outside of the cage is its control, so that an attack that never works proves nothing.
//! What could not be tried is counted and said, and what failed fails.
//!
//! What has no door yet is not attacked here: asking the broker for more, approvals, and trees of nodes
//! (rows 3, 5 to 10 and 32).

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a test says what it saw, and stops where it fails"
)]

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};

use attacks::harness::{Lab, Outcome};
use attacks::{attacker, ending, files, harness, kernel, kernels, network, processes, programs};

mod attacks {
    pub(crate) mod attacker;
    pub(crate) mod ending;
    pub(crate) mod files;
    pub(crate) mod harness;
    pub(crate) mod kernel;
    pub(crate) mod kernels;
    pub(crate) mod network;
    pub(crate) mod processes;
    pub(crate) mod programs;
    pub(crate) mod raw;
}

/// One row of the threat table.
struct Row {
    /// Its number there; nothing for what came besides.
    number: &'static str,
    /// What is tried, in words.
    what: &'static str,
    /// How it is tried.
    tries: fn(&Lab) -> Outcome,
}

const fn row(number: &'static str, what: &'static str, tries: fn(&Lab) -> Outcome) -> Row {
    Row { number, what, tries }
}

const ROWS: [Row; 26] = [
    row("1", "an environment that says something else, and this program started by a node", programs::forged),
    row("2", "an agent that nobody governs, started from a shell", ending::ungoverned),
    row("4", "taking descriptors and memory of another process", processes::stealing),
    row("11", "writing, making, cutting, removing, moving, linking outside", files::outside),
    row("12", "a granted directory that is a link", files::linked_grant),
    row("13", "writing the ledger", files::ledger),
    row("14", "modes, times and attributes outside (at K of who may not write)", files::marks),
    row("15", "limits, cores and priorities of another process", processes::limits),
    row("16", "signals to guard, broker and bystander", processes::signals),
    row("17", "outliving a stop: daemon, hops, swarm, deaf", ending::survivors),
    row("18", "outliving the broker: SIGKILL, SIGINT, SIGTERM", ending::broker_ends),
    row("19", "a fork bomb", ending::fork_bomb),
    row("20", "sockets of every sort, and one endpoint granted", network::every_socket),
    row("20", "the proxy's port at another address", network::proxy_port),
    row("21", "io_uring", kernel::io_uring),
    row("22", "a link in the workspace that leads outside", files::workspace_link),
    row("23", "sockets of daemons", network::daemons),
    row("24", "programs that are not listed, by every road", programs::unlisted),
    row("25", "descriptors that the broker was started with", kernel::descriptors),
    row("26", "environment, memory and arguments of broker and guard", processes::broker),
    row("27", "typing into the operator's terminal", kernel::typing),
    row("28", "name spaces and mounts", kernel::spaces),
    row("28", "capabilities", kernel::powers),
    row("29", "kernels without what is needed", kernels::old),
    row("30", "a kernel that says yes and does nothing", kernels::lying),
    row("-", "the rest of /proc", processes::proc),
];

/// What came with the tiers and is in no row of the table.
const BESIDES: [Row; 4] = [
    row("-", "memory, queues and keys that outlive a process", kernel::leftovers),
    row("-", "moving and linking within the workspace, which is granted", files::inside),
    row("-", "git's hooks and settings (at K open, as documented)", files::hooks),
    row("-", "a program that may not be read is named, with what allows it", programs::unreadable),
];

const TIERS: [&str; 2] = ["K", "N"];

/// Who the suite is again, where root starts it.
const ORDINARY: u32 = 1000;
/// How much is repeated of why a row failed: the rest is on standard error.
const LONGEST: usize = 400;
/// Names, for the run as another user, who that is.
const AS: &str = "DEPUTE_ATTACKS_AS";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--attack"] => attacker::main(std::io::stdin()),
        ["--attack-from", task] => attacker::main(std::fs::File::open(task).unwrap()),
        ["--bystander"] => harness::stand_by(),
        ["--mark", at] => programs::leave_a_mark(Path::new(at)),
        _ => return suite(&arguments),
    }
    ExitCode::SUCCESS
}

/// Runs what the arguments pick out, as those of Cargo's own harness would be read.
fn suite(arguments: &[String]) -> ExitCode {
    if arguments.iter().any(|argument| argument == "--list") {
        return ExitCode::SUCCESS;
    }
    let mut filters = Vec::new();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--test-threads" | "--skip" | "--color" | "--format" | "-Z" => drop(rest.next()),
            flag if flag.starts_with('-') => {}
            filter => filters.push(filter),
        }
    }
    let is_root = nix::unistd::geteuid().is_root();
    if let Some(name) = std::env::var_os(AS) {
        let bin = PathBuf::from(std::env::var_os("DEPUTE_ATTACKS_BIN").unwrap());
        let count = run(&bin, &filters, name.to_str().unwrap());
        println!("{} {} {}", count.enforced, count.failed, count.skipped.len());
        for skipped in count.skipped {
            println!("{skipped}");
        }
        return ExitCode::SUCCESS;
    }
    let scratch = tempfile::tempdir().unwrap();
    open_to_all(scratch.path());
    let bin = scratch.path().join("bin");
    programs_to(&bin);
    let other = is_root.then(|| as_ordinary(scratch.path(), &bin, arguments));
    let mut count = run(&bin, &filters, if is_root { "root" } else { "user" });
    match other {
        Some(Ok(other)) => count.add(other),
        Some(Err(why)) => {
            count
                .skipped
                .push(format!("every row as an ordinary user: it cannot start this program ({why})"));
        }
        None => count.skipped.push("every row as root: the suite was started by an ordinary user".to_owned()),
    }
    println!(
        "{} enforced, {} skipped{}",
        count.enforced,
        count.skipped.len(),
        match count.failed {
            0 => String::new(),
            failed => format!(", {failed} FAILED"),
        }
    );
    for skipped in &count.skipped {
        println!("skipped  {skipped}");
    }
    if count.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[derive(Default)]
struct Count {
    enforced: usize,
    failed: usize,
    skipped: Vec<String>,
}

/// Tries every row that is wanted, at each tier, as this user.
fn run(bin: &Path, filters: &[&str], user: &str) -> Count {
    let mut count = Count::default();
    let wanted = |row: &&Row| {
        filters.is_empty() || filters.iter().any(|filter| row.number == *filter || row.what.contains(filter))
    };
    let rows: Vec<&Row> = ROWS.iter().chain(&BESIDES).filter(wanted).collect();
    if rows.is_empty() {
        return count;
    }
    let labs = TIERS.map(|tier| Lab { tier, depute: bin.join("depute"), attacker: bin.join("attacker") });
    let lacks = labs.each_ref().map(Lab::lacks);
    for row in rows {
        for (lab, lacks) in labs.iter().zip(&lacks) {
            let tier = lab.tier;
            let name = format!("{:>2}  {}  {tier} {user}", row.number, row.what);
            let tried = match lacks {
                Some(why) => Ok(Err(why.clone())),
                None => std::panic::catch_unwind(|| (row.tries)(lab)),
            };
            match tried {
                Ok(Ok(())) => {
                    println!("enforced  {name}");
                    count.enforced += 1;
                }
                Ok(Err(why)) => {
                    println!("skipped   {name}: {why}");
                    count.skipped.push(format!("{name}: {why}"));
                }
                Err(panic) => {
                    let said = panic.downcast_ref::<String>().map_or("", String::as_str);
                    let said: String = said.chars().take(LONGEST).collect();
                    println!("FAILED    {name}: {}", said.replace('\n', " "));
                    count.failed += 1;
                }
            }
        }
    }
    count
}

/// Both programs where every user and every node may run them.
fn programs_to(bin: &Path) {
    std::fs::create_dir(bin).unwrap();
    open_to_all(bin);
    let own = std::env::current_exe().unwrap();
    for (from, to) in [(Path::new(env!("CARGO_BIN_EXE_depute")), "depute"), (&own, "attacker")] {
        let to = bin.join(to);
        std::fs::copy(from, &to).unwrap();
        std::fs::set_permissions(&to, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}

fn open_to_all(path: &Path) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// The suite again, as an ordinary user with a directory of its own.
fn as_ordinary(scratch: &Path, bin: &Path, arguments: &[String]) -> std::io::Result<Child> {
    let own = scratch.join("user");
    std::fs::create_dir(&own).unwrap();
    std::os::unix::fs::chown(&own, Some(ORDINARY), Some(ORDINARY)).unwrap();
    let mut command = Command::new(bin.join("attacker"));
    command.args(arguments).env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", &own);
    command.env("TMPDIR", &own).env(AS, ORDINARY.to_string()).env("DEPUTE_ATTACKS_BIN", bin);
    command.current_dir(&own).uid(ORDINARY).gid(ORDINARY).stdin(Stdio::null()).stdout(Stdio::piped());
    command.spawn()
}

impl Count {
    /// Adds what the other user's run came to.
    fn add(&mut self, other: Child) {
        let output = other.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let is_row =
            |line: &&str| ["enforced", "skipped ", "FAILED  "].iter().any(|start| line.starts_with(start));
        for line in text.lines().filter(is_row) {
            println!("{line}");
        }
        let mut rest = text.lines().skip_while(is_row);
        let numbers: Vec<usize> =
            rest.next().unwrap_or_default().split(' ').filter_map(|number| number.parse().ok()).collect();
        if let [enforced, failed, _] = numbers[..] {
            self.enforced += enforced;
            self.failed += failed;
            self.skipped.extend(rest.map(str::to_owned));
        } else {
            println!("FAILED    the run as another user ended before it was through: {}", output.status);
            self.failed += 1;
        }
    }
}
