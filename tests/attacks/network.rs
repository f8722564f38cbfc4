//! Attacks by sockets of every sort. What counts is what arrives at those who listen.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::attacker::{Attack, Tried, apart, awaited, number, pour, step, text, why};
use super::harness::{Lab, Outcome, Place, finish, wait_until};
use super::raw::{self, Arg, call};

/// Each sends its own name, so that who listens knows what came through.
pub(crate) const ATTACKS: &[(&str, Attack)] = &[
    ("tcp", |step| stream(step, INET, 0, &internet(step))),
    ("tcp, version 6", |step| stream(step, INET6, 0, &internet6(step))),
    ("mptcp", |step| stream(step, INET, 262, &internet(step))),
    ("sctp", |step| stream(step, INET, 132, &internet(step))),
    ("fast open", |step| {
        const FAST_OPEN: i64 = 0x2000_0000;
        let socket = socket(INET, STREAM, 0)?;
        send_to(&socket, text(step, "attack"), FAST_OPEN, &internet(step))
    }),
    ("fast open by an option", |step| {
        let socket = socket(INET, STREAM, 0)?;
        let on = 1_i32.to_ne_bytes();
        let option = &mut [descriptor(&socket), Arg::Num(6), Arg::Num(30), Arg::Bytes(&on), Arg::Num(4)];
        call(libc::SYS_setsockopt, option).map_err(why)?;
        connect(&socket, &internet(step))?;
        pour(&socket, text(step, "attack").as_bytes())?;
        Ok(json!("sent"))
    }),
    ("fast open by a message", |step| {
        let socket = socket(INET, STREAM, 0)?;
        let bytes = text(step, "attack").as_bytes();
        raw::send_message(&socket, &internet(step), bytes, 0x2000_0000).map(|()| json!("sent")).map_err(why)
    }),
    ("tcp after a disconnect", |step| {
        let socket = socket(INET, STREAM, 0)?;
        disconnect(&socket)?;
        connect(&socket, &internet(step))?;
        pour(&socket, text(step, "attack").as_bytes())?;
        Ok(json!("sent"))
    }),
    ("fast open after a disconnect", |step| {
        let socket = socket(INET, STREAM, 0)?;
        disconnect(&socket)?;
        send_to(&socket, text(step, "attack"), 0x2000_0000, &internet(step))
    }),
    ("listen after a disconnect", |_| {
        let socket = socket(INET, STREAM, 0)?;
        disconnect(&socket)?;
        call(libc::SYS_listen, &mut [descriptor(&socket), Arg::Num(1)]).map(Value::from).map_err(why)
    }),
    ("the proxy's port elsewhere", elsewhere),
    ("udp", |step| send_to(&socket(INET, DATAGRAM, 0)?, text(step, "attack"), 0, &internet(step))),
    ("raw", raw_datagram),
    ("packet", |_| socket(17, 3, 0).map(|_| json!("made"))),
    ("netlink", netlink),
    ("vsock", vsock),
    ("unix", |step| stream(step, UNIX, 0, &unix(text(step, "path")))),
    ("unix datagram", |step| {
        send_to(&socket(UNIX, DATAGRAM, 0)?, text(step, "attack"), 0, &unix(text(step, "path")))
    }),
    ("unix abstract", |step| stream(step, UNIX, 0, &abstract_name(text(step, "name")))),
    ("unix datagram abstract", |step| {
        send_to(&socket(UNIX, DATAGRAM, 0)?, text(step, "attack"), 0, &abstract_name(text(step, "name")))
    }),
    ("pair of datagrams", |step| {
        let (ours, _theirs) = UnixDatagram::pair().map_err(why)?;
        send_to(&ours.into(), text(step, "attack"), 0, &unix(text(step, "path")))
    }),
    ("calls of 32 bits", |step| {
        let (port, text) = (port(step), text(step, "attack"));
        apart(|| raw::send_by_32_bits(port, text.as_bytes()).map(|()| json!("sent")).map_err(why))
    }),
    ("calls of x32", |step| {
        const X32: i64 = 0x4000_0000;
        let (address, text) = (internet(step), text(step, "attack"));
        apart(|| {
            let made = &mut [Arg::Num(INET), Arg::Num(STREAM), Arg::Num(0)];
            let socket = call(X32 | libc::SYS_socket, made).map(raw::owned).map_err(why)?;
            let to = &mut [descriptor(&socket), Arg::Bytes(&address), Arg::Num(16)];
            call(X32 | libc::SYS_connect, to).map_err(why)?;
            pour(&socket, text.as_bytes())?;
            Ok(json!("sent"))
        })
    }),
    ("listen", |_| {
        // Without an address it is given one.
        let socket = socket(INET, STREAM, 0)?;
        call(libc::SYS_listen, &mut [descriptor(&socket), Arg::Num(1)]).map(Value::from).map_err(why)
    }),
    ("bind", |_| TcpListener::bind(("127.0.0.1", 0)).map(|_| json!("bound")).map_err(why)),
    ("pair of streams", |step| {
        let (mut ours, mut theirs) = std::os::unix::net::UnixStream::pair().map_err(why)?;
        ours.write_all(text(step, "attack").as_bytes()).map_err(why)?;
        drop(ours);
        let mut heard = String::new();
        theirs.read_to_string(&mut heard).map_err(why)?;
        Ok(heard.into())
    }),
    ("proxy", through_the_proxy),
];

const INET: i64 = 2;
const INET6: i64 = 10;
const UNIX: i64 = 1;
const STREAM: i64 = 1;
const DATAGRAM: i64 = 2;
const RAW: i64 = 3;

fn descriptor(of: &OwnedFd) -> Arg<'static> {
    Arg::Num(i64::from(of.as_raw_fd()))
}

fn port(step: &Value) -> u16 {
    u16::try_from(number(step, "port")).unwrap()
}

fn internet(step: &Value) -> Vec<u8> {
    [&[2, 0][..], &port(step).to_be_bytes(), &[127, 0, 0, 1], &[0; 8]].concat()
}

fn internet6(step: &Value) -> Vec<u8> {
    let mut loopback = [0; 16];
    loopback[15] = 1;
    [&[10, 0][..], &port(step).to_be_bytes(), &[0; 4], &loopback, &[0; 4]].concat()
}

fn unix(path: &str) -> Vec<u8> {
    [&[1, 0][..], path.as_bytes(), &[0]].concat()
}

fn abstract_name(name: &str) -> Vec<u8> {
    [&[1, 0, 0][..], name.as_bytes()].concat()
}

fn socket(family: i64, kind: i64, protocol: i64) -> Result<OwnedFd, String> {
    call(libc::SYS_socket, &mut [Arg::Num(family), Arg::Num(kind), Arg::Num(protocol)])
        .map(raw::owned)
        .map_err(why)
}

fn length(of: &[u8]) -> Arg<'static> {
    Arg::Num(i64::try_from(of.len()).unwrap())
}

fn connect(socket: &OwnedFd, to: &[u8]) -> Result<(), String> {
    call(libc::SYS_connect, &mut [descriptor(socket), Arg::Bytes(to), length(to)]).map(drop).map_err(why)
}

/// Has a socket connected to nobody any more.
fn disconnect(socket: &OwnedFd) -> Result<(), String> {
    connect(socket, &[0; 16])
}

/// Tells which port it may connect to, and connects to that one at another address.
fn elsewhere(step: &Value) -> Tried {
    let proxy = std::env::var("HTTPS_PROXY").map_err(|_| "there is no proxy".to_owned())?;
    let port = proxy.rsplit(':').next().unwrap_or_default();
    std::fs::write(text(step, "tells"), format!("{port}\n")).map_err(why)?;
    awaited(text(step, "told").as_ref()).ok_or("nobody listens")?;
    let mut there = TcpStream::connect(format!("{}:{port}", text(step, "address"))).map_err(why)?;
    there.write_all(text(step, "attack").as_bytes()).map_err(why)?;
    Ok(json!("sent"))
}

fn stream(step: &Value, family: i64, protocol: i64, to: &[u8]) -> Tried {
    let socket = socket(family, STREAM, protocol)?;
    connect(&socket, to)?;
    pour(&socket, text(step, "attack").as_bytes())?;
    Ok(json!("sent"))
}

fn send_to(socket: &OwnedFd, text: &str, flags: i64, to: &[u8]) -> Tried {
    let bytes = text.as_bytes();
    let arguments = &mut [
        descriptor(socket),
        Arg::Bytes(bytes),
        length(bytes),
        Arg::Num(flags),
        Arg::Bytes(to),
        length(to),
    ];
    call(libc::SYS_sendto, arguments).map(Value::from).map_err(why)
}

/// A datagram with a head of our own making.
fn raw_datagram(step: &Value) -> Tried {
    let socket = socket(INET, RAW, 17)?;
    let text = text(step, "attack");
    let len = u16::try_from(text.len() + 8).unwrap();
    let head = [40_000_u16.to_be_bytes(), port(step).to_be_bytes(), len.to_be_bytes(), [0, 0]].concat();
    let datagram = [&head, text.as_bytes()].concat();
    let to = internet(step);
    let arguments = &mut [
        descriptor(&socket),
        Arg::Bytes(&datagram),
        length(&datagram),
        Arg::Num(0),
        Arg::Bytes(&to),
        length(&to),
    ];
    call(libc::SYS_sendto, arguments).map(Value::from).map_err(why)
}

/// Asks the kernel for the devices of this network.
fn netlink(_: &Value) -> Tried {
    const GET_LINKS: u16 = 18;
    const DUMP: u16 = 0x301;
    let socket = socket(16, RAW, 0)?;
    let head = [&32_u32.to_ne_bytes()[..], &GET_LINKS.to_ne_bytes(), &DUMP.to_ne_bytes(), &[0; 24]].concat();
    pour(&socket, &head)?;
    let mut answer = [0; 4096];
    Ok(nix::unistd::read(&socket, &mut answer).map_err(why)?.into())
}

/// Makes such a socket and gives it an address. Whom to reach by it differs from machine to machine.
fn vsock(_: &Value) -> Tried {
    let socket = socket(40, STREAM, 0)?;
    let any = u32::MAX.to_ne_bytes();
    let address = [&[40, 0, 0, 0][..], &any, &any, &[0; 4]].concat();
    call(libc::SYS_bind, &mut [descriptor(&socket), Arg::Bytes(&address), length(&address)])
        .map(Value::from)
        .map_err(why)
}

/// The way that a node is told of: it works for what is granted.
fn through_the_proxy(step: &Value) -> Tried {
    let proxy = std::env::var("HTTPS_PROXY").map_err(|_| "there is no proxy".to_owned())?;
    let mut stream = TcpStream::connect(proxy.trim_start_matches("http://")).map_err(why)?;
    let target = text(step, "target");
    write!(stream, "CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n").map_err(why)?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if stream.read(&mut byte).map_err(why)? == 0 {
            break;
        }
        head.extend(byte);
    }
    stream.write_all(text(step, "attack").as_bytes()).map_err(why)?;
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    let head = String::from_utf8_lossy(&head).into_owned();
    Ok(json!({"head": head.lines().next(), "answer": answer}))
}

/// Listeners of every sort, outside of the node's reach.
struct Listeners {
    tcp: TcpListener,
    tcp6: Option<TcpListener>,
    udp: UdpSocket,
    streams: Vec<UnixListener>,
    datagrams: Vec<UnixDatagram>,
    names: [String; 2],
}

impl Listeners {
    fn of(place: &Place<'_>) -> Self {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let names = ["stream", "datagram"].map(|kind| {
            format!("depute-attacks-{kind}-{}-{}", std::process::id(), tcp.local_addr().unwrap().port())
        });
        let [stream, datagram] = names.clone().map(|name| SocketAddr::from_abstract_name(name).unwrap());
        let listeners = Self {
            tcp,
            tcp6: TcpListener::bind("[::1]:0").ok(),
            udp: UdpSocket::bind("127.0.0.1:0").unwrap(),
            streams: vec![
                UnixListener::bind(place.beside("outside/stream")).unwrap(),
                UnixListener::bind(place.root().join("stream")).unwrap(),
                UnixListener::bind_addr(&stream).unwrap(),
            ],
            datagrams: vec![
                UnixDatagram::bind(place.beside("outside/datagram")).unwrap(),
                UnixDatagram::bind_addr(&datagram).unwrap(),
            ],
            names,
        };
        listeners.tcp.set_nonblocking(true).unwrap();
        if let Some(tcp6) = &listeners.tcp6 {
            tcp6.set_nonblocking(true).unwrap();
        }
        listeners.udp.set_nonblocking(true).unwrap();
        for stream in &listeners.streams {
            stream.set_nonblocking(true).unwrap();
        }
        for datagram in &listeners.datagrams {
            datagram.set_nonblocking(true).unwrap();
        }
        listeners
    }

    /// What has arrived until now. Who sent it has ended.
    fn heard(&self) -> BTreeSet<String> {
        const LONGEST: Duration = Duration::from_secs(5);
        let mut heard = BTreeSet::new();
        let mut keep = |bytes: &[u8]| heard.insert(String::from_utf8_lossy(bytes).into_owned());
        for listener in std::iter::once(&self.tcp).chain(&self.tcp6) {
            while let Ok((mut stream, _)) = listener.accept() {
                stream.set_read_timeout(Some(LONGEST)).unwrap();
                let mut bytes = Vec::new();
                let _ = stream.read_to_end(&mut bytes);
                keep(&bytes);
            }
        }
        for listener in &self.streams {
            while let Ok((mut stream, _)) = listener.accept() {
                stream.set_read_timeout(Some(LONGEST)).unwrap();
                let mut bytes = Vec::new();
                let _ = stream.read_to_end(&mut bytes);
                keep(&bytes);
            }
        }
        let mut bytes = [0; 256];
        while let Ok(len) = self.udp.recv(&mut bytes) {
            keep(&bytes[..len]);
        }
        for datagrams in &self.datagrams {
            while let Ok(len) = datagrams.recv(&mut bytes) {
                keep(&bytes[..len]);
            }
        }
        heard
    }

    /// Every way to reach them. Those that need root are for root.
    fn attacks(&self, place: &Place<'_>) -> Vec<Value> {
        let at = |name: &str| place.beside(&format!("outside/{name}")).display().to_string();
        let tcp = json!({"port": self.tcp.local_addr().unwrap().port()});
        let udp = json!({"port": self.udp.local_addr().unwrap().port()});
        let mut steps = vec![
            step("tcp", tcp.clone()),
            step("mptcp", tcp.clone()),
            step("fast open", tcp.clone()),
            step("fast open by an option", tcp.clone()),
            step("fast open by a message", tcp.clone()),
            step("fast open after a disconnect", tcp.clone()),
            step("tcp after a disconnect", tcp.clone()),
            step("listen after a disconnect", json!({})),
            step("udp", udp.clone()),
            step("netlink", json!({})),
            step("vsock", json!({})),
            step("unix", json!({"path": at("stream")})),
            step("unix", json!({"path": "stream"})),
            step("unix datagram", json!({"path": at("datagram")})),
            step("unix abstract", json!({"name": self.names[0]})),
            step("unix datagram abstract", json!({"name": self.names[1]})),
            step("pair of datagrams", json!({"path": at("datagram")})),
            step("listen", json!({})),
            step("bind", json!({})),
        ];
        if let Some(tcp6) = &self.tcp6 {
            steps.push(step("tcp, version 6", json!({"port": tcp6.local_addr().unwrap().port()})));
        }
        if nix::unistd::geteuid().is_root() {
            steps.push(step("raw", udp));
            steps.push(step("packet", json!({})));
        }
        if cfg!(target_arch = "x86_64") {
            steps.push(step("calls of 32 bits", tcp));
        }
        steps
    }
}

/// What says by itself whether it worked, because nobody is sent anything.
const SENDS_NOTHING: [&str; 6] =
    ["netlink", "vsock", "listen", "listen after a disconnect", "bind", "packet"];

pub(crate) fn every_socket(lab: &Lab) -> Outcome {
    let place = lab.place();
    let listeners = Listeners::of(&place);
    let attacks = listeners.attacks(&place);
    // The control first: each of them is heard, outside.
    let control = place.outside_of_the_cage(&attacks);
    let mut missing = Vec::new();
    let heard = listeners.heard();
    for answer in &control.answers {
        let name = text(answer, "attack");
        let got_through =
            if SENDS_NOTHING.contains(&name) { answer.get("ok").is_some() } else { heard.contains(name) };
        if !got_through {
            missing.push(format!("{name}: {answer}"));
        }
    }
    let is_known = |line: &String| line.starts_with("calls of 32 bits") && line.contains("SIGSEGV");
    assert!(missing.iter().all(is_known), "the control must be heard: {missing:?}");
    // What no control can be had of, or what must go on.
    let mut attacks = attacks;
    let tcp = listeners.tcp.local_addr().unwrap().port();
    for name in ["calls of x32", "sctp"] {
        attacks.push(step(name, json!({"port": tcp})));
    }
    attacks.push(step("pair of streams", json!({})));
    for tools in ["Read", "Bash"] {
        let ran = place.node(tools).run(&attacks);
        assert_eq!(listeners.heard(), BTreeSet::new(), "{tools}: {}", ran.output);
        assert_eq!(ran.got("pair of streams"), "pair of streams", "{tools}: {} {}", ran.value, ran.output);
        for name in SENDS_NOTHING.iter().filter(|name| control.output.contains(&format!("\"{name}\""))) {
            assert!(ran.error(name).is_some(), "{tools}: {name}: {}", ran.output);
        }
        // With one endpoint granted, that one hears, and still nobody else.
        let endpoint = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = endpoint.local_addr().unwrap();
        let answering = std::thread::spawn(move || {
            let (mut stream, _) = endpoint.accept().unwrap();
            let mut bytes = [0; 64];
            let len = stream.read(&mut bytes).unwrap();
            stream.write_all(b"the endpoint's answer").unwrap();
            (String::from_utf8_lossy(&bytes[..len]).into_owned(), endpoint)
        });
        let mut with_proxy = attacks.clone();
        with_proxy.push(step("tcp", json!({"port": address.port()})));
        let elsewhere = format!("127.0.0.1:{tcp}");
        with_proxy.push(step("proxy", json!({"target": elsewhere})));
        with_proxy.push(step("proxy", json!({"target": address.to_string()})));
        let ran = place.node(tools).cage(&format!("endpoints: [\"{address}\"]")).run(&with_proxy);
        assert_eq!(listeners.heard(), BTreeSet::new(), "{tools}, proxied: {}", ran.output);
        assert_eq!(
            ran.got("pair of streams"),
            "pair of streams",
            "{tools}, proxied: {} {}",
            ran.value,
            ran.output
        );
        let through: Vec<&Value> = ran.answers.iter().filter(|answer| answer["attack"] == "proxy").collect();
        assert_eq!(through.len(), 2, "{tools}: {}", ran.output);
        assert!(through[0]["ok"]["head"].as_str().is_some_and(|head| head.contains("403")), "{}", ran.output);
        assert_eq!(through[1]["ok"]["answer"], "the endpoint's answer", "{tools}: {}", ran.output);
        let (heard, endpoint) = answering.join().unwrap();
        assert_eq!(heard, "proxy", "{tools}");
        endpoint.set_nonblocking(true).unwrap();
        assert!(endpoint.accept().is_err(), "{tools}: nobody else reached the endpoint");
    }
    match missing.first() {
        None => Ok(()),
        Some(_) => {
            Err("this kernel takes no calls of 32 bits, so nothing shows that they are denied".to_owned())
        }
    }
}

pub(crate) fn daemons(lab: &Lab) -> Outcome {
    let place = lab.place();
    let outside = UnixListener::bind(place.beside("outside/daemon.sock")).unwrap();
    let inside = UnixListener::bind(place.root().join("daemon.sock")).unwrap();
    symlink(place.beside("outside/daemon.sock"), place.root().join("link.sock")).unwrap();
    for listener in [&outside, &inside] {
        listener.set_nonblocking(true).unwrap();
    }
    let came = || [&outside, &inside].map(|listener| listener.accept().is_ok());
    let absolute = |path: &Path| String::from_utf8(path.as_os_str().as_bytes().to_vec()).unwrap();
    let steps: Vec<Value> = [
        absolute(&place.beside("outside/daemon.sock")),
        absolute(&place.root().join("daemon.sock")),
        "daemon.sock".to_owned(),
        "link.sock".to_owned(),
    ]
    .map(|path| step("unix", json!({"path": path})))
    .to_vec();
    for tools in ["Read, Write", "Bash"] {
        for cage in ["", "endpoints: [\"127.0.0.1:9\"]"] {
            let ran = place.node(tools).cage(cage).run(&steps);
            ran.none_works_but("");
            assert_eq!(came(), [false, false], "{tools} {cage}: {}", ran.output);
        }
    }
    place.outside_of_the_cage(&steps).all_work();
    assert_eq!(came(), [true, true]);
    Ok(())
}

/// A rule for ports knows no addresses: the proxy's port is one of every other machine too.
pub(crate) fn proxy_port(lab: &Lab) -> Outcome {
    let place = lab.place();
    let (tells, told) = (place.root().join("tells"), place.root().join("told"));
    // At N the port is always the same: root and another user try this at the same time.
    let address = if nix::unistd::geteuid().is_root() { "127.0.0.2" } else { "127.0.0.3" };
    let steps =
        [step("the proxy's port elsewhere", json!({"tells": tells, "told": told, "address": address}))];
    let listen = || {
        let mut port = String::new();
        wait_until("the port", || {
            port = std::fs::read_to_string(&tells).unwrap_or_default();
            port.ends_with('\n')
        });
        let listener = TcpListener::bind(format!("{address}:{}", port.trim_end()));
        std::fs::write(&told, "listening\n").unwrap();
        let listener = listener.map_err(|error| format!("the port is taken at {address}: {error}"))?;
        listener.set_nonblocking(true).unwrap();
        Ok::<_, String>(listener)
    };
    let running = place.node("Bash").cage("endpoints: [\"127.0.0.1:9\"]").start(&steps);
    let listener = listen();
    let ran = finish(running);
    let listener = listener?;
    assert_eq!(ran.answers.len(), 1, "{} {}", ran.value, ran.stderr);
    let came = listener.accept().is_ok_and(|(mut stream, _)| {
        let mut heard = String::new();
        let _ = stream.read_to_string(&mut heard);
        !heard.is_empty()
    });
    assert!(!came, "another address on the proxy's port was reached: {}", ran.output);
    drop(listener);
    // The control: outside, with the same to go by.
    for file in [&tells, &told] {
        std::fs::remove_file(file).unwrap();
    }
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut control = place.surround(std::process::Command::new(&lab.attacker));
    control.arg("--attack-from").arg(place.beside("task.json"));
    control.env("HTTPS_PROXY", format!("http://{free}")).stdout(std::process::Stdio::piped());
    let control = control.spawn().unwrap();
    let listener = listen();
    assert!(control.wait_with_output().unwrap().status.success());
    let listener = listener?;
    assert!(listener.accept().is_ok(), "outside of a cage it has to be reached");
    Ok(())
}
