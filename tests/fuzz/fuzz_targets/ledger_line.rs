//! No line makes the decoder panic, and what it accepts is written as it was read.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|line: &[u8]| {
    if let Ok(record) = depute_ledger::decode_line(line) {
        let mut again = Vec::new();
        assert!(record.encode(&mut again).is_ok());
        assert_eq!(again.strip_suffix(b"\n").unwrap_or(&again), line);
    }
});
