//! Runs in a cage, as an operator sees them: what holds, what was denied, and what would allow it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;

use super::project::Project;

/// An agent program as people write them, in Node: it starts a program, keeps a temporary file, reads the
/// workspace, and reaches its model through the proxy that its environment names. Then it tries the rest.
const AGENT: &str = r#"
const { execFileSync } = require('child_process');
const fs = require('fs'), net = require('net'), os = require('os'), path = require('path');
const task = fs.readFileSync(0, 'utf8').trim();
const [model, other] = task.split(' ');
const say = (what, text) => console.log(what + ': ' + text);
const tried = (what, f) => { try { say(what, f()); } catch (e) { say(what, e.code || e.message); } };
tried('program', () => execFileSync('/bin/echo', ['started']).toString().trim());
tried('temporary', () => {
  const file = path.join(os.tmpdir(), 'note');
  fs.writeFileSync(file, 'kept');
  return fs.readFileSync(file, 'utf8');
});
tried('workspace', () => fs.readFileSync('in.txt', 'utf8').trim());
tried('outside', () => fs.readFileSync('../outside.txt', 'utf8'));
tried('writing', () => fs.writeFileSync('in.txt', 'changed'));
const proxy = new URL(process.env.HTTPS_PROXY);
const connect = (what, port, host, head) => new Promise(resolve => {
  const socket = net.connect(port, host);
  let text = '';
  socket.on('connect', () => head && socket.write(head));
  socket.on('data', data => {
    text += data;
    if (text.includes('200') && text.endsWith('\r\n\r\n')) socket.write('hello from ' + what);
  });
  socket.on('error', e => { say(what, e.code); resolve(); });
  socket.on('close', () => { say(what, text.split('\r\n')[0] + ' ' + text.split('\r\n\r\n').pop().trim()); resolve(); });
});
const through = (what, target) =>
  connect(what, proxy.port, proxy.hostname, `CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n\r\n`);
(async () => {
  await through('model', model);
  await through('another', other);
  const [host, port] = other.split(':');
  await connect('directly', port, host, 'straight\r\n\r\n');
})();
"#;

fn node() -> Option<&'static str> {
    ["/usr/bin/node", "/usr/local/bin/node"].into_iter().find(|path| Path::new(path).exists())
}

fn profile(node: &str, script: &Path, endpoint: &str) -> String {
    format!(
        "version: 1\nruntime: noder\nabout: an agent in Node\nfind: {node}\nprobe: []\nversions: null\n\
         tools:\n  read: {{native: read, files: whole-disk}}\n\
         allowlist: nothing\nargv:\n  - [{script}]\nenv: {{}}\nkeys: []\nconfig_files: []\nbody: unused\n\
         task: stdin\nmodel: none\nmcp: null\noutput: text\nattestation: null\nusage: null\nexit: code\ncannot: {{}}\n\
         cage: {{programs: true, read: [{script}], endpoints: [\"{endpoint}\"]}}\n",
        script = script.display()
    )
}

/// Answers one connection with `answer` after its first bytes, and returns those.
fn answering(listener: TcpListener, answer: &'static [u8]) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut bytes = vec![0; 256];
        let read = stream.read(&mut bytes).unwrap();
        stream.write_all(answer).unwrap();
        bytes.truncate(read);
        bytes
    })
}

fn nobody_came(listener: &TcpListener) -> bool {
    listener.set_nonblocking(true).unwrap();
    matches!(listener.accept(), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
}

#[test]
fn an_agent_in_node_works_and_reaches_its_model_and_nothing_else() {
    let Some(node) = node() else {
        println!("SKIPPED: there is no Node in /usr/bin or /usr/local/bin");
        return;
    };
    for tier in ["K", "N"] {
        let (model, other) =
            (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
        let at = |listener: &TcpListener| listener.local_addr().unwrap().to_string();
        let project = Project::new();
        let script = project.config().join("agent.js");
        project.skill("reader", "Read").write("in.txt", "milk\n").write("../outside.txt", "secret");
        super::project::write(&script, AGENT);
        super::project::write(
            &project.config().join("runtimes/noder.yaml"),
            profile(node, &script, &at(&model)),
        );
        project.write(
            "policy.yaml",
            format!("version: 1\ntier: {tier}\ngrant: [tool:read, agent:*]\nruntime: {{default: noder}}\n"),
        );
        // The control: the other host answers to who may reach it.
        TcpStream::connect(at(&other)).unwrap();
        drop(other.accept().unwrap());
        let task = format!("{} {}", at(&model), at(&other));
        let heard = answering(model, b"the model's answer");
        let (code, value) =
            project.json(&["--policy", "policy.yaml", "run", "reader", "--trust-workspace", "--task", &task]);
        assert_eq!(code, 0, "{value}");
        assert_eq!(value["tier"], tier);
        let text = value["outcome"]["output"]["text"].as_str().unwrap();
        let said = |what: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(&format!("{what}: ")));
            line.unwrap_or_else(|| panic!("`{what}` is not in\n{text}")).to_owned()
        };
        assert_eq!(said("program"), "started");
        assert_eq!(said("temporary"), "kept");
        assert_eq!(said("workspace"), "milk");
        assert_eq!(said("outside"), if tier == "K" { "EACCES" } else { "ENOENT" });
        assert_eq!(said("writing"), if tier == "K" { "EACCES" } else { "EROFS" });
        assert_eq!(std::fs::read_to_string(project.root().join("in.txt")).unwrap(), "milk\n");
        assert!(said("model").ends_with("the model's answer"), "{text}");
        assert_eq!(heard.join().unwrap(), b"hello from model");
        assert!(said("another").starts_with("HTTP/1.1 403"), "{text}");
        // Whatever address a program names, its socket leads to the proxy.
        assert!(said("directly").starts_with("HTTP/1.1 400"), "{text}");
        assert!(nobody_came(&other), "somebody reached the other host");
        // What was denied is said, and is on the ledger.
        let denied = value["outcome"]["denied"].as_array().unwrap();
        assert!(
            denied.iter().any(|row| row["what"] == "host" && row["name"] == at(&other) && row["count"] == 1),
            "{value}"
        );
        let records = project.records(&project.ledger());
        let hosts: Vec<_> = records.iter().filter(|record| record["kind"] == "denied").collect();
        assert_eq!(hosts.len(), 1, "{records:?}");
        assert_eq!(hosts[0]["body"]["name"], at(&other));
    }
}

#[test]
fn what_holds_a_node_is_on_the_ledger_before_its_program_runs() {
    let project = Project::new();
    project
        .skill("reader", "Read")
        .write("in.txt", "milk\n")
        .write("policy.yaml", "version: 1\ngrant: [tool:read, agent:*]\nruntime: {default: scripted}\n");
    let ran = project.run(&[
        "--policy",
        "policy.yaml",
        "run",
        "reader",
        "--trust-workspace",
        "--task",
        "read in.txt",
    ]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let records = project.records(&project.ledger());
    let kinds: Vec<&str> = records.iter().map(|record| record["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["genesis", "session", "decision", "spawn", "caged", "spawned", "exit", "close"]);
    let caged = &records[4]["body"];
    assert_eq!(caged["tier"], "K");
    assert!(caged["landlock"].as_u64().unwrap() >= 6);
    let tried: Vec<&str> = caged["tried"].as_array().unwrap().iter().map(|t| t.as_str().unwrap()).collect();
    assert_eq!(
        tried,
        [
            "reading outside",
            "writing outside",
            "writing the workspace",
            "a socket",
            "starting a program",
            "a signal to the guard"
        ]
    );
}

#[test]
fn what_a_cage_denied_is_said_with_the_policy_line_that_allows_it() {
    let project = Project::new();
    let elsewhere = project.root().parent().unwrap().join("toolchain");
    std::fs::create_dir(&elsewhere).unwrap();
    std::fs::write(elsewhere.join("settings"), "loud\n").unwrap();
    let policy = |paths: &str| {
        format!("version: 1\ngrant: [tool:bash, agent:*]\nruntime: {{default: command}}\n{paths}")
    };
    project.skill("worker", "Bash").write("policy.yaml", policy(""));
    let settings = elsewhere.join("settings").canonicalize().unwrap();
    let task = format!("cat {}", settings.display());
    let run =
        || project.json(&["--policy", "policy.yaml", "run", "worker", "--trust-workspace", "--task", &task]);
    let (code, value) = run();
    assert_eq!(code, 1, "{value}");
    let denied = &value["outcome"]["denied"][0];
    assert_eq!(denied["what"], "path");
    assert_eq!(denied["name"], settings.display().to_string());
    let line = format!("paths: {{read: [{}]}}", settings.display());
    assert!(denied["fix"].as_str().unwrap().contains(&line), "{value}");
    // The line, as it was said, allows it.
    project.write("policy.yaml", policy(&format!("{line}\n")));
    let (code, value) = run();
    assert_eq!(code, 0, "{value}");
    assert_eq!(value["outcome"]["output"]["text"], "loud\n");
    assert_eq!(value["outcome"]["denied"], serde_json::json!([]));
}
