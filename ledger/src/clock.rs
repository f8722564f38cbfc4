//! The three clocks of a record: wall time, time since boot, and which boot.
//!
//! Order is given by `seq` alone. The clocks are evidence about time, not about order: the wall
//! clock may be set back, which `mono` and `boot` make visible.

use std::fmt;
use std::fs;
use std::str::FromStr;

use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::digest::{hex_decode, hex_encode, parse_str};

/// Wall-clock time in UTC with microseconds, written `2026-09-24T12:00:00.123456Z`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(jiff::Timestamp);

/// The first 4 bytes of the kernel's boot id, written as 8 hex digits; zeros where it is unknown.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct BootId([u8; 4]);

/// One reading of all clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) ts: Timestamp,
    pub(crate) mono: u64,
}

impl Reading {
    pub(crate) fn now() -> Self {
        // CLOCK_BOOTTIME exists on every Linux since 2.6.39; 0 is the honest answer elsewhere.
        let mono = clock_gettime(ClockId::CLOCK_BOOTTIME).map_or(0, |time| {
            let seconds = u64::try_from(time.tv_sec()).unwrap_or(0);
            let micros = u64::try_from(time.tv_nsec() / 1_000).unwrap_or(0);
            seconds.saturating_mul(1_000_000).saturating_add(micros)
        });
        Self { ts: Timestamp::now(), mono }
    }
}

impl Timestamp {
    fn now() -> Self {
        let now = jiff::Timestamp::now();
        // Whole microseconds, so that what is written is all there is.
        Self(jiff::Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now))
    }

    /// Returns microseconds since 1970-01-01T00:00:00Z.
    #[must_use]
    pub fn as_microsecond(self) -> i64 {
        self.0.as_microsecond()
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.6}", self.0)
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Timestamp {
    type Err = jiff::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        parse_str(deserializer, "an RFC 3339 time in UTC")
    }
}

impl BootId {
    pub(crate) fn current() -> Self {
        fs::read_to_string("/proc/sys/kernel/random/boot_id")
            .ok()
            .and_then(|text| text.get(..8).and_then(hex_decode))
            .map_or(Self::default(), Self)
    }
}

impl fmt::Display for BootId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex_encode(&self.0))
    }
}

impl fmt::Debug for BootId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A boot id that is not 8 lower-case hex digits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected 8 lower-case hex digits")]
pub struct ParseBootIdError;

impl FromStr for BootId {
    type Err = ParseBootIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        hex_decode(text).map(Self).ok_or(ParseBootIdError)
    }
}

impl Serialize for BootId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for BootId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        parse_str(deserializer, "8 hex digits")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_form_has_six_digits_and_round_trips() {
        for text in ["2026-09-24T12:00:00.123456Z", "1970-01-01T00:00:00.000000Z"] {
            let ts: Timestamp = text.parse().unwrap();
            assert_eq!(ts.to_string(), text);
        }
        let now = Reading::now();
        assert_eq!(now.ts.to_string().parse::<Timestamp>().unwrap(), now.ts);
        assert_eq!(now.ts.to_string().len(), 27);
    }

    #[test]
    fn the_boot_id_is_stable_within_a_boot() {
        let boot = BootId::current();
        assert_eq!(boot, BootId::current());
        assert_eq!(boot.to_string().parse(), Ok(boot));
    }
}
