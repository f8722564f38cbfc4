//! Sockets for a node: made by its guard, and connected already.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// How long a connection within this machine may take. Nobody else gets on meanwhile.
const PATIENCE: Duration = Duration::from_millis(500);

/// Makes connections within this machine.
#[derive(Debug, Default)]
pub(super) struct Connector {
    /// The port of the last one. Connections that share it leave the other ports to everybody else, also
    /// those that have ended and that the kernel still remembers.
    port: u16,
}

impl Connector {
    /// A new connection: the node's end and the broker's.
    ///
    /// For a moment there is a port to which anybody here may connect, so what is accepted is looked at: two
    /// connections to one port differ in where they come from.
    pub(super) fn pair(&mut self, is_nonblocking: bool) -> io::Result<(OwnedFd, OwnedFd)> {
        let since = Instant::now();
        let listen = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
        let listener = match listen(self.port) {
            Err(error) if error.kind() == ErrorKind::AddrInUse && self.port != 0 => listen(0)?,
            listener => listener?,
        };
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        self.port = address.port();
        let node = TcpStream::connect_timeout(&address, PATIENCE)?;
        let broker = accept_from(node.local_addr()?, &listener, since)?;
        node.set_nonblocking(is_nonblocking)?;
        Ok((node.into(), broker.into()))
    }
}

/// Accepts the one connection that comes from this address.
fn accept_from(own: SocketAddr, listener: &TcpListener, since: Instant) -> io::Result<TcpStream> {
    loop {
        match listener.accept() {
            Ok((accepted, from)) if from == own => return Ok(accepted),
            // A stranger.
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
            Err(error) => return Err(error),
        }
        let left = PATIENCE.saturating_sub(since.elapsed());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        let left = PollTimeout::try_from(left).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(listener.as_fd(), PollFlags::POLLIN)], left) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn both_ends_are_one_connection_and_wait_as_asked() {
        let mut connector = Connector::default();
        for is_nonblocking in [false, true] {
            let (node, broker) = connector.pair(is_nonblocking).unwrap();
            let flags = nix::fcntl::fcntl(&node, nix::fcntl::FcntlArg::F_GETFL).unwrap();
            assert_eq!(flags & libc::O_NONBLOCK != 0, is_nonblocking);
            let (mut node, mut broker) = (TcpStream::from(node), TcpStream::from(broker));
            assert_eq!(node.local_addr().unwrap(), broker.peer_addr().unwrap());
            node.set_nonblocking(false).unwrap();
            broker.set_nonblocking(false).unwrap();
            let mut heard = [0; 4];
            node.write_all(b"ping").unwrap();
            broker.read_exact(&mut heard).unwrap();
            assert_eq!(&heard, b"ping");
            broker.write_all(b"pong").unwrap();
            node.read_exact(&mut heard).unwrap();
            assert_eq!(&heard, b"pong");
        }
    }

    #[test]
    fn one_port_is_enough_and_none_stays_open() {
        let mut connector = Connector::default();
        let open: Vec<_> = (0..20)
            .map(|_| {
                let (node, broker) = connector.pair(false).unwrap();
                (TcpStream::from(node), TcpStream::from(broker))
            })
            .collect();
        let port = open[0].0.peer_addr().unwrap();
        assert!(open.iter().all(|(node, _)| node.peer_addr().unwrap() == port));
        assert_eq!(TcpStream::connect(port).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        // Somebody else takes it.
        drop(open);
        let _taken = TcpListener::bind(port).unwrap();
        let (node, _broker) = connector.pair(false).unwrap();
        assert_ne!(TcpStream::from(node).peer_addr().unwrap(), port);
    }

    #[test]
    fn a_stranger_is_not_taken_for_the_node() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        listener.set_nonblocking(true).unwrap();
        let mut stranger = TcpStream::connect(address).unwrap();
        let node = TcpStream::connect(address).unwrap();
        let own = node.local_addr().unwrap();
        let accepted = accept_from(own, &listener, Instant::now()).unwrap();
        assert_eq!(accepted.peer_addr().unwrap(), own);
        assert_eq!(stranger.read(&mut [0]).unwrap_or(0), 0, "its connection has ended");
        let nobody = accept_from(own, &listener, Instant::now()).unwrap_err();
        assert_eq!(nobody.kind(), ErrorKind::TimedOut);
    }
}
