//! Sockets in a cage: they lead to the broker, whatever address is named.
//!
//! The node is Python, which makes the calls as they are written here. Outside of a cage the same program
//! is the control.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::JoinHandle;

use depute::cage::{self, Keeper, Machine, Start, Word};
use depute::kernel_spec::{
    Access, Destination, KernelSpec, MAX_PROCESSES, Network, PathRule, Place, Programs,
};
use depute::runtime::Tier;
use tokio::io::AsyncReadExt;

const DEPUTE: &str = env!("CARGO_BIN_EXE_depute");
const PYTHON: &str = "/usr/bin/python3";

/// Says `what: outcome` a line. Its arguments are the part that it plays and the address of somebody.
const NODE: &str = r#"
import asyncio, ctypes, errno, fcntl, os, resource, select, socket, struct, subprocess, sys
libc = ctypes.CDLL(None, use_errno=True)
part, (host, port) = sys.argv[1], sys.argv[2].split(':')
STREAM, NONBLOCK, CLOEXEC = socket.SOCK_STREAM, socket.SOCK_NONBLOCK, socket.SOCK_CLOEXEC

def say(what, outcome): print(f'{what}: {outcome}', flush=True)
def name(code): return errno.errorcode.get(code, code)
def call(function, *arguments):
    done = function(*arguments)
    return (done, None) if done >= 0 else (None, name(ctypes.get_errno()))
def address(family): return struct.pack('=H', family) + struct.pack('>H', int(port)) + socket.inet_aton(host) + bytes(8)

def talk(what, connection):
    connection.sendall(what.encode())
    select.select([connection], [], [], 20)
    say(what, connection.recv(100).decode())

def reach():
    one = socket.create_connection((host, int(port)))
    talk('waiting', one)
    say('peer', one.getpeername()[0])
    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    two = socket.socket(socket.AF_INET, STREAM | NONBLOCK)
    say('nonblocking connect', name(two.connect_ex((host, int(port)))))
    select.select([], [two], [], 20)
    say('its error', two.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
    talk('nonblocking', two)
    async def loop():
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b'in a loop')
        say('in a loop', (await reader.read(100)).decode())
        writer.close()
    asyncio.run(loop())
    for flags in (0, NONBLOCK, CLOEXEC, NONBLOCK | CLOEXEC):
        made, failed = call(libc.socket, socket.AF_INET, STREAM | flags, 0)
        blocks = not fcntl.fcntl(made, fcntl.F_GETFL) & os.O_NONBLOCK
        closes = fcntl.fcntl(made, fcntl.F_GETFD) & fcntl.FD_CLOEXEC
        say(f'flags {flags:o}', f"{'waits' if blocks else 'returns'} {'closed' if closes else 'kept'}")
        os.close(made)
    # A connection that is undone could be made again.
    say('undone', call(libc.connect, one.fileno(), address(socket.AF_UNSPEC), 16)[0])
    talk('still there', one)
    sent = call(libc.sendto, two.fileno(), b'x', 1, 0x20000000, address(socket.AF_INET), 16)
    say('sent elsewhere', sent[1])
    for what, done in (('bind', libc.bind(one.fileno(), address(socket.AF_INET), 16)), ('listen', libc.listen(one.fileno(), 1))):
        say(what, name(ctypes.get_errno()) if done else 'done')
    many = [socket.create_connection((host, int(port))) for _ in range(50)]
    say('many', len({(connection.getsockname(), connection.getpeername()) for connection in many}))
    resource.setrlimit(resource.RLIMIT_NOFILE, (many[-1].fileno() + 1,) * 2)
    say('too many', call(libc.socket, socket.AF_INET, STREAM, 0)[1])
    for connection in many: connection.close()
    try:
        say('program', subprocess.run(['/bin/true']).returncode)
    except OSError as error:
        say('program', name(error.errno))

def direct():
    connection = socket.create_connection((host, int(port)))
    connection.sendall(b'for somebody else')
    connection.shutdown(socket.SHUT_WR)
    say('direct', connection.recv(100).decode())

def kinds():
    for what, *arguments in (
        ('tcp', socket.AF_INET, STREAM, 0),
        ('tcp by its number', socket.AF_INET, STREAM, socket.IPPROTO_TCP),
        ('tcp 6', socket.AF_INET6, STREAM, 0),
        ('udp', socket.AF_INET, socket.SOCK_DGRAM, 0),
        ('udp 6', socket.AF_INET6, socket.SOCK_DGRAM, 0),
        ('mptcp', socket.AF_INET, STREAM, 262),
        ('unix', socket.AF_UNIX, STREAM, 0),
        ('unix datagram', socket.AF_UNIX, socket.SOCK_DGRAM, 0),
        ('netlink', socket.AF_NETLINK, socket.SOCK_RAW, 0),
        ('raw', socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP),
        ('packet', socket.AF_PACKET, socket.SOCK_DGRAM, 0),
    ):
        made, failed = call(libc.socket, *arguments)
        say(what, failed or 'made')
    say('connect', call(libc.connect, 0, address(socket.AF_INET), 16)[1])

{'reach': reach, 'direct': direct, 'kinds': kinds}[part]()
"#;

/// What a node said, and what was said to the broker on each connection.
struct Ran {
    said: BTreeMap<String, String>,
    heard: Vec<String>,
}

impl Ran {
    fn said(&self, what: &str) -> &str {
        self.said.get(what).unwrap_or_else(|| panic!("`{what}` is not in {:?}", self.said))
    }
}

fn lines(text: &str) -> BTreeMap<String, String> {
    text.lines()
        .filter_map(|line| line.split_once(": "))
        .map(|(what, how)| (what.into(), how.into()))
        .collect()
}

/// Whether what these tests need is here.
fn is_possible() -> bool {
    let missing = if !Path::new(PYTHON).exists() {
        PYTHON
    } else if Machine::measure().tier() < Tier::K {
        "tier K"
    } else {
        return true;
    };
    println!("SKIPPED: {missing} is not here");
    false
}

/// Plays the broker's proxy on one connection: answers each thing that it hears.
fn answer(mut client: TcpStream) -> JoinHandle<String> {
    client.set_nonblocking(false).unwrap();
    std::thread::spawn(move || {
        let (mut all, mut bytes) = (String::new(), [0; 256]);
        while let Ok(read @ 1..) = client.read(&mut bytes) {
            let text = String::from_utf8_lossy(&bytes[..read]).into_owned();
            let _ = client.write_all(format!("you said {text}").as_bytes());
            all.push_str(&text);
        }
        all
    })
}

/// The node outside of any cage.
fn free(part: &str, address: &str) -> BTreeMap<String, String> {
    let ran = Command::new(PYTHON).args(["-I", "-c", NODE, part, address]).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    lines(&String::from_utf8(ran.stdout).unwrap())
}

fn caged(tier: Tier, network: Network, programs: Programs, part: &str, address: &str) -> Ran {
    caged_program(tier, network, programs, &[PYTHON, "-I", "-c", NODE, part, address])
}

fn caged_program(tier: Tier, network: Network, programs: Programs, argv: &[&str]) -> Ran {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let workspace = tempfile::tempdir().unwrap();
    runtime.block_on(async {
        let (keeper, line) = Keeper::new().unwrap();
        let mut command = tokio::process::Command::new(DEPUTE);
        command.arg(cage::GUARD).env_clear().current_dir(workspace.path());
        command.stdin(line).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut guard = command.spawn().unwrap();
        drop(command);
        let start = start(tier, network, programs, workspace.path(), argv);
        keeper.start(start, &std::fs::File::open("/dev/null").unwrap().into()).unwrap();
        let mut clients = Vec::new();
        loop {
            match keeper.hear().await {
                Word::Ready { .. } => keeper.go().unwrap(),
                Word::Connected(client) => clients.push(answer(client)),
                Word::Exited(_) => {}
                Word::Ended { .. } => break,
                word @ (Word::Failed(_) | Word::Lost) => panic!("{word:?}"),
            }
        }
        let (mut said, mut talk) = (String::new(), String::new());
        guard.stdout.take().unwrap().read_to_string(&mut said).await.unwrap();
        guard.stderr.take().unwrap().read_to_string(&mut talk).await.unwrap();
        guard.wait().await.unwrap();
        assert_eq!(talk, "", "after\n{said}");
        let heard = clients.into_iter().map(|client| client.join().unwrap()).collect();
        Ran { said: lines(&said), heard }
    })
}

fn start(tier: Tier, network: Network, programs: Programs, workspace: &Path, argv: &[&str]) -> Start {
    let place = |path: &str, access| PathRule { place: Place::System(path.to_owned()), access };
    let mut paths = ["/usr", "/bin", "/lib", "/lib64"].map(|path| place(path, Access::RUN)).to_vec();
    paths.extend(["/etc/ld.so.cache", "/etc/ssl", "/dev/urandom"].map(|path| place(path, Access::READ)));
    paths.push(place("/dev/null", Access::WRITE));
    Start {
        spec: KernelSpec {
            tier,
            workspace: workspace.display().to_string(),
            private: workspace.display().to_string(),
            paths,
            programs,
            metadata: false,
            network,
            processes: MAX_PROCESSES,
        },
        program: argv[0].to_owned(),
        argv: argv.iter().map(|&argument| argument.to_owned()).collect(),
        outside: "/dev/full".to_owned(),
        group: None,
    }
}

fn proxied() -> Network {
    Network::Proxied(vec![Destination::Anywhere])
}

/// The address by which programs know the proxy.
fn proxy() -> String {
    "127.0.0.1:3128".to_owned()
}

#[test]
fn a_connection_leads_to_the_broker_however_it_is_made() {
    if !is_possible() {
        return;
    }
    for (tier, programs, program) in
        [(Tier::F, Programs::Executable, "0"), (Tier::K, Programs::OwnOnly, "EPERM")]
    {
        let ran = caged(tier, proxied(), programs, "reach", &proxy());
        for (what, expected) in [
            ("waiting", "you said waiting"),
            ("peer", "127.0.0.1"),
            ("nonblocking connect", "0"),
            ("its error", "0"),
            ("nonblocking", "you said nonblocking"),
            ("in a loop", "you said in a loop"),
            ("flags 0", "waits kept"),
            ("flags 4000", "returns kept"),
            ("flags 2000000", "waits closed"),
            ("flags 2004000", "returns closed"),
            ("undone", "0"),
            ("still there", "you said still there"),
            ("sent elsewhere", "EPERM"),
            ("bind", "EPERM"),
            ("listen", "EPERM"),
            ("many", "50"),
            ("too many", "EMFILE"),
            ("program", program),
        ] {
            assert_eq!(ran.said(what), expected, "{what} at {tier:?}");
        }
        let heard: Vec<&str> = ran.heard.iter().map(String::as_str).filter(|text| !text.is_empty()).collect();
        assert_eq!(heard, ["waitingstill there", "nonblocking", "in a loop"]);
    }
}

#[test]
fn nobody_else_is_reached_by_naming_their_address() {
    if !is_possible() {
        return;
    }
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap().to_string();
    // The control: outside of a cage the same program reaches it.
    let control = {
        let accepted = other.try_clone().unwrap();
        let answered = std::thread::spawn(move || answer(accepted.accept().unwrap().0).join().unwrap());
        assert_eq!(free("direct", &address)["direct"], "you said for somebody else");
        answered.join().unwrap()
    };
    assert_eq!(control, "for somebody else");
    for tier in [Tier::F, Tier::K] {
        let ran = caged(tier, proxied(), Programs::OwnOnly, "direct", &address);
        assert_eq!(ran.said("direct"), "you said for somebody else");
        assert_eq!(ran.heard, ["for somebody else"], "at {tier:?}");
        other.set_nonblocking(true).unwrap();
        let nobody = other.accept().unwrap_err();
        assert_eq!(nobody.kind(), std::io::ErrorKind::WouldBlock, "somebody came at {tier:?}");
    }
}

#[test]
fn other_sockets_are_not_made() {
    if !is_possible() {
        return;
    }
    let control = free("kinds", &proxy());
    for tier in [Tier::F, Tier::K] {
        let connected = caged(tier, proxied(), Programs::OwnOnly, "kinds", &proxy());
        let none = caged(tier, Network::None, Programs::Executable, "kinds", &proxy());
        for (what, outside) in control.iter().filter(|(what, _)| *what != "connect") {
            assert_eq!(none.said(what), "EPERM", "{what} at {tier:?} without a network");
            let expected = match what.as_str() {
                "tcp" | "tcp by its number" => "made",
                what if what.ends_with('6') => "EAFNOSUPPORT",
                _ => "EPERM",
            };
            assert_eq!(connected.said(what), expected, "{what} at {tier:?}");
            if outside != "made" {
                println!("SKIPPED: {what} is not made outside of a cage either: {outside}");
            }
        }
        assert_eq!(none.said("connect"), "EPERM");
        assert_eq!(none.heard, [""; 0]);
        assert_eq!(connected.heard, ["", ""], "one for each that was made");
    }
    for what in ["tcp", "udp", "unix"] {
        assert_eq!(control[what], "made", "the control");
    }
}

#[test]
fn programs_that_people_use_take_it() {
    if !is_possible() {
        return;
    }
    const SCRIPT: &str =
        "const socket = require('net').connect(3128, '127.0.0.1', () => socket.write('node'));
        socket.on('data', data => { console.log('answer: ' + data); socket.end(); });";
    let proxy = format!("http://{}", proxy());
    let programs: [(&[&str], &str); 2] = [
        (&["/usr/bin/node", "-e", SCRIPT], "node"),
        (
            &[
                "/usr/bin/curl",
                "-s",
                "-m",
                "1",
                "--http0.9",
                "-x",
                &proxy,
                "-w",
                "\nanswer: you said curl",
                "http://a.example",
            ],
            "GET http://a.example/ HTTP/1.1",
        ),
    ];
    for (argv, heard) in programs {
        if !Path::new(argv[0]).exists() {
            println!("SKIPPED: {} is not here", argv[0]);
            continue;
        }
        let ran = caged_program(Tier::K, proxied(), Programs::Executable, argv);
        assert!(ran.said("answer").starts_with("you said "), "{:?}", ran.said);
        assert!(ran.heard.iter().any(|text| text.starts_with(heard)), "{} said {:?}", argv[0], ran.heard);
    }
}
