//! The one reader of the clock, the environment, the working directory and the machine's names.

#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "this is the module that the others ask")]

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use depute_ledger::Who;
use etcetera::BaseStrategy;
use uuid::Uuid;

/// Milliseconds since 1970.
#[must_use]
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// A new id, later than every one before it in this process.
#[must_use]
pub fn new_id() -> Uuid {
    Uuid::now_v7()
}

/// The value of an environment variable of this process.
#[must_use]
pub fn env_var(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// Where this binary is.
///
/// # Errors
/// Where the system does not say.
pub fn this_binary() -> io::Result<PathBuf> {
    std::env::current_exe()
}

/// Where temporary files go.
#[must_use]
pub fn temporary_directory() -> PathBuf {
    std::env::temp_dir()
}

/// How many threads the machine runs at a time; 1 where it does not say.
#[must_use]
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The effective user.
#[must_use]
pub fn uid() -> u32 {
    nix::unistd::geteuid().as_raw()
}

/// Says a line on standard error. Where nobody reads it any more it is lost, and nothing else is: a
/// child does not lose its broker because nobody listens.
pub fn say(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Makes this process fit to hold what its children must not have.
///
/// A write beyond a file size limit becomes an error instead of this process's end (children start
/// with an empty signal mask). What a child leaves behind becomes a child of this process, so that it
/// can be ended. And children of the same user can no longer read this process's memory or the
/// environment it was started with.
///
/// # Errors
/// Where the kernel says no.
pub fn harden() -> io::Result<()> {
    let mut limit = nix::sys::signal::SigSet::empty();
    limit.add(nix::sys::signal::Signal::SIGXFSZ);
    limit.thread_block()?;
    nix::sys::prctl::set_child_subreaper(true)?;
    nix::sys::prctl::set_dumpable(false)?;
    Ok(())
}

/// Whether this process runs below a node of some session: its environment says so, or a process it
/// descends from is another `depute`.
#[must_use]
pub fn is_inside_node() -> bool {
    if env_var(crate::runtime::NODE_VARIABLE).is_some() {
        return true;
    }
    let name = |pid: &str| std::fs::read_to_string(format!("/proc/{pid}/comm")).ok();
    let own = name("self");
    let mut ancestor = process_parent("self");
    while let Some(pid) = ancestor.filter(|pid| pid != "0") {
        if name(&pid) == own {
            return true;
        }
        ancestor = process_parent(&pid);
    }
    false
}

/// A field of `/proc/PID/stat`, counted from 0 after the program's name; nothing where the process is
/// gone.
#[must_use]
pub fn process_field(pid: &str, field: usize) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name stands in parentheses and may hold anything, these too.
    let (_, after) = stat.rsplit_once(')')?;
    after.split_whitespace().nth(field).map(str::to_owned)
}

/// The parent of a process.
#[must_use]
pub fn process_parent(pid: &str) -> Option<String> {
    process_field(pid, 1)
}

/// Every process that is seen here, each with its parent.
#[must_use]
pub fn processes() -> Vec<(i32, i32)> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let process = |name: &str| Some((name.parse().ok()?, process_parent(name)?.parse().ok()?));
    entries.filter_map(|entry| process(entry.ok()?.file_name().to_str()?)).collect()
}

/// Who this process is, for the ledger's `session` record.
#[must_use]
pub fn who() -> Who {
    let login = nix::unistd::User::from_uid(nix::unistd::geteuid()).ok().flatten().map(|user| user.name);
    let host = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
    let ci = ["GITHUB_RUN_ID", "CI_JOB_ID", "BUILD_TAG", "CI"]
        .into_iter()
        .find_map(|name| env_var(name).map(|value| format!("{name}={}", value.to_string_lossy())));
    Who {
        tool: concat!("depute ", env!("CARGO_PKG_VERSION")).to_owned(),
        login,
        host: host.unwrap_or_else(|| "unknown".to_owned()),
        tty: nix::unistd::ttyname(io::stdin()).ok().map(|path| path.display().to_string()),
        ci,
    }
}

/// The project that a command works on, and the operator's places for it, all outside of it.
#[derive(Clone, Debug)]
pub struct Project {
    /// The real path of the git root, else of the current directory.
    pub root: PathBuf,
    /// The user's home.
    pub home: PathBuf,
    /// The user's configuration of all programs.
    pub config: PathBuf,
    /// The operator's policy for this directory.
    pub policy: PathBuf,
    /// The operator's policy for every directory.
    pub user_policy: PathBuf,
    /// State of this project: ledger and sessions.
    pub state: PathBuf,
    /// Which directories are trusted.
    pub trust: PathBuf,
}

impl Project {
    /// The project of the current directory.
    ///
    /// # Errors
    /// Where the current directory or the user's home cannot be told.
    pub fn here() -> io::Result<Self> {
        Self::of(&std::env::current_dir()?)
    }

    /// The project of a directory.
    ///
    /// # Errors
    /// As [`Project::here`].
    pub fn of(directory: &Path) -> io::Result<Self> {
        let real = directory.canonicalize()?;
        let root = real.ancestors().find(|dir| dir.join(".git").exists()).unwrap_or(&real).to_owned();
        let base = etcetera::choose_base_strategy().map_err(io::Error::other)?;
        let config = base.config_dir().join("depute");
        let state = base.state_dir().unwrap_or_else(|| base.data_dir()).join("depute");
        let key = key(&root);
        Ok(Self {
            policy: config.join("policies").join(format!("{key}.yaml")),
            user_policy: config.join("policy.yaml"),
            state: state.join("projects").join(&key),
            trust: state.join("trust.json"),
            home: base.home_dir().to_owned(),
            config: base.config_dir(),
            root,
        })
    }
}

/// The real path of what exists of a path, and the rest of it.
#[must_use]
pub fn real_path(path: &Path) -> PathBuf {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    whole
        .ancestors()
        .find_map(|above| Some(above.canonicalize().ok()?.join(whole.strip_prefix(above).ok()?)))
        .unwrap_or(whole)
}

/// The key of a directory: a slug a person recognises, and 16 hex digits of the path's SHA-256.
#[must_use]
pub fn key(root: &Path) -> String {
    use std::os::unix::ffi::OsStrExt;
    let name = root.file_name().map_or_else(|| "root".to_owned(), |name| name.to_string_lossy().into_owned());
    let slug: String = name
        .chars()
        .take(32)
        .map(|c| if c.is_ascii_alphanumeric() || c == '-' { c.to_ascii_lowercase() } else { '-' })
        .collect();
    let hex = depute_ledger::Digest::of(root.as_os_str().as_bytes()).to_hex();
    format!("{slug}-{}", hex.get(..16).unwrap_or(&hex))
}
