//! Ledgers to test on, their raw bytes, and child processes made of this very binary.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use depute_ledger::record::*;
use depute_ledger::{
    Body, Digest, Ledger, OpenOptions, Reader, Record, Report, VerifyOptions, Who, leaf_hash, verify,
};
use tempfile::TempDir;
use uuid::Uuid;

pub const SEGMENT: &str = "seg-00000000000000000000.jsonl";
pub const OP: Uuid = Uuid::from_u128(0x0197_f3c2_6a00_7000_8000_0000_0000_0001);

pub fn who() -> Who {
    Who {
        tool: "test 0".to_owned(),
        login: Some("tester".to_owned()),
        host: "host".to_owned(),
        tty: None,
        ci: None,
    }
}

pub fn note(reason: impl Into<String>) -> Close {
    Close { reason: reason.into() }
}

pub fn node(n: u128) -> Uuid {
    Uuid::from_u128(n)
}

pub fn decision(node: Uuid, verdict: Verdict) -> Decision {
    Decision {
        node,
        parent: None,
        path: "root/reviewer".to_owned(),
        depth: 1,
        verdict,
        code: None,
        rule: Some("reviewers-read".to_owned()),
        definition: Some("reviewer".to_owned()),
        runtime: None,
        model: None,
        workspace: None,
        task: TaskRef { bytes: 11, digest: None },
        task_from: "argv".to_owned(),
        requested: GrantLists { r#use: vec!["fs.read:src".to_owned()], delegate: None },
        parent_grant: GrantLists::default(),
        ceiling: None,
        effective: vec!["fs.read:src".to_owned()],
        delegate: Vec::new(),
        denied: Vec::new(),
        clipped: vec!["net".to_owned()],
        gated: Vec::new(),
        subsumed: Vec::new(),
        approvals: vec![ApprovalRef {
            capability: "fs.read:src".to_owned(),
            subject: "reviewer".to_owned(),
            scope: ApprovalScope::Once,
            approver: "tester".to_owned(),
            strength: ApprovalStrength::SameUid,
        }],
        enforcement: vec![Enforcement {
            capability: "fs.read:src".to_owned(),
            by: Enforcer::Kernel,
            how: "landlock".to_owned(),
        }],
        budget: Budget { depth: Some(1), ..Budget::default() },
        inputs: Inputs::default(),
        digests: PlanDigests::default(),
    }
}

pub fn spawn(node: Uuid, decision: u64) -> Spawn {
    Spawn {
        decision,
        node,
        program: "/bin/true".to_owned(),
        argv: Digest::of(b"true"),
        env: vec!["PATH".to_owned()],
        cwd: Digest::of(b"/"),
        stdin: TaskRef { bytes: 0, digest: None },
    }
}

pub fn exit(node: Uuid) -> Exit {
    Exit {
        node,
        outcome: ExitOutcome::Exited,
        code: Some(0),
        signal: None,
        duration_ms: 12,
        output: Some(OutputRef {
            bytes: 3,
            digest: format!("hmac-sha256:{}", Digest::of(b"ok\n").to_hex()).parse().unwrap(),
            truncated: false,
        }),
        message: None,
    }
}

/// A directory in which a ledger may live.
pub struct Place {
    _tmp: TempDir,
    pub dir: PathBuf,
}

impl Place {
    pub fn new() -> Self {
        let tmp = TempDir::new().unwrap();
        let dir = tmp.path().join("ledger");
        Self { _tmp: tmp, dir }
    }

    /// A ledger of `n` lines after genesis and session, closed again.
    pub fn with_notes(n: usize) -> Self {
        let place = Self::new();
        let ledger = place.open();
        let bodies = (0..n).map(|i| note(format!("note {i}")).into()).collect();
        ledger.append_all(OP, bodies).unwrap();
        place
    }

    /// A ledger with the given segment and no `head`.
    pub fn with_segment(bytes: &[u8]) -> Self {
        let place = Self::new();
        fs::create_dir(&place.dir).unwrap();
        fs::set_permissions(&place.dir, fs::Permissions::from_mode(0o700)).unwrap();
        place.write(SEGMENT, bytes);
        place
    }

    /// A copy with its own segment, `head` and `key`.
    pub fn copy(&self) -> Self {
        let copy = Self::with_segment(&self.segment());
        for name in ["head", "key"] {
            if let Ok(bytes) = fs::read(self.path(name)) {
                copy.write(name, &bytes);
            }
        }
        copy
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    pub fn segment(&self) -> Vec<u8> {
        fs::read(self.path(SEGMENT)).unwrap()
    }

    /// What every file of the directory holds, by name.
    pub fn everything(&self) -> BTreeMap<String, Vec<u8>> {
        let files = fs::read_dir(&self.dir).unwrap().map(Result::unwrap);
        let files = files.filter(|entry| entry.file_type().unwrap().is_file());
        files.map(|e| (e.file_name().into_string().unwrap(), fs::read(e.path()).unwrap())).collect()
    }

    /// How many files there are, objects aside.
    pub fn files(&self) -> usize {
        fs::read_dir(&self.dir).unwrap().count()
    }

    /// The names of all segments, the oldest first.
    pub fn segments(&self) -> Vec<String> {
        let names =
            fs::read_dir(&self.dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| name.ends_with(".jsonl")).collect();
        names.sort();
        names
    }

    pub fn lines(&self) -> Vec<Vec<u8>> {
        split(&self.segment())
    }

    pub fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.path(name);
        fs::write(&path, bytes).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    }

    /// Writes a `head` that knows the segment up to line `seq`.
    pub fn set_head(&self, lines: &[Vec<u8>], seq: usize, torn: Option<&[u8]>) {
        let size: usize = lines[..=seq].iter().map(|line| line.len() + 1).sum();
        let torn = torn.map_or("null".to_owned(), |torn| {
            format!(
                r#"{{"seq":{},"offset":{size},"len":{},"sha256":"{}"}}"#,
                seq + 1,
                torn.len(),
                Digest::of(torn)
            )
        });
        let leaf = leaf_hash(&lines[seq]).to_hex();
        let json = format!(r#"{{"v":0,"size":{size},"seq":{seq},"leaf":"{leaf}","torn":{torn}}}"#);
        self.write("head", format!("{json:<511}\n").as_bytes());
    }

    pub fn forget_head(&self) {
        fs::remove_file(self.path("head")).unwrap();
    }

    pub fn open(&self) -> Ledger {
        self.try_open().unwrap()
    }

    pub fn try_open(&self) -> Result<Ledger, depute_ledger::OpenError> {
        open(&self.dir)
    }

    pub fn verify(&self) -> Report {
        verify(&self.dir, &VerifyOptions::new()).unwrap()
    }

    pub fn records(&self) -> Vec<Record> {
        let reader = Reader::open(&self.dir).unwrap();
        reader.map(|line| line.unwrap().record).collect()
    }

    /// The texts of all notes, in order.
    pub fn notes(&self) -> Vec<String> {
        let notes = self.records().into_iter().filter_map(|r| match r.body {
            Body::Close(close) => Some(close.reason),
            _ => None,
        });
        notes.collect()
    }
}

/// Without a reserve, so that a full test machine changes nothing. A child process closes segments at
/// the length that its parent gives it.
pub fn options() -> OpenOptions {
    let options = OpenOptions::new().reserve(0);
    match std::env::var(SEGMENT_BYTES) {
        Ok(bytes) => options.segment_bytes(bytes.parse().unwrap()),
        Err(_) => options,
    }
}

pub fn open(dir: &Path) -> Result<Ledger, depute_ledger::OpenError> {
    options().open(dir, &who())
}

/// The variable that tells a child process when to close a segment.
pub const SEGMENT_BYTES: &str = "LEDGER_TEST_SEGMENT_BYTES";

/// Cuts ended lines out of a segment.
pub fn split(segment: &[u8]) -> Vec<Vec<u8>> {
    let mut lines: Vec<_> = segment.split(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
    assert_eq!(lines.pop(), Some(Vec::new()), "segment ends in a line feed");
    lines
}

pub fn join(lines: &[Vec<u8>]) -> Vec<u8> {
    lines.iter().flat_map(|l| [l.as_slice(), b"\n"].concat()).collect()
}

/// Links every line from `from` on to the bytes of the line before it, as a forger would.
pub fn relink(lines: &mut [Vec<u8>], from: usize) {
    for i in from.max(1)..lines.len() {
        let leaf = leaf_hash(&lines[i - 1]).to_hex();
        if lines[i].starts_with(br#"{"v":0,"prev":""#) {
            lines[i][15..79].copy_from_slice(leaf.as_bytes());
        }
    }
}

/// A small generator, so that a failure can be repeated from its seed.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 11).unwrap() % n
    }
}

/// A process that plays `role` on the ledger in `dir`.
pub fn child(role: &str, dir: &Path) -> Command {
    child_at(&std::env::current_exe().unwrap(), role, dir)
}

/// The same, with a copy of this program at another path.
pub fn child_at(program: &Path, role: &str, dir: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .args(["--exact", "support::play_role", "--nocapture", "--test-threads=1"])
        .env("LEDGER_TEST_ROLE", role)
        .env("LEDGER_TEST_DIR", dir);
    command
}

/// One line to the parent, in one write, whatever becomes of this process next.
pub fn tell(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("\n@{line}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

/// What a child told, without the test harness's own output.
pub fn told(line: &str) -> Option<&str> {
    line.strip_prefix('@')
}

/// Not a test by itself: what a child process does.
#[test]
fn play_role() {
    let Ok(role) = std::env::var("LEDGER_TEST_ROLE") else {
        return;
    };
    let dir = PathBuf::from(std::env::var_os("LEDGER_TEST_DIR").unwrap());
    match role.as_str() {
        "write until killed" => crate::crash::write_until_killed(&dir),
        "append from threads" => crate::concurrent::append_from_threads(&dir),
        "fill to the file size limit" => crate::space::fill_to_the_limit(&dir),
        "recover within a limit" => crate::space::recover_within_a_limit(&dir),
        "rotate once" => crate::steps::rotate_once(&dir),
        "open" => crate::hostile::try_to_open(&dir),
        "verify" => crate::content::verify_and_tell_memory(&dir),
        "write the golden ledger" => crate::golden::write(&dir),
        "write the golden segments" => crate::golden::write_segments(&dir),
        other => panic!("no such role: {other}"),
    }
}
