//! The proxy through which the processes of a node reach the hosts that its grant names, and nothing
//! else.
//!
//! It takes `CONNECT` alone: what is within a connection is between the process and the host. Names are
//! resolved here, and the connection is made to an address that was checked, so that a name cannot
//! mean one host when it is checked and another when it is reached.

mod address;
mod head;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, timeout, timeout_at};

use crate::kernel_spec::Destination;

use address::is_public;
use head::{Asked, Authority, MAX_HEAD};

/// How many hosts that were denied are kept apart.
const MAX_DENIED: usize = 256;
/// How many names are resolved at once.
const MAX_LOOKUPS: usize = 32;
/// How many addresses of one host are tried.
const MAX_TRIED: usize = 8;
/// The most bytes of a refused client that are read away.
const MAX_UNREAD: u64 = 256 * 1024;
/// How many clients wait to be served.
const MAX_WAITING: usize = 128;

/// Serves the connections of one node, until it is finished or dropped.
pub(super) struct Proxy {
    clients: mpsc::Sender<TcpStream>,
    /// Its end is the sign to stop.
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
    node: Arc<Node>,
}

/// A host that a node asked for and was not let reach.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeniedHost {
    /// `host:port` in lower case, or `others` for all beyond a bounded number.
    pub host: String,
    /// Why, in stable words.
    pub why: String,
    /// How often.
    pub count: u64,
}

/// How long a client may take, and how many there may be.
#[derive(Clone, Copy)]
struct Limits {
    head: Duration,
    connect: Duration,
    /// How long a client that was refused may go on sending.
    linger: Duration,
    connections: usize,
}

const LIMITS: Limits = Limits {
    head: Duration::from_secs(10),
    connect: Duration::from_secs(10),
    linger: Duration::from_secs(1),
    connections: 128,
};

type Effect<T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send>>;

/// What the proxy does outside of this process.
trait Outside: Send + Sync {
    fn resolve(&self, host: &str) -> Effect<Vec<IpAddr>>;
    fn connect(&self, address: SocketAddr) -> Effect<TcpStream>;
}

/// The resolver and the network of this machine.
struct Machine {
    lookups: Arc<Semaphore>,
}

/// What all connections of a node have in common.
struct Node {
    allowed: Vec<Destination>,
    limits: Limits,
    outside: Arc<dyn Outside>,
    denied: Mutex<Denied>,
}

#[derive(Default)]
struct Denied {
    counts: BTreeMap<(String, Why), u64>,
    others: u64,
}

/// Why a host is denied.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Why {
    NotGranted,
    Private,
    NotConnect,
}

/// The answer to a client that gets no connection.
struct Refusal {
    status: &'static str,
    body: String,
}

impl Proxy {
    /// Starts to serve clients on the current runtime.
    pub(super) fn serve(allowed: Vec<Destination>) -> Self {
        let machine = Machine { lookups: Arc::new(Semaphore::new(MAX_LOOKUPS)) };
        Self::serve_with(allowed, LIMITS, Arc::new(machine))
    }

    fn serve_with(allowed: Vec<Destination>, limits: Limits, outside: Arc<dyn Outside>) -> Self {
        let allowed = allowed.into_iter().map(comparable).collect();
        let node = Arc::new(Node { allowed, limits, outside, denied: Mutex::default() });
        let (stop, stopped) = oneshot::channel();
        let (clients, arriving) = mpsc::channel(MAX_WAITING);
        let serving = tokio::spawn(take(arriving, Arc::clone(&node), stopped));
        Self { clients, stop, serving, node }
    }

    /// Serves one client. Its connection ends where too many wait already, or it cannot be read from.
    pub(super) fn attend(&self, client: std::net::TcpStream) {
        let client = client.set_nonblocking(true).and_then(|()| TcpStream::from_std(client));
        if let Ok(client) = client {
            let _ = self.clients.try_send(client);
        }
    }

    /// Stops, ends every connection, and says what was denied.
    pub(super) async fn finish(self) -> Vec<DeniedHost> {
        drop(self.stop);
        let _ = self.serving.await;
        self.node.denied.lock().unwrap_or_else(PoisonError::into_inner).list()
    }
}

/// The destination with its host in the form in which clients' hosts are compared.
fn comparable(destination: Destination) -> Destination {
    match destination {
        Destination::Endpoint { host, port } => Destination::Endpoint { host: head::canonical(&host), port },
        Destination::Anywhere | Destination::Host(_) | Destination::Below(_) => destination,
    }
}

/// Attends to clients until it is told to stop. More than may be at once wait.
async fn take(mut arriving: mpsc::Receiver<TcpStream>, node: Arc<Node>, mut stopped: oneshot::Receiver<()>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            _ = &mut stopped => break,
            Some(_) = connections.join_next() => {}
            Some(client) = arriving.recv(), if connections.len() < node.limits.connections => {
                connections.spawn(attend(client, Arc::clone(&node)));
            }
        }
    }
    drop(arriving);
    connections.shutdown().await;
}

/// One client, from its request to its end. What goes wrong in between is known to both ends of the
/// connection and to nobody else.
async fn attend(mut client: TcpStream, node: Arc<Node>) {
    match arrange(&mut client, &node).await {
        Ok((host, early)) => {
            let _ = carry(client, host, &early).await;
        }
        Err(refusal) => refuse(client, refusal, node.limits.linger).await,
    }
}

/// Connects a client to what it asks for. Returned with what it sent before it had its answer.
async fn arrange(client: &mut TcpStream, node: &Node) -> Result<(TcpStream, Vec<u8>), Refusal> {
    let (head, early) = timeout(node.limits.head, receive(client))
        .await
        .map_err(|_| Refusal::new("408 Request Timeout", "the request did not arrive in time"))?
        .ok_or_else(Refusal::malformed)?;
    match head::parse(&head).ok_or_else(Refusal::malformed)? {
        Asked::Connect(asked) => Ok((node.connect(&asked).await?, early)),
        Asked::Other(asked) => {
            if let Some(asked) = asked {
                node.deny(&asked, Why::NotConnect);
            }
            Err(Refusal::new("405 Method Not Allowed", "this proxy takes CONNECT alone"))
        }
    }
}

/// A whole head and what came with it; nothing where it is too long or has no end.
async fn receive(client: &mut TcpStream) -> Option<(Vec<u8>, Vec<u8>)> {
    let mut received = Vec::with_capacity(MAX_HEAD);
    loop {
        let seen = received.len();
        let room = MAX_HEAD.saturating_sub(seen) as u64;
        // Without room, too, nothing more is read.
        if (&mut *client).take(room).read_buf(&mut received).await.ok()? == 0 {
            return None;
        }
        if let Some(end) = head::end(&received, seen) {
            let early = received.split_off(end);
            return Some((received, early));
        }
    }
}

/// Carries bytes both ways until both ends have closed, or one has failed.
async fn carry(mut client: TcpStream, mut host: TcpStream, early: &[u8]) -> io::Result<()> {
    for stream in [&client, &host] {
        stream.set_nodelay(true)?;
    }
    client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
    host.write_all(early).await?;
    tokio::io::copy_bidirectional(&mut client, &mut host).await.map(drop)
}

async fn refuse(mut client: TcpStream, Refusal { status, body }: Refusal, linger: Duration) {
    let length = body.len() + 1;
    let allow = if status.starts_with("405") { "Allow: CONNECT\r\n" } else { "" };
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {length}\r\n{allow}\
         Connection: close\r\n\r\n{body}\n"
    );
    let give = async {
        client.write_all(answer.as_bytes()).await?;
        client.shutdown().await?;
        // What is unread when a socket closes takes the answer with it.
        tokio::io::copy(&mut client.take(MAX_UNREAD), &mut tokio::io::sink()).await
    };
    let _ = timeout(linger, give).await;
}

impl Node {
    /// Connects to a host, if it is one that may be reached.
    async fn connect(&self, asked: &Authority) -> Result<TcpStream, Refusal> {
        let admitting = || self.allowed.iter().filter(|allowed| allowed.admits(&asked.host, asked.port));
        if admitting().next().is_none() {
            self.deny(asked, Why::NotGranted);
            return Err(Refusal::forbidden(format!("{asked} is not named by the grant of this node")));
        }
        let by_operator = admitting().any(|allowed| matches!(allowed, Destination::Endpoint { .. }));
        let deadline = Instant::now() + self.limits.connect;
        let late = || Refusal::new("504 Gateway Timeout", format!("{asked} did not answer in time"));
        let found = match asked.address {
            Some(address) => vec![address],
            None => timeout_at(deadline, self.outside.resolve(&asked.host))
                .await
                .map_err(|_| late())?
                .unwrap_or_default(),
        };
        if found.is_empty() {
            return Err(Refusal::new("502 Bad Gateway", format!("{asked} does not resolve")));
        }
        let open = found.into_iter().filter(|address| by_operator || is_public(*address));
        let open: Vec<IpAddr> = open.take(MAX_TRIED).collect();
        if open.is_empty() {
            self.deny(asked, Why::Private);
            return Err(Refusal::forbidden(format!("{asked} resolves to a private address")));
        }
        let mut refusal = late();
        for (address, left) in open.iter().zip((1..=open.len()).rev()) {
            // Each has its share of what is left: one that is silent does not stand for all.
            let share = deadline.saturating_duration_since(Instant::now());
            let share = share / u32::try_from(left).unwrap_or(u32::MAX);
            let connecting = self.outside.connect(SocketAddr::new(*address, asked.port));
            refusal = match timeout(share, connecting).await {
                Ok(Ok(host)) => return Ok(host),
                Ok(Err(_)) => Refusal::new("502 Bad Gateway", format!("{asked} cannot be connected to")),
                Err(_) => late(),
            };
        }
        Err(refusal)
    }

    fn deny(&self, asked: &Authority, why: Why) {
        self.denied.lock().unwrap_or_else(PoisonError::into_inner).count(asked.to_string(), why);
    }
}

impl Outside for Machine {
    fn resolve(&self, host: &str) -> Effect<Vec<IpAddr>> {
        let (host, lookups) = (host.to_owned(), Arc::clone(&self.lookups));
        Box::pin(async move {
            let turn = lookups.acquire_owned().await.map_err(io::Error::other)?;
            // A lookup cannot be ended. Nobody may wait for it any more; it keeps its turn until it ends.
            let lookup = tokio::spawn(async move {
                let found = tokio::net::lookup_host((host, 0)).await;
                drop(turn);
                found.map(|found| found.map(|address| address.ip()).collect())
            });
            lookup.await.map_err(io::Error::other)?
        })
    }

    fn connect(&self, address: SocketAddr) -> Effect<TcpStream> {
        Box::pin(TcpStream::connect(address))
    }
}

impl Denied {
    fn count(&mut self, host: String, why: Why) {
        let room = self.counts.len() < MAX_DENIED;
        let key = (host, why);
        let count = if room || self.counts.contains_key(&key) {
            self.counts.entry(key).or_default()
        } else {
            &mut self.others
        };
        *count = count.saturating_add(1);
    }

    fn list(&self) -> Vec<DeniedHost> {
        let one =
            |host: &str, why: &str, count| DeniedHost { host: host.to_owned(), why: why.to_owned(), count };
        let mut list: Vec<DeniedHost> =
            self.counts.iter().map(|((host, why), count)| one(host, why.words(), *count)).collect();
        if self.others > 0 {
            list.push(one("others", "too many to keep apart", self.others));
        }
        list
    }
}

impl Why {
    fn words(self) -> &'static str {
        match self {
            Self::NotGranted => "not named by the grant",
            Self::Private => "resolves to a private address",
            Self::NotConnect => "not asked for by CONNECT",
        }
    }
}

impl Refusal {
    fn new(status: &'static str, body: impl Into<String>) -> Self {
        Self { status, body: body.into() }
    }

    fn forbidden(body: String) -> Self {
        Self::new("403 Forbidden", body)
    }

    fn malformed() -> Self {
        Self::new("400 Bad Request", "this is no request to a proxy")
    }
}
