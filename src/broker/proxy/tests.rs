//! The proxy over real sockets. What it dials outside of this machine is noted and led to a target here.

use std::collections::VecDeque;
use std::net::TcpListener as StdListener;

use tokio::io::AsyncRead;
use tokio::sync::Notify;

use super::*;

const PUBLIC: &str = "93.184.215.14";
const PRIVATE: &str = "10.0.0.1";
/// How long what must come may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// A listener that connections are led to.
struct Target(StdListener);

impl Target {
    fn new() -> Self {
        let listener = listener();
        listener.set_nonblocking(true).unwrap();
        Self(listener)
    }

    fn port(&self) -> u16 {
        self.0.local_addr().unwrap().port()
    }

    /// The connection that was made first and not accepted yet.
    fn accept(&self) -> TcpStream {
        let (stream, _) = self.0.accept().expect("somebody has connected");
        stream.set_nonblocking(true).unwrap();
        TcpStream::from_std(stream).unwrap()
    }

    /// That nobody has connected, so that no byte can have arrived.
    #[track_caller]
    fn assert_untouched(&self) {
        assert_eq!(self.0.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }
}

/// Answers lookups from a list, and leads what is dialled to the target.
struct Fake {
    target: SocketAddr,
    answers: Mutex<VecDeque<io::Result<Vec<IpAddr>>>>,
    looked_up: Mutex<Vec<String>>,
    dialled: Mutex<Vec<String>>,
    /// These addresses do not answer; those do not let anyone in.
    silent: Vec<IpAddr>,
    closed: Vec<IpAddr>,
}

impl Fake {
    fn new<const N: usize>(target: &Target, answers: [&[&str]; N]) -> Self {
        let answers = answers.into_iter().map(|answer| Ok(addresses(answer)));
        Self {
            target: target.0.local_addr().unwrap(),
            answers: Mutex::new(answers.collect()),
            looked_up: Mutex::default(),
            dialled: Mutex::default(),
            silent: Vec::new(),
            closed: Vec::new(),
        }
    }

    /// Which names were looked up, and which addresses dialled, since this was asked last.
    fn done(&self) -> (Vec<String>, Vec<String>) {
        let take = |list: &Mutex<Vec<String>>| std::mem::take(&mut *list.lock().unwrap());
        (take(&self.looked_up), take(&self.dialled))
    }
}

impl Outside for Fake {
    fn resolve(&self, host: &str) -> Effect<Vec<IpAddr>> {
        self.looked_up.lock().unwrap().push(host.to_owned());
        let answer = self.answers.lock().unwrap().pop_front().expect("no lookup more than expected");
        Box::pin(async { answer })
    }

    fn connect(&self, address: SocketAddr) -> Effect<TcpStream> {
        self.dialled.lock().unwrap().push(address.to_string());
        if self.silent.contains(&address.ip()) {
            return Box::pin(std::future::pending());
        }
        if self.closed.contains(&address.ip()) {
            return Box::pin(async { Err(io::ErrorKind::ConnectionRefused.into()) });
        }
        let target = self.target;
        Box::pin(async move {
            // As from afar: without time left, none is made.
            tokio::time::sleep(Duration::from_millis(10)).await;
            TcpStream::connect(target).await
        })
    }
}

fn listener() -> StdListener {
    StdListener::bind("127.0.0.1:0").unwrap()
}

fn addresses(texts: &[&str]) -> Vec<IpAddr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

fn endpoint(host: &str, port: u16) -> Destination {
    Destination::Endpoint { host: host.to_owned(), port }
}

fn host(host: &str) -> Destination {
    Destination::Host(host.to_owned())
}

fn denied(host: &str, why: &str, count: u64) -> DeniedHost {
    DeniedHost { host: host.to_owned(), why: why.to_owned(), count }
}

fn serve(fake: &Arc<Fake>, allowed: Vec<Destination>) -> Proxy {
    serve_within(fake, allowed, LIMITS)
}

fn serve_within(fake: &Arc<Fake>, allowed: Vec<Destination>, limits: Limits) -> Proxy {
    Proxy::serve_with(allowed, limits, Arc::clone(fake) as Arc<dyn Outside>)
}

async fn send(proxy: &Proxy, bytes: &[u8]) -> TcpStream {
    let listener = listener();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    proxy.attend(listener.accept().unwrap().0);
    client.write_all(bytes).await.unwrap();
    client
}

async fn connect(proxy: &Proxy, authority: &str) -> TcpStream {
    send(proxy, format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n").as_bytes()).await
}

async fn read(stream: &mut (impl AsyncRead + Unpin), length: usize) -> String {
    let mut bytes = vec![0; length];
    timeout(PATIENCE, stream.read_exact(&mut bytes)).await.expect("it comes").unwrap();
    String::from_utf8(bytes).unwrap()
}

/// All that is said until the end.
async fn rest(mut stream: TcpStream) -> String {
    rest_of(&mut stream).await
}

async fn rest_of(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    timeout(PATIENCE, stream.read_to_string(&mut text)).await.expect("it ends").unwrap();
    text
}

async fn status(client: &mut TcpStream) -> String {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        head.push_str(&read(client, 1).await);
    }
    head.lines().next().unwrap().to_owned()
}

#[track_caller]
fn assert_refused(answer: &str, status: &str, body: &str) {
    let (head, said) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    assert!(head.contains(&format!("\r\nContent-Length: {}", said.len())), "{answer}");
    assert_eq!(said, format!("{body}\n"));
}

/// That the proxy lets this through to the target, both ways.
async fn assert_reaches(proxy: &Proxy, authority: &str, target: &Target) {
    let mut client = connect(proxy, authority).await;
    assert_eq!(status(&mut client).await, "HTTP/1.1 200 Connection established");
    let mut arrived = target.accept();
    client.write_all(b"ping").await.unwrap();
    assert_eq!(read(&mut arrived, 4).await, "ping");
    arrived.write_all(b"pong").await.unwrap();
    assert_eq!(read(&mut client, 4).await, "pong");
    client.shutdown().await.unwrap();
    assert_eq!(rest(arrived).await, "");
    assert_eq!(rest(client).await, "");
}

#[tokio::test]
async fn what_the_operator_names_is_reached_and_nothing_else() {
    let (target, other) = (Target::new(), Target::new());
    let allowed = vec![endpoint("127.0.0.1", target.port()), endpoint("LOCALHOST", target.port())];
    let proxy = Proxy::serve(allowed);
    assert_reaches(&proxy, &format!("127.0.0.1:{}", target.port()), &target).await;
    assert_reaches(&proxy, &format!("LocalHost.:{}", target.port()), &target).await;
    let denial = format!("127.0.0.1:{}", other.port());
    let answer = rest(connect(&proxy, &denial).await).await;
    assert_refused(&answer, "403", &format!("{denial} is not named by the grant of this node"));
    assert_eq!(proxy.finish().await, [denied(&denial, "not named by the grant", 1)]);
    other.assert_untouched();
    target.assert_untouched();
}

#[tokio::test]
async fn a_host_that_is_not_granted_is_not_even_looked_up() {
    let target = Target::new();
    let fake = Arc::new(Fake::new(&target, [&[PUBLIC]]));
    let proxy = serve(&fake, vec![host("a.example")]);
    for asked in ["b.example:443", "B.example.:443", "x.a.example:443", "a.example:22", "a.example:8443"] {
        let form = asked.to_lowercase().replace(".:", ":");
        let answer = rest(connect(&proxy, asked).await).await;
        assert_refused(&answer, "403", &format!("{form} is not named by the grant of this node"));
    }
    assert_eq!(fake.done(), (vec![], vec![]));
    target.assert_untouched();
    assert_reaches(&proxy, "A.Example:443", &target).await;
    assert_eq!(fake.done(), (strings(&["a.example"]), strings(&["93.184.215.14:443"])));
    let why = "not named by the grant";
    assert_eq!(
        proxy.finish().await,
        [
            denied("a.example:22", why, 1),
            denied("a.example:8443", why, 1),
            denied("b.example:443", why, 2),
            denied("x.a.example:443", why, 1),
        ]
    );
}

#[tokio::test]
async fn only_the_operators_word_reaches_a_private_address() {
    let target = Target::new();
    let fake = Arc::new(Fake::new(&target, [&[PRIVATE], &[PRIVATE, "::1"], &[PRIVATE], &[PUBLIC]]));
    let domain = Destination::Below("example".to_owned());
    let proxy = serve(&fake, vec![Destination::Anywhere, domain, endpoint("in.example", 8080)]);
    let asked = ["a.example:443", "b.test:80", "10.0.0.1:80", "[::1]:443", "[::ffff:169.254.169.254]:80"];
    for form in asked {
        let answer = rest(connect(&proxy, form).await).await;
        assert_refused(&answer, "403", &format!("{form} resolves to a private address"));
    }
    assert_eq!(fake.done(), (strings(&["a.example", "b.test"]), vec![]));
    target.assert_untouched();
    assert_reaches(&proxy, "in.example:8080", &target).await;
    assert_reaches(&proxy, "a.example:443", &target).await;
    assert_reaches(&proxy, "1.1.1.1:443", &target).await;
    assert_reaches(&proxy, "[2606:4700::1111]:443", &target).await;
    let dialled = ["10.0.0.1:8080", "93.184.215.14:443", "1.1.1.1:443", "[2606:4700::1111]:443"];
    assert_eq!(fake.done(), (strings(&["in.example", "a.example"]), strings(&dialled)));
    let mut list = proxy.finish().await;
    list.sort_by_key(|denied| asked.iter().position(|asked| *asked == denied.host));
    assert_eq!(list, asked.map(|asked| denied(asked, "resolves to a private address", 1)));
}

#[tokio::test]
async fn what_was_checked_is_what_is_dialled() {
    let target = Target::new();
    // The second answer is there for whoever asks twice.
    let fake = Arc::new(Fake::new(&target, [&[PUBLIC], &[PRIVATE]]));
    let proxy = serve(&fake, vec![host("a.example")]);
    assert_reaches(&proxy, "a.example:443", &target).await;
    assert_eq!(fake.done(), (strings(&["a.example"]), strings(&["93.184.215.14:443"])));
    let answer = rest(connect(&proxy, "a.example:443").await).await;
    assert_refused(&answer, "403", "a.example:443 resolves to a private address");
    assert_eq!(fake.done(), (strings(&["a.example"]), vec![]));
    target.assert_untouched();
}

#[tokio::test]
async fn private_addresses_among_others_are_passed_over() {
    let target = Target::new();
    let mixed: &[&str] =
        &["127.0.0.1", "fd00::1", "1.0.0.1", PRIVATE, "1.1.1.1", "169.254.169.254", "8.8.8.8"];
    let mut fake = Fake::new(&target, [mixed, &["1.0.0.1", PRIVATE]]);
    fake.closed = addresses(&["1.0.0.1"]);
    fake.silent = addresses(&["1.1.1.1"]);
    let fake = Arc::new(fake);
    let limits = Limits { connect: Duration::from_millis(600), ..LIMITS };
    let proxy = serve_within(&fake, vec![Destination::Anywhere], limits);
    assert_reaches(&proxy, "a.example:80", &target).await;
    assert_eq!(fake.done().1, ["1.0.0.1:80", "1.1.1.1:80", "8.8.8.8:80"]);
    let answer = rest(connect(&proxy, "a.example:80").await).await;
    assert_refused(&answer, "502", "a.example:80 cannot be connected to");
    assert_eq!(fake.done().1, ["1.0.0.1:80"]);
    assert_eq!(proxy.finish().await, []);
}

#[tokio::test]
async fn a_host_that_fails_is_told_from_one_that_is_denied() {
    let target = Target::new();
    let mut fake = Fake::new(&target, [&[], &["1.1.1.1"], &[PUBLIC]]);
    fake.answers.lock().unwrap().push_front(Err(io::ErrorKind::NotFound.into()));
    fake.silent = addresses(&["1.1.1.1"]);
    let fake = Arc::new(fake);
    let limits = Limits { connect: Duration::from_millis(300), ..LIMITS };
    let proxy = serve_within(&fake, vec![host("a.example")], limits);
    for (status, body) in [
        ("502", "a.example:443 does not resolve"),
        ("502", "a.example:443 does not resolve"),
        ("504", "a.example:443 did not answer in time"),
    ] {
        assert_refused(&rest(connect(&proxy, "a.example:443").await).await, status, body);
    }
    assert_reaches(&proxy, "a.example:443", &target).await;
    assert_eq!(proxy.finish().await, []);
}

#[tokio::test]
async fn the_machines_own_resolver_and_network_are_used() {
    let (target, machine) = (Target::new(), Machine { lookups: Arc::new(Semaphore::new(1)) });
    for _ in 0..2 {
        let found = machine.resolve("localhost").await.unwrap();
        assert!(found.iter().all(IpAddr::is_loopback) && !found.is_empty(), "{found:?}");
    }
    machine.connect(target.0.local_addr().unwrap()).await.unwrap();
    target.accept();
    // A port that was free a moment ago.
    let closed = listener().local_addr().unwrap();
    let proxy = Proxy::serve(vec![endpoint("127.0.0.1", closed.port())]);
    let answer = rest(connect(&proxy, &closed.to_string()).await).await;
    assert_refused(&answer, "502", &format!("{closed} cannot be connected to"));
}

#[tokio::test]
async fn connect_alone_is_taken() {
    let target = Target::new();
    let fake = Arc::new(Fake::new(&target, [&[PUBLIC]]));
    let proxy = serve(&fake, vec![host("a.example")]);
    for request in [
        "GET http://A.example/x HTTP/1.1\r\nHost: b.example\r\n\r\n",
        "POST http://a.example:80 HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc",
        "GET / HTTP/1.0\r\n\r\n",
    ] {
        let answer = rest(send(&proxy, request.as_bytes()).await).await;
        assert_refused(&answer, "405", "this proxy takes CONNECT alone");
        assert!(answer.contains("\r\nAllow: CONNECT\r\n"));
    }
    assert_eq!(fake.done(), (vec![], vec![]));
    target.assert_untouched();
    assert_reaches(&proxy, "a.example:80", &target).await;
    assert_eq!(proxy.finish().await, [denied("a.example:80", "not asked for by CONNECT", 2)]);
}

#[tokio::test]
async fn what_follows_a_head_at_once_is_delivered() {
    let target = Target::new();
    let fake = Arc::new(Fake::new(&target, [&[PUBLIC]]));
    let proxy = serve(&fake, vec![host("a.example")]);
    let mut client = send(&proxy, b"CONNECT a.example:443 HTTP/1.1\r\n\r\nearly\r\n\r\n").await;
    assert_eq!(status(&mut client).await, "HTTP/1.1 200 Connection established");
    let mut arrived = target.accept();
    client.write_all(b"late").await.unwrap();
    assert_eq!(read(&mut arrived, 13).await, "early\r\n\r\nlate");
    // The host may go on after the client has said all.
    client.shutdown().await.unwrap();
    assert_eq!(arrived.read(&mut [0]).await.unwrap(), 0);
    arrived.write_all(b"answer").await.unwrap();
    drop(arrived);
    assert_eq!(rest(client).await, "answer");
}

#[tokio::test]
async fn a_head_has_a_longest_length() {
    let target = Target::new();
    let fake = Arc::new(Fake::new(&target, [&[PUBLIC]]));
    let proxy = serve(&fake, vec![host("a.example")]);
    let head = |length: usize| {
        let (start, end) = ("CONNECT a.example:443 HTTP/1.1\r\nX: ", "\r\n\r\n");
        format!("{start}{}{end}", "x".repeat(length - start.len() - end.len()))
    };
    for bytes in [head(MAX_HEAD + 1), head(MAX_HEAD * 8), "\r\n".repeat(MAX_HEAD), "x\r\n\r\n".to_owned()] {
        let answer = rest(send(&proxy, bytes.as_bytes()).await).await;
        assert_refused(&answer, "400", "this is no request to a proxy");
    }
    assert_eq!(fake.done(), (vec![], vec![]));
    target.assert_untouched();
    let mut client = send(&proxy, head(MAX_HEAD).as_bytes()).await;
    assert_eq!(status(&mut client).await, "HTTP/1.1 200 Connection established");
    target.accept();
}

#[tokio::test]
async fn a_client_that_is_refused_while_it_sends_hears_why() {
    let target = Target::new();
    let fake = Arc::new(Fake::new(&target, []));
    let proxy = serve_within(&fake, vec![], Limits { linger: PATIENCE, ..LIMITS });
    let mut client = send(&proxy, b"GET / HTTP/1.1\r\nContent-Length: 99\r\n\r\n").await;
    assert_eq!(status(&mut client).await, "HTTP/1.1 405 Method Not Allowed");
    assert_eq!(rest_of(&mut client).await, "this proxy takes CONNECT alone\n");
    for _ in 0..3 {
        client.write_all(b"body").await.unwrap();
    }
    // Not for longer than it may: the next one has its turn while the first has not closed.
    let brief = Limits { linger: Duration::from_millis(50), connections: 1, ..LIMITS };
    let proxy = serve_within(&fake, vec![], brief);
    let mut open = Vec::new();
    for _ in 0..2 {
        let mut client = send(&proxy, b"GET / HTTP/1.1\r\n\r\n").await;
        assert_eq!(status(&mut client).await, "HTTP/1.1 405 Method Not Allowed");
        open.push(client);
    }
}

#[tokio::test]
async fn a_head_that_does_not_come_is_not_waited_for() {
    let target = Target::new();
    let fake = Arc::new(Fake::new(&target, [&[PUBLIC]]));
    let hasty = Limits { head: Duration::from_millis(50), ..LIMITS };
    let proxy = serve_within(&fake, vec![host("a.example")], hasty);
    let answer = rest(send(&proxy, b"CONNECT a.example:443 HTTP/1.1\r\n").await).await;
    assert_refused(&answer, "408", "the request did not arrive in time");
    assert_eq!(rest(send(&proxy, b"").await).await, answer);
    target.assert_untouched();
    // The same in two pieces, where there is time for it.
    let proxy = serve(&fake, vec![host("a.example")]);
    let mut client = send(&proxy, b"CONNECT a.example:443 HTTP/1.1\r\n\r").await;
    client.set_nodelay(true).unwrap();
    client.write_all(b"\n").await.unwrap();
    assert_eq!(status(&mut client).await, "HTTP/1.1 200 Connection established");
    target.accept();
}

#[tokio::test]
async fn a_client_that_leaves_early_leaves_nothing_behind() {
    let target = Target::new();
    let fake = Arc::new(Fake::new(&target, [&[PUBLIC]]));
    let one = Limits { connections: 1, ..LIMITS };
    let proxy = serve_within(&fake, vec![host("a.example")], one);
    let mut client = send(&proxy, b"CONNECT a.example:443 HTTP/1.1\r\n").await;
    client.shutdown().await.unwrap();
    assert_refused(&rest(client).await, "400", "this is no request to a proxy");
    drop(send(&proxy, b"").await);
    assert_reaches(&proxy, "a.example:443", &target).await;
}

#[tokio::test]
async fn more_connections_than_may_be_wait_for_others_to_end() {
    let target = Target::new();
    let fake = Arc::new(Fake::new(&target, [&[PUBLIC], &[PUBLIC], &[PUBLIC]]));
    let two = Limits { connections: 2, ..LIMITS };
    let proxy = serve_within(&fake, vec![host("a.example")], two);
    let mut first = connect(&proxy, "a.example:443").await;
    let mut second = connect(&proxy, "a.example:443").await;
    status(&mut first).await;
    status(&mut second).await;
    let arrived = [target.accept(), target.accept()];
    let mut third = connect(&proxy, "a.example:443").await;
    // What comes later on another connection has been through while the third was not looked at.
    first.write_all(b"x").await.unwrap();
    let [mut one, mut other] = arrived;
    assert_eq!(read(&mut one, 1).await, "x");
    assert_eq!(fake.looked_up.lock().unwrap().len(), 2);
    target.assert_untouched();
    second.shutdown().await.unwrap();
    assert_eq!(other.read(&mut [0]).await.unwrap(), 0);
    drop(other);
    assert_eq!(status(&mut third).await, "HTTP/1.1 200 Connection established");
    target.accept();
}

#[tokio::test]
async fn the_end_of_the_proxy_is_the_end_of_its_connections() {
    let target = Target::new();
    let fake = Arc::new(Fake::new(&target, [&[PUBLIC], &[PUBLIC]]));
    let proxy = serve(&fake, vec![host("a.example")]);
    let mut open = connect(&proxy, "a.example:443").await;
    status(&mut open).await;
    let mut arrived = target.accept();
    let idle = send(&proxy, b"").await;
    open.write_all(b"x").await.unwrap();
    assert_eq!(read(&mut arrived, 1).await, "x", "it is open until then");
    assert_eq!(proxy.finish().await, []);
    assert_eq!(rest(open).await, "");
    assert_eq!(rest(arrived).await, "");
    // It was accepted or not: in either case it has ended.
    let mut idle = idle;
    assert!(matches!(idle.read(&mut [0]).await, Ok(0) | Err(_)));
}

#[tokio::test]
async fn a_proxy_that_is_dropped_ends_its_connections_too() {
    let target = Target::new();
    let fake = Arc::new(Fake::new(&target, [&[PUBLIC]]));
    let proxy = serve(&fake, vec![host("a.example")]);
    let mut open = connect(&proxy, "a.example:443").await;
    status(&mut open).await;
    let arrived = target.accept();
    drop(proxy);
    assert_eq!(rest(open).await, "");
    assert_eq!(rest(arrived).await, "");
}

#[tokio::test]
async fn nobody_waits_for_a_lookup_that_hangs() {
    struct Hanging(Notify);
    impl Outside for Hanging {
        fn resolve(&self, _: &str) -> Effect<Vec<IpAddr>> {
            self.0.notify_one();
            Box::pin(std::future::pending())
        }
        fn connect(&self, _: SocketAddr) -> Effect<TcpStream> {
            panic!("nothing was found to connect to");
        }
    }
    let hanging = Arc::new(Hanging(Notify::new()));
    let start = |limits| {
        let outside = Arc::clone(&hanging) as Arc<dyn Outside>;
        Proxy::serve_with(vec![host("a.example")], limits, outside)
    };
    let hasty = start(Limits { connect: Duration::from_millis(50), ..LIMITS });
    let answer = rest(connect(&hasty, "a.example:443").await).await;
    assert_refused(&answer, "504", "a.example:443 did not answer in time");
    hanging.0.notified().await;
    let patient = start(LIMITS);
    let waiting = connect(&patient, "a.example:443").await;
    hanging.0.notified().await;
    assert_eq!(patient.finish().await, []);
    assert_eq!(rest(waiting).await, "", "it ended without an answer");
}

#[test]
fn what_was_denied_is_bounded() {
    let mut table = Denied::default();
    for _ in 0..2 {
        for host in 0..MAX_DENIED + 3 {
            table.count(format!("h{host:03}.example:443"), Why::NotGranted);
        }
    }
    table.count("h000.example:443".to_owned(), Why::NotConnect);
    let list = table.list();
    assert_eq!(list.len(), MAX_DENIED + 1);
    assert_eq!(list[0], denied("h000.example:443", "not named by the grant", 2));
    assert_eq!(list[MAX_DENIED - 1], denied("h255.example:443", "not named by the grant", 2));
    assert_eq!(list[MAX_DENIED], denied("others", "too many to keep apart", 7));
}
