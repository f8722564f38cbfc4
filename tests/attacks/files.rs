//! Attacks on files: what is outside, the ledger, links, marks on files, git's hooks.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::attacker::{Attack, Tried, number, step, text, why};
use super::harness::{Lab, Outcome, Place};
use super::raw::{Arg, call, owned};

pub(crate) const ATTACKS: &[(&str, Attack)] = &[
    ("read", |step| {
        let bytes = fs::read(text(step, "path")).map_err(why)?;
        Ok(String::from_utf8_lossy(&bytes).into())
    }),
    ("list", list),
    ("write", |step| done(fs::write(text(step, "path"), text(step, "text")))),
    ("append", |step| {
        let opened = OpenOptions::new().append(true).open(text(step, "path"));
        done(opened.and_then(|mut file| file.write_all(text(step, "text").as_bytes())))
    }),
    ("open to write", |step| done(OpenOptions::new().write(true).open(text(step, "path")).map(drop))),
    ("create", |step| done(File::create_new(text(step, "path")).map(drop))),
    ("truncate", |step| done(nix::unistd::truncate(text(step, "path"), 0))),
    ("remove", |step| done(fs::remove_file(text(step, "path")))),
    ("rename", |step| done(fs::rename(text(step, "path"), text(step, "to")))),
    ("link", |step| done(fs::hard_link(text(step, "path"), text(step, "to")))),
    ("symlink", |step| done(symlink(text(step, "path"), text(step, "to")))),
    ("make directory", |step| done(fs::create_dir(text(step, "path")))),
    ("remove directory", |step| done(fs::remove_dir(text(step, "path")))),
    ("make fifo", |step| done(nix::unistd::mkfifo(text(step, "path"), nix::sys::stat::Mode::S_IRWXU))),
    ("chmod", |step| done(fs::set_permissions(text(step, "path"), fs::Permissions::from_mode(0o777)))),
    ("times", |step| {
        let time = nix::sys::time::TimeSpec::new(number(step, "seconds"), 0);
        let follow = nix::sys::stat::UtimensatFlags::FollowSymlink;
        done(nix::sys::stat::utimensat(nix::fcntl::AT_FDCWD, text(step, "path"), &time, &time, follow))
    }),
    ("attribute", attribute),
    ("open by handle", |step| {
        // By what a file is, past every name of it.
        let handle: Vec<u8> = serde_json::from_value(step["handle"].clone()).unwrap();
        let here = File::open(".").map_err(why)?;
        let arguments = &mut [Arg::Num(i64::from(here.as_raw_fd())), Arg::Bytes(&handle), Arg::Num(0)];
        let opened = call(libc::SYS_open_by_handle_at, arguments).map(owned).map_err(why)?;
        let mut text = String::new();
        File::from(opened).read_to_string(&mut text).map_err(why)?;
        Ok(text.into())
    }),
];

fn done<E: Into<std::io::Error>>(tried: Result<(), E>) -> Tried {
    tried.map(|()| json!("done")).map_err(why)
}

fn list(step: &Value) -> Tried {
    let entries = fs::read_dir(text(step, "path")).map_err(why)?;
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    Ok(names.collect::<Vec<_>>().into())
}

fn attribute(step: &Value) -> Tried {
    let path = CString::new(text(step, "path")).expect("a path");
    let arguments =
        &mut [Arg::Text(&path), Arg::Text(c"user.mark"), Arg::Bytes(b"marked"), Arg::Num(6), Arg::Num(0)];
    call(libc::SYS_setxattr, arguments).map(Value::from).map_err(why)
}

/// Everything below a directory: names, kinds, contents, modes, times of the last writing, attributes.
fn snapshot(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut waiting = vec![directory.to_owned()];
    while let Some(path) = waiting.pop() {
        let about = path.symlink_metadata().unwrap();
        let mark = if about.is_symlink() { false } else { has_mark(&path) };
        let content = if about.is_file() { fs::read_to_string(&path).unwrap() } else { String::new() };
        found.push(format!(
            "{} {:o} {}.{} {} {mark} {content}",
            path.display(),
            about.mode(),
            about.mtime(),
            about.mtime_nsec(),
            about.nlink(),
        ));
        if about.is_dir() {
            waiting.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    found.sort();
    found
}

fn has_mark(path: &Path) -> bool {
    let path = CString::new(path.to_str().unwrap()).unwrap();
    let mut value = [0; 16];
    let arguments = &mut [Arg::Text(&path), Arg::Text(c"user.mark"), Arg::Buffer(&mut value), Arg::Num(16)];
    call(libc::SYS_getxattr, arguments).is_ok()
}

/// What a file is, whatever its name.
fn handle(of: &Path) -> Vec<u8> {
    let path = CString::new(of.to_str().unwrap()).unwrap();
    let mut handle = vec![0; 136];
    handle[..4].copy_from_slice(&128_u32.to_ne_bytes());
    let here = Arg::Num(i64::from(libc::AT_FDCWD));
    let mut mount = [0; 8];
    let arguments =
        &mut [here, Arg::Text(&path), Arg::Buffer(&mut handle), Arg::Buffer(&mut mount), Arg::Num(0)];
    call(libc::SYS_name_to_handle_at, arguments).unwrap();
    handle
}

/// Files outside for every way to harm one, and files in the workspace to harm them with.
fn victims(place: &Place) {
    for name in ["read", "written", "appended", "cut", "removed", "renamed", "linked", "followed", "above"] {
        place.outside(name, "secret of the outside");
    }
    fs::create_dir(place.beside("outside/empty")).unwrap();
    for name in ["moved", "mine"] {
        place.write(name, "mine");
    }
}

fn every_harm(place: &Place) -> Vec<Value> {
    let outside = |name: &str| place.beside(&format!("outside/{name}")).display().to_string();
    let inside = |name: &str| place.root().join(name).display().to_string();
    let at = |attack: &str, path: String| step(attack, json!({"path": path, "text": "attacked"}));
    let to = |attack: &str, path: String, to: String| step(attack, json!({"path": path, "to": to}));
    let shared = format!("/dev/shm/depute-attacks-{}", std::process::id());
    let mut steps = vec![
        at("read", outside("read")),
        at("list", outside("")),
        at("write", outside("written")),
        at("append", outside("appended")),
        at("create", outside("created")),
        at("truncate", outside("cut")),
        at("remove", outside("removed")),
        to("rename", outside("renamed"), inside("stolen")),
        to("rename", inside("moved"), outside("put")),
        to("link", outside("linked"), inside("second name")),
        to("link", inside("mine"), outside("name outside")),
        at("make directory", outside("directory")),
        at("remove directory", outside("empty")),
        at("make fifo", outside("fifo")),
        to("symlink", inside("mine"), outside("pointer")),
        at("write", "../outside/above".to_owned()),
        at("write", inside("../outside/../outside/above")),
        // The link itself may be made. It leads nowhere.
        to("symlink", outside("followed"), inside("way out")),
        at("read", inside("way out")),
        at("write", inside("way out")),
        // Where everybody may write.
        at("create", shared.clone()),
        at("remove", shared),
    ];
    // For root alone, also outside.
    if nix::unistd::geteuid().is_root() {
        let of = handle(&place.beside("outside/read"));
        steps.push(step("open by handle", json!({"handle": of})));
    }
    steps
}

/// The step of [`every_harm`] that harms nothing.
const HARMLESS: &[&str] = &["symlink"];

pub(crate) fn outside(lab: &Lab) -> Outcome {
    for tools in ["Read, Write", "Bash"] {
        let place = lab.place();
        victims(&place);
        let before = snapshot(&place.beside("outside"));
        let ran = place.node(tools).run(&every_harm(&place));
        assert_eq!(before, snapshot(&place.beside("outside")), "{tools}: {:?}", ran.answers);
        let links = ran.answers.iter().filter(|answer| HARMLESS.contains(&text(answer, "attack"))).count();
        let worked = ran.answers.iter().filter(|answer| answer.get("ok").is_some()).count();
        assert!(worked < links, "{tools}: only the link inside of the workspace works: {:?}", ran.answers);
        assert!(!ran.output.contains("secret of the outside"), "{tools}: {}", ran.output);
        // The control: the same steps, outside of the cage.
        let place = lab.place();
        victims(&place);
        let control = place.outside_of_the_cage(&every_harm(&place));
        control.all_work();
    }
    Ok(())
}

/// What is granted goes on: without it, what is denied above could be denied for another reason.
pub(crate) fn inside(lab: &Lab) -> Outcome {
    for tools in ["Read, Write", "Bash"] {
        let place = lab.place();
        place.write("from/one", "1").write("from/two", "2").write("to/there", "");
        let at = |path: &str| place.root().join(path).display().to_string();
        let to = |attack: &str, path: &str, to: &str| step(attack, json!({"path": at(path), "to": at(to)}));
        let steps = [
            to("rename", "from/one", "from/other"),
            to("link", "from/two", "from/second"),
            to("symlink", "from/two", "from/pointer"),
            step("make directory", json!({"path": at("from/new")})),
            step("remove", json!({"path": at("from/second")})),
            to("rename", "from/other", "to/one"),
            to("link", "from/two", "to/two"),
            to("rename", "from/new", "to/new"),
        ];
        let ran = place.node(tools).run(&steps);
        assert_eq!(ran.answers.len(), steps.len(), "{tools}: {} {}", ran.value, ran.stderr);
        assert!(ran.answers.iter().all(|answer| answer.get("ok").is_some()), "{tools}: {}", ran.output);
    }
    Ok(())
}

pub(crate) fn linked_grant(lab: &Lab) -> Outcome {
    // What is granted, what is a link there, and to what.
    let cases = [
        ("Write(docs/**)", "docs", "docs"),
        ("Write(docs/api/**)", "docs", "docs"),
        ("Write(docs/x)", "docs/x", "docs/x"),
        ("Read(docs/**)", "docs", "docs"),
    ];
    for (tools, link, to) in cases {
        for is_link in [true, false] {
            let place = lab.place();
            place.outside("docs/api/there", "").outside("docs/x", "secret of the outside");
            place.write("other/there", "");
            if link == "docs/x" || !is_link {
                place.write("docs/api/there", "");
            }
            if is_link {
                symlink(place.beside("outside").join(to), place.root().join(link)).unwrap();
            } else {
                place.write("docs/x", "granted");
            }
            let steps = [
                step("read", json!({"path": "docs/x"})),
                step("write", json!({"path": "docs/x", "text": "attacked"})),
                step("write", json!({"path": "docs/api/x", "text": "attacked"})),
                step("write", json!({"path": "other/x", "text": "attacked"})),
            ];
            let before = snapshot(&place.beside("outside"));
            let ran = place.node(tools).run(&steps);
            assert_eq!(before, snapshot(&place.beside("outside")), "{tools}: {}", ran.output);
            assert!(!place.root().join("other/x").exists(), "{tools}: {}", ran.output);
            if is_link {
                assert_eq!(ran.code, 84, "{tools}: {}", ran.value);
                assert!(!place.kinds().contains(&"spawn".to_owned()), "{tools}: {:?}", place.kinds());
                continue;
            }
            // The control: what is there by its own name is held to what the words say.
            assert_eq!(ran.code, 0, "{tools}: {}", ran.value);
            let works: Vec<bool> = ran.answers.iter().map(|answer| answer.get("ok").is_some()).collect();
            let expected = match tools {
                "Write(docs/**)" => [false, true, true, false],
                "Write(docs/api/**)" => [false, false, true, false],
                "Write(docs/x)" => [false, true, false, false],
                _ => [true, false, false, false],
            };
            assert_eq!(works, expected, "{tools}: {}", ran.output);
        }
    }
    Ok(())
}

/// Every file below a directory.
fn all_files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(all_files(&path)) } else { found.push(path) }
    }
    found
}

fn tampering(files: &[PathBuf]) -> Vec<Value> {
    let mut steps = Vec::new();
    for file in files {
        for attack in ["read", "open to write", "append", "truncate", "remove"] {
            steps.push(step(attack, json!({"path": file, "text": "forged"})));
        }
    }
    steps
}

pub(crate) fn ledger(lab: &Lab) -> Outcome {
    for tools in ["Read, Write", "Bash"] {
        let place = lab.place();
        let first = place.node(tools).run(&[]);
        assert_eq!(first.code, 0, "{}", first.value);
        let files = all_files(&place.ledger());
        let before: Vec<Vec<u8>> = files.iter().map(|file| fs::read(file).unwrap()).collect();
        let mut steps = tampering(&files);
        // What was answered before, and who holds what.
        steps.extend(tampering(&all_files(&place.beside("state"))));
        steps.push(step("descriptors", json!({})));
        let ran = place.node(tools).run(&steps);
        for (file, before) in files.iter().zip(before) {
            let after = fs::read(file).unwrap_or_default();
            // Each run moves the head itself.
            let holds = if file.ends_with("head") { !after.is_empty() } else { after.starts_with(&before) };
            assert!(holds, "{tools}: {} was changed", file.display());
        }
        assert_eq!(place.verified(), 0, "{tools}: the ledger holds");
        assert_eq!(ran.got("descriptors"), json!([0, 1, 2]), "{tools}");
        ran.none_works_but("descriptors");
        // The control: a copy that may be reached is changed.
        let copy = place.beside("copy");
        fs::create_dir(&copy).unwrap();
        let copies: Vec<PathBuf> = files.iter().map(|file| copy.join(file.file_name().unwrap())).collect();
        for (file, copy) in files.iter().zip(&copies) {
            fs::copy(file, copy).unwrap();
            fs::set_permissions(copy, fs::Permissions::from_mode(0o600)).unwrap();
        }
        place.outside_of_the_cage(&tampering(&copies)).all_work();
        assert!(all_files(&copy).is_empty());
    }
    Ok(())
}

pub(crate) fn marks(lab: &Lab) -> Outcome {
    let steps = |path: &Path| {
        ["chmod", "times", "attribute"].map(|attack| step(attack, json!({"path": path, "seconds": 1})))
    };
    // At K no rule bounds these calls by place, so who may write may make them.
    let tools: &[&str] = if lab.tier == "K" { &["Read"] } else { &["Read", "Read, Write", "Bash"] };
    for tools in tools {
        let place = lab.place();
        place.outside("victim", "secret");
        let before = snapshot(&place.beside("outside"));
        let victim = place.beside("outside/victim");
        let ran = place.node(tools).run(&steps(&victim));
        assert_eq!(before, snapshot(&place.beside("outside")), "{tools}: {:?}", ran.answers);
        ran.none_works_but("");
        let control = place.outside_of_the_cage(&steps(&victim));
        assert_eq!(control.got("chmod"), json!("done"));
        assert_eq!(control.got("times"), json!("done"));
        if has_mark(&victim) {
            assert!(control.error("attribute").is_none());
        } else {
            return Err(format!("{} keeps no attributes: the control is missing", victim.display()));
        }
    }
    Ok(())
}

pub(crate) fn workspace_link(lab: &Lab) -> Outcome {
    for tools in ["Read, Write", "Bash"] {
        let place = lab.place();
        place.outside("secret", "secret of the outside").outside("victim", "untouched");
        symlink(place.beside("outside"), place.root().join("out")).unwrap();
        symlink(place.beside("outside/secret"), place.root().join("secret")).unwrap();
        symlink("../outside/victim", place.root().join("victim")).unwrap();
        let at = |attack: &str, path: &str| step(attack, json!({"path": path, "text": "attacked"}));
        let steps = [
            at("read", "secret"),
            at("read", "out/secret"),
            at("list", "out"),
            at("write", "victim"),
            at("append", "out/victim"),
            at("create", "out/new"),
        ];
        let before = snapshot(&place.beside("outside"));
        let ran = place.node(tools).run(&steps);
        assert_eq!(before, snapshot(&place.beside("outside")), "{tools}: {:?}", ran.answers);
        assert!(!ran.output.contains("secret of the outside"), "{tools}: {}", ran.output);
        ran.none_works_but("");
        place.outside_of_the_cage(&steps).all_work();
    }
    Ok(())
}

pub(crate) fn hooks(lab: &Lab) -> Outcome {
    let steps = |place: &Place| {
        let at = |path: &str| step("write", json!({"path": path, "text": "attacked"}));
        let root = place.root();
        let inside = |name: &str| root.join(name).display().to_string();
        [
            at("file"),
            at(".git/index"),
            at(".git/hooks/pre-commit"),
            at(".git/config"),
            step("rename", json!({"path": inside(".git/hooks"), "to": inside(".git/old hooks")})),
            step("rename", json!({"path": inside(".git/config"), "to": inside(".git/old config")})),
            step("rename", json!({"path": inside(".git"), "to": inside("old git")})),
        ]
    };
    let place = lab.place();
    place.write(".git/hooks/there", "").write(".git/config", "[core]\n");
    let ran = place.node("Bash").run(&steps(&place));
    let worked: Vec<bool> = ran.answers.iter().map(|answer| answer.get("ok").is_some()).collect();
    let root = place.root();
    assert_eq!(fs::read_to_string(root.join("file")).unwrap(), "attacked", "{}", ran.output);
    if lab.tier == "K" {
        // The control, and what tier N is for.
        assert_eq!(worked, [true; 7], "{}", ran.output);
        assert!(root.join("old git/old hooks/pre-commit").exists());
    } else {
        assert_eq!(worked, [true, true, false, false, false, false, false], "{}", ran.output);
        assert!(!root.join(".git/hooks/pre-commit").exists());
        assert_eq!(fs::read_to_string(root.join(".git/config")).unwrap(), "[core]\n");
        assert!(root.join(".git/hooks/there").exists());
    }
    Ok(())
}
