//! Directories and files that are not what they should be, before and under a running writer.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;

use depute_ledger::{
    AppendError, Code, OpenError, Poison, Reader, Unsafe, VerifyError, VerifyOptions, verify,
};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::support::*;

const NOBODY: u32 = 65_534;

fn assert_unsafe(place: &Place, at: &Path, expected: Unsafe) {
    match place.try_open() {
        Err(OpenError::Unsafe { path, why }) => {
            assert_eq!((path.as_path(), why), (at, expected));
        }
        other => panic!("{other:?}"),
    }
}

fn mode(path: &Path, bits: u32) {
    fs::set_permissions(path, Permissions::from_mode(bits)).unwrap();
}

#[test]
fn a_segment_that_is_not_plainly_ones_own_is_refused() {
    let place = Place::with_notes(2);
    let segment = place.path(SEGMENT);
    let aside = place.path("aside");

    fs::hard_link(&segment, &aside).unwrap();
    assert_unsafe(&place, &segment, Unsafe::HardLinked { links: 2 });
    fs::remove_file(&segment).unwrap();
    symlink(&aside, &segment).unwrap();
    assert_unsafe(&place, &segment, Unsafe::Symlink);
    assert!(matches!(
        verify(&place.dir, &VerifyOptions::new()),
        Err(VerifyError::Unsafe { why: Unsafe::Symlink, .. })
    ));
    fs::remove_file(&segment).unwrap();
    mkfifo(&segment, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
    assert_unsafe(&place, &segment, Unsafe::NotRegular);
    assert!(matches!(Reader::open(&place.dir), Err(VerifyError::Unsafe { why: Unsafe::NotRegular, .. })));
    fs::remove_file(&segment).unwrap();
    fs::rename(&aside, &segment).unwrap();
    mode(&segment, 0o640);
    assert_unsafe(&place, &segment, Unsafe::Permissions { mode: 0o640 });
    mode(&segment, 0o600);
    if nix::unistd::geteuid().is_root() {
        chown(&segment, Some(NOBODY), None).unwrap();
        assert_unsafe(&place, &segment, Unsafe::ForeignOwner { owner: NOBODY });
        chown(&segment, Some(0), None).unwrap();
    } else {
        println!("skipped: only root can give a file away");
    }
    place.open().append(OP, note("control")).unwrap();
}

#[test]
fn a_directory_that_is_not_plainly_ones_own_is_refused() {
    let place = Place::with_notes(2);
    let real = place.dir.with_file_name("real");
    fs::rename(&place.dir, &real).unwrap();
    symlink(&real, &place.dir).unwrap();
    assert_unsafe(&place, &place.dir, Unsafe::Symlink);
    // A trailing slash follows the link for the system, not for us.
    assert!(matches!(open(&place.dir.join("")), Err(OpenError::Unsafe { why: Unsafe::Symlink, .. })));
    fs::remove_file(&place.dir).unwrap();
    File::create(&place.dir).unwrap();
    assert_unsafe(&place, &place.dir, Unsafe::NotDirectory);
    fs::remove_file(&place.dir).unwrap();
    fs::rename(&real, &place.dir).unwrap();
    mode(&place.dir, 0o750);
    assert_unsafe(&place, &place.dir, Unsafe::Permissions { mode: 0o750 });
    mode(&place.dir, 0o700);
    place.open().append(OP, note("control")).unwrap();
}

#[test]
fn the_small_files_are_held_to_the_same() {
    for name in ["lock", "head", "key"] {
        let place = Place::with_notes(2);
        let path = place.path(name);
        let aside = place.path("aside");
        fs::rename(&path, &aside).unwrap();
        symlink(&aside, &path).unwrap();
        assert_unsafe(&place, &path, Unsafe::Symlink);
        fs::remove_file(&path).unwrap();
        fs::rename(&aside, &path).unwrap();
        mode(&path, 0o604);
        assert_unsafe(&place, &path, Unsafe::Permissions { mode: 0o604 });
        mode(&path, 0o600);
        place.open().append(OP, note("control")).unwrap();
    }
    let place = Place::with_notes(2);
    place.write("key", b"short");
    let why = Unsafe::Size { found: 5, expected: 32 };
    assert_unsafe(&place, &place.path("key"), why);
}

pub fn try_to_open(dir: &Path) {
    match open(dir).map(|ledger| ledger.append(OP, note("in"))) {
        Ok(result) => tell(&format!("opened {result:?}")),
        Err(error) => tell(&format!("{error:?}")),
    }
}

#[test]
fn a_directory_that_cannot_be_written_is_refused() {
    let place = Place::new();
    let parent = place.dir.parent().unwrap();
    // Another user may not be able to reach the directory that this program was built in.
    let program = parent.join("program");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    mode(&program, 0o755);
    let play = |expected: &str| {
        let mut command = child_at(&program, "open", &place.dir);
        if nix::unistd::geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        let output = command.output().unwrap();
        let out = String::from_utf8(output.stdout).unwrap();
        let told = out.lines().find_map(told).expect("the child could run");
        assert!(told.contains(expected), "{told}");
    };
    // In reach, but not to write for whoever the child is.
    mode(parent, 0o555);
    play("PermissionDenied");
    assert!(!place.dir.exists());
    mode(parent, 0o777);
    play("opened Ok");
}

/// What is done to the ledger's files while a writer has them open, and what the writer says.
#[test]
fn a_writer_stops_when_its_file_is_interfered_with_and_loses_nothing() {
    type Case = (&'static str, fn(&Place), fn(&Poison) -> bool);
    let cases: [Case; 7] = [
        (
            "renamed",
            |p| fs::rename(p.path(SEGMENT), p.path("old")).unwrap(),
            |why| matches!(why, Poison::Moved(_)),
        ),
        ("unlinked", |p| fs::remove_file(p.path(SEGMENT)).unwrap(), |why| matches!(why, Poison::Moved(_))),
        (
            "replaced by a copy",
            |p| {
                fs::copy(p.path(SEGMENT), p.path("new")).unwrap();
                fs::rename(p.path("new"), p.path(SEGMENT)).unwrap();
            },
            |why| matches!(why, Poison::Moved(_)),
        ),
        (
            "truncated",
            |p| {
                let file = OpenOptions::new().write(true).open(p.path(SEGMENT)).unwrap();
                file.set_len(0).unwrap();
            },
            |why| matches!(why, Poison::Shrunk { to: 0, .. }),
        ),
        (
            "appended to",
            |p| {
                let mut file = OpenOptions::new().append(true).open(p.path(SEGMENT)).unwrap();
                file.write_all(b"{\"evil\":1}\n").unwrap();
            },
            |why| matches!(why, Poison::Damaged(f) if f.code == Code::LineMalformed),
        ),
        ("lock removed", |p| fs::remove_file(p.path("lock")).unwrap(), |why| matches!(why, Poison::Moved(_))),
        (
            "directory renamed",
            |p| fs::rename(&p.dir, p.dir.with_file_name("elsewhere")).unwrap(),
            |why| matches!(why, Poison::Io { .. } | Poison::Moved(_)),
        ),
    ];
    for (what, interfere, expected) in cases {
        let place = Place::new();
        let ledger = place.open();
        ledger.append(OP, note("acknowledged")).unwrap();
        let good = place.copy();
        interfere(&place);
        for text in ["refused", "refused again"] {
            match ledger.append(OP, note(text)) {
                Err(AppendError::Poisoned(why)) => assert!(expected(&why), "{what}: {why}"),
                other => panic!("{what}: {other:?}"),
            }
        }
        // With the file put back, another writer goes on from every acknowledged line.
        good.open().append(OP, note("afterwards")).unwrap();
        assert_eq!(good.notes(), ["acknowledged", "afterwards"]);
        assert!(good.verify().is_intact());
    }
}

#[test]
fn lines_of_another_writer_that_are_gone_again_are_missed() {
    let place = Place::new();
    let (mine, other) = (place.open(), place.open());
    mine.append(OP, note("mine")).unwrap();
    let seen = place.segment().len() as u64;
    other.append(OP, note("acknowledged")).unwrap();
    let whole = place.segment();
    let file = OpenOptions::new().write(true).open(place.path(SEGMENT)).unwrap();
    file.set_len(seen).unwrap();
    match mine.append(OP, note("refused")) {
        Err(AppendError::Poisoned(Poison::Damaged(f))) => assert_eq!(f.code, Code::Truncated),
        result => panic!("{result:?}"),
    }
    assert_eq!(place.segment().len() as u64, seen);
    place.write(SEGMENT, &whole);
    place.open().append(OP, note("control")).unwrap();
    assert_eq!(place.notes(), ["mine", "acknowledged", "control"]);
}

#[test]
fn verification_needs_no_write_permission_and_creates_nothing() {
    let place = Place::with_notes(2);
    for name in ["lock", "key"] {
        fs::remove_file(place.path(name)).unwrap();
    }
    fs::remove_dir(place.path("objects")).unwrap();
    mode(&place.path(SEGMENT), 0o444);
    mode(&place.path("head"), 0o444);
    mode(&place.dir, 0o555);
    assert_eq!(place.verify().findings, []);
    assert_eq!(place.notes(), ["note 0", "note 1"]);
    assert_eq!(fs::read_dir(&place.dir).unwrap().count(), 2);
    mode(&place.dir, 0o700);

    let empty = Place::new();
    assert!(matches!(Reader::open(&empty.dir), Err(VerifyError::Missing(_))));
    assert!(!empty.dir.exists());
}
