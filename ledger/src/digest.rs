//! Digests and their one text form.
//!
//! Holds no key and does no I/O.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use hmac::{Hmac, KeyInit, Mac};
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

/// A SHA-256 digest, written `sha256:` and 64 lower-case hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

/// An HMAC-SHA-256 under the ledger's own key, written `hmac-sha256:` and 64 lower-case hex digits.
///
/// Stands for text that could be guessed from a plain digest, such as the task given to an agent:
/// without the key, knowing the digest does not help to confirm a guess.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyedDigest([u8; 32]);

/// A digest that is not in its one accepted text form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected `{prefix}` and 64 lower-case hex digits")]
pub struct ParseDigestError {
    prefix: &'static str,
}

impl Digest {
    const PREFIX: &'static str = "sha256:";

    /// Hashes `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Wraps the 32 bytes of a SHA-256 computed elsewhere.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the 32 bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Returns the 64 lower-case hex digits, without the prefix.
    #[must_use]
    pub fn to_hex(&self) -> String {
        hex_encode(&self.0)
    }

    /// Parses 64 lower-case hex digits without a prefix.
    ///
    /// # Errors
    /// Anything but exactly 64 digits out of `0-9a-f`.
    pub fn from_hex(text: &str) -> Result<Self, ParseDigestError> {
        hex_decode(text).map(Self).ok_or(ParseDigestError { prefix: "" })
    }
}

impl KeyedDigest {
    const PREFIX: &'static str = "hmac-sha256:";

    pub(crate) fn of(key: &[u8; 32], bytes: &[u8]) -> Self {
        // HMAC pads a short key with zeros to the block size; doing it here leaves no fallible call.
        let mut block = [0; 64];
        for (slot, byte) in block.iter_mut().zip(key) {
            *slot = *byte;
        }
        let mut mac = Hmac::<Sha256>::new(&block.into());
        mac.update(bytes);
        Self(mac.finalize().into_bytes().into())
    }

    /// Returns the 64 lower-case hex digits, without the prefix.
    #[must_use]
    pub fn to_hex(&self) -> String {
        hex_encode(&self.0)
    }
}

macro_rules! text_form {
    ($type:ty) => {
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(Self::PREFIX)?;
                f.write_str(&hex_encode(&self.0))
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $type {
            type Err = ParseDigestError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                text.strip_prefix(Self::PREFIX)
                    .and_then(hex_decode)
                    .map(Self)
                    .ok_or(ParseDigestError { prefix: Self::PREFIX })
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                with_hex(Self::PREFIX, &self.0, |text| serializer.serialize_str(text))
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                parse_str(deserializer, "a digest")
            }
        }
    };
}

text_form!(Digest);
text_form!(KeyedDigest);

/// Serialises a [`Digest`] as bare hex: the form of `prev`, whose algorithm `genesis` names once.
pub(crate) mod bare_hex {
    use super::{Deserializer, Digest, ParseDigestError, Serializer, parse_str, with_hex};
    use std::str::FromStr;

    struct Bare(Digest);

    impl FromStr for Bare {
        type Err = ParseDigestError;

        fn from_str(text: &str) -> Result<Self, Self::Err> {
            Digest::from_hex(text).map(Self)
        }
    }

    pub(crate) fn serialize<S: Serializer>(digest: &Digest, serializer: S) -> Result<S::Ok, S::Error> {
        with_hex("", &digest.0, |text| serializer.serialize_str(text))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Digest, D::Error> {
        parse_str(deserializer, "64 hex digits").map(|Bare(digest)| digest)
    }
}

/// Deserialises a string through `FromStr`, without copying it first.
pub(crate) fn parse_str<'de, T, D>(deserializer: D, expecting: &'static str) -> Result<T, D::Error>
where
    T: FromStr<Err: fmt::Display>,
    D: Deserializer<'de>,
{
    struct Parse<T>(&'static str, PhantomData<T>);

    impl<T: FromStr<Err: fmt::Display>> Visitor<'_> for Parse<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
            text.parse().map_err(E::custom)
        }
    }

    deserializer.deserialize_str(Parse(expecting, PhantomData))
}

pub(crate) fn hex_encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().saturating_mul(2));
    for byte in bytes {
        for digit in hex_digits(*byte) {
            text.push(char::from(digit));
        }
    }
    text
}

/// Lends the text form of a digest without allocating: lines have a dozen of them.
fn with_hex<T>(prefix: &str, bytes: &[u8; 32], lend: impl FnOnce(&str) -> T) -> T {
    let mut text = [0; 80];
    let digits = bytes.iter().flat_map(|byte| hex_digits(*byte));
    for (slot, byte) in text.iter_mut().zip(prefix.bytes().chain(digits)) {
        *slot = byte;
    }
    let text = text.get(..prefix.len() + 64).unwrap_or_default();
    lend(str::from_utf8(text).unwrap_or_default())
}

const fn hex_digits(byte: u8) -> [u8; 2] {
    const fn digit(nibble: u8) -> u8 {
        if nibble < 10 { b'0' + nibble } else { b'a' + nibble - 10 }
    }
    [digit(byte >> 4), digit(byte & 0x0f)]
}

pub(crate) fn hex_decode<const N: usize>(text: &str) -> Option<[u8; N]> {
    const fn value(digit: u8) -> Option<u8> {
        match digit {
            b'0'..=b'9' => Some(digit - b'0'),
            b'a'..=b'f' => Some(digit - b'a' + 10),
            _ => None,
        }
    }
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if pairs.len() != N || !rest.is_empty() {
        return None;
    }
    let mut bytes = [0; N];
    for (slot, [high, low]) in bytes.iter_mut().zip(pairs) {
        *slot = (value(*high)? << 4) | value(*low)?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_form_is_the_known_one_and_round_trips() {
        let digest = Digest::of(b"abc");
        let text = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(digest.to_string(), text);
        assert_eq!(text.parse(), Ok(digest));
        assert_eq!(Digest::from_hex(&digest.to_hex()), Ok(digest));
    }

    #[test]
    fn other_spellings_are_refused() {
        let good = Digest::of(b"abc").to_string();
        assert!(good.parse::<Digest>().is_ok());
        for bad in [
            good.to_uppercase(),
            good.replace("sha256:", ""),
            good.replace("sha256:", "hmac-sha256:"),
            format!("{good}0"),
            format!(" {good}"),
            good.replace('b', "g"),
        ] {
            assert!(bad.parse::<Digest>().is_err(), "{bad}");
        }
    }

    #[test]
    fn the_keyed_digest_is_hmac_and_depends_on_the_key() {
        // RFC 4231, test case 2, with the key padded by zeros as HMAC itself does.
        let mut key = [0; 32];
        key[..4].copy_from_slice(b"Jefe");
        let digest = KeyedDigest::of(&key, b"what do ya want for nothing?");
        assert_eq!(
            digest.to_string(),
            "hmac-sha256:5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
        assert_eq!(digest.to_string().parse(), Ok(digest));
        assert_ne!(digest, KeyedDigest::of(&[1; 32], b"what do ya want for nothing?"));
    }
}
