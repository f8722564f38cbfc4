//! What a client of the proxy asks for: the head of its request, read strictly.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The most bytes of a head.
pub(super) const MAX_HEAD: usize = 8 * 1024;
/// The most bytes of a host name, as DNS has it.
const MAX_HOST: usize = 253;
/// The most bytes of a part of a host name between dots, as DNS has it.
const MAX_LABEL: usize = 63;
const MAX_HEADERS: usize = 64;

/// What a head asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// A connection to this host.
    Connect(Authority),
    /// Something else, of this host where one is named.
    Other(Option<Authority>),
}

/// A host and a port, in the one form in which they are compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Authority {
    /// A name in lower case and without a dot at its end, or an address without brackets.
    pub(super) host: String,
    pub(super) port: u16,
    /// The address, where the host is one and no name.
    pub(super) address: Option<IpAddr>,
}

/// How many bytes the head takes, once its end is there. What is before `seen` was looked at already.
pub(super) fn end(received: &[u8], seen: usize) -> Option<usize> {
    let from = seen.saturating_sub(3);
    let at = received.get(from..)?.windows(4).position(|four| four == b"\r\n\r\n")?;
    Some(from + at + 4)
}

/// Reads a whole head; nothing where it is malformed.
pub(super) fn parse(head: &[u8]) -> Option<Asked> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    // A head that ends earlier for one reader than for another is two requests in one.
    if request.parse(head).ok()? != httparse::Status::Complete(head.len()) {
        return None;
    }
    let (method, path) = (request.method?, request.path?);
    if method == "CONNECT" {
        return Authority::parse(path, None).map(Asked::Connect);
    }
    let url = path.split_once("://").map(|(scheme, rest)| {
        let port = if scheme.eq_ignore_ascii_case("https") { 443 } else { 80 };
        (rest.split(['/', '?', '#']).next().unwrap_or_default(), port)
    });
    let header = || {
        let host = request.headers.iter().find(|header| header.name.eq_ignore_ascii_case("host"))?;
        Some((std::str::from_utf8(host.value).ok()?, 80))
    };
    let named = url.or_else(header).and_then(|(authority, port)| Authority::parse(authority, Some(port)));
    Some(Asked::Other(named))
}

impl Authority {
    /// Reads `host:port`. The port may be left out where there is one to stand for it.
    fn parse(text: &str, default: Option<u16>) -> Option<Self> {
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']')?;
                let port = if port.is_empty() { None } else { Some(port.strip_prefix(':')?) };
                (IpAddr::V6(host.parse::<Ipv6Addr>().ok()?).to_string(), port)
            }
            None => match text.split_once(':') {
                Some((host, port)) => (name(host)?, Some(port)),
                None => (name(text)?, None),
            },
        };
        let port = match port {
            Some(port) if port.bytes().all(|digit| digit.is_ascii_digit()) => port.parse().ok()?,
            Some(_) => return None,
            None => default?,
        };
        let address = host.parse().ok();
        (port != 0).then_some(Self { host, port, address })
    }
}

impl fmt::Display for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            Some(IpAddr::V6(address)) => write!(f, "[{address}]:{}", self.port),
            _ => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// The form in which a host that an operator wrote is compared.
pub(super) fn canonical(host: &str) -> String {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    match bare.parse::<Ipv6Addr>() {
        Ok(address) => address.to_string(),
        Err(_) => name(host).unwrap_or_else(|| host.to_owned()),
    }
}

/// A host name or an IPv4 address in the form in which they are compared.
fn name(text: &str) -> Option<String> {
    let host = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
    let label = |label: &str| {
        (1..=MAX_LABEL).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    if host.len() > MAX_HOST || !host.split('.').all(label) {
        return None;
    }
    // `127.1`, `0x7f.1` and `2130706433` are addresses to some resolvers; only the plain form is one here.
    let last = host.rsplit('.').next().unwrap_or_default();
    let numeric = last.bytes().all(|byte| byte.is_ascii_digit())
        || last.strip_prefix("0x").is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_hexdigit()));
    (!numeric || host.parse::<Ipv4Addr>().is_ok()).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connect(authority: &str) -> Option<String> {
        match parse(format!("CONNECT {authority} HTTP/1.1\r\n\r\n").as_bytes())? {
            Asked::Connect(authority) => Some(authority.to_string()),
            Asked::Other(_) => None,
        }
    }

    #[test]
    fn a_host_has_one_form() {
        let label = "a".repeat(63);
        let longest = [&label, &label, &label, "a".repeat(61).as_str()].join(".");
        for (written, form) in [
            ("example.com:443", "example.com:443"),
            ("Example.COM.:443", "example.com:443"),
            ("a_b-c.example:080", "a_b-c.example:80"),
            ("10.0.0.1:80", "10.0.0.1:80"),
            ("[2001:DB8:0::1]:80", "[2001:db8::1]:80"),
            ("[::FFFF:127.0.0.1]:80", "[::ffff:127.0.0.1]:80"),
            (&format!("{longest}.:65535"), &format!("{longest}:65535")),
        ] {
            assert_eq!(connect(written).as_deref(), Some(form), "{written}");
        }
        for malformed in [
            "example.com",
            "example.com:",
            "example.com:0",
            "example.com:65536",
            "example.com:+80",
            "example.com:80:80",
            ":80",
            ".:80",
            "example.com..:80",
            ".example.com:80",
            "user@example.com:80",
            "exam%70le.com:80",
            "exämple.com:80",
            "127.1:80",
            "0x7f.0.0.1:80",
            "127.0.0.0x1:80",
            "127.0.0.01:80",
            "2130706433:80",
            "::1:80",
            "[::1]80",
            "[::1:80",
            "[fe80::1%eth0]:80",
            "[127.0.0.1]:80",
            "http://example.com:80",
            &format!("a{longest}:80"),
            &format!("a{label}.example:80"),
        ] {
            assert_eq!(connect(malformed), None, "{malformed}");
        }
    }

    #[test]
    fn what_is_no_connect_names_its_host_where_it_can() {
        let named = |line: &str, header: &str| match parse(format!("{line}\r\n{header}\r\n").as_bytes()) {
            Some(Asked::Other(named)) => named.map(|named| named.to_string()),
            other => panic!("{other:?}"),
        };
        assert_eq!(named("GET http://A.example/x HTTP/1.1", "").as_deref(), Some("a.example:80"));
        assert_eq!(named("GET https://a.example?x HTTP/1.0", "").as_deref(), Some("a.example:443"));
        assert_eq!(named("POST http://[::1]:81/ HTTP/1.1", "").as_deref(), Some("[::1]:81"));
        assert_eq!(named("GET / HTTP/1.1", "hOST: b.example:8080\r\n").as_deref(), Some("b.example:8080"));
        assert_eq!(named("GET / HTTP/1.1", ""), None);
        assert_eq!(named("GET / HTTP/1.1", "Host: a b\r\n"), None);
        assert_eq!(named("connect a.example:443 HTTP/1.1", ""), None);
    }

    #[test]
    fn a_head_ends_once() {
        assert!(parse(b"CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n").is_some());
        for malformed in [
            &b"CONNECT a:443 HTTP/1.1\nHost: a\n\nCONNECT b:443 HTTP/1.1\r\n\r\n"[..],
            b"CONNECT a:443 HTTP/1.1\r\nHost : a\r\n\r\n",
            b"CONNECT a:443 HTTP/2.0\r\n\r\n",
            b"CONNECT a:443\r\n\r\n",
            b"CONNECT  a:443 HTTP/1.1\r\n\r\n",
            b"\x16\x03\x01\r\n\r\n",
        ] {
            assert_eq!(parse(malformed), None, "{}", String::from_utf8_lossy(malformed));
        }
        assert_eq!(end(b"x\r\n\r\ny", 0), Some(5));
        assert_eq!(end(b"x\r\n\r\ny", 4), Some(5), "an end that came in two pieces");
        assert_eq!(end(b"x\r\n\r", 0), None);
    }

    #[test]
    fn an_operators_host_has_the_same_form() {
        for (written, form) in [
            ("LocalHost.", "localhost"),
            ("[::1]", "::1"),
            ("0:0::1", "::1"),
            ("10.0.0.1", "10.0.0.1"),
            ("not a host", "not a host"),
        ] {
            assert_eq!(canonical(written), form);
        }
    }
}
