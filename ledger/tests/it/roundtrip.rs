//! Encoding and decoding are each other's inverse, on all records and on no other bytes.

use depute_ledger::record::*;
use depute_ledger::{Body, BootId, Digest, Record, decode_line};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use uuid::Uuid;

use crate::support;

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "\\PC{0,20}",
        any::<String>(),
        "[\u{0}-\u{20}\"\\\\\u{7f}-\u{9f}\u{200e}-\u{202e}\u{2060}-\u{206f}]{0,20}",
    ]
}

fn integer() -> impl Strategy<Value = u64> {
    prop_oneof![0..INTEGER_LIMIT, Just(INTEGER_LIMIT - 1), 0..10_u64]
}

fn digest() -> impl Strategy<Value = Digest> {
    any::<[u8; 32]>().prop_map(Digest::from_bytes)
}

fn uuid() -> impl Strategy<Value = Uuid> {
    any::<u128>().prop_map(Uuid::from_u128)
}

fn body() -> impl Strategy<Value = Body> {
    let close = text().prop_map(|reason| Close { reason }.into());
    let session = (text(), any::<u32>(), option::of(text()), option::of(text()));
    let session = session.prop_map(|(tool, pid, login, tty)| {
        Session { host: tool.clone(), tool, uid: pid, login, tty, ci: None, pid }.into()
    });
    let spawn = (integer(), uuid(), text(), digest(), vec(text(), 0..4));
    let spawn = spawn.prop_map(|(decision, node, program, argv, env)| {
        Spawn {
            decision,
            node,
            program,
            argv,
            env,
            cwd: argv,
            stdin: TaskRef { bytes: decision, digest: None },
        }
        .into()
    });
    let exit = (uuid(), option::of(any::<i32>()), integer(), option::of(text()));
    let exit = exit.prop_map(|(node, code, duration_ms, message)| {
        Exit { node, outcome: ExitOutcome::TimedOut, code, signal: code, duration_ms, output: None, message }
            .into()
    });
    let decision = (uuid(), vec(text(), 0..4), option::of(digest()), option::of(integer()));
    let decision = decision.prop_map(|(node, list, digest, limit)| {
        let mut decision = support::decision(node, Verdict::Held);
        decision.requested.delegate = limit.map(|_| list.clone());
        decision.ceiling = digest.map(|_| list.clone());
        decision.denied = list;
        decision.inputs.catalog = digest;
        decision.digests.plan = digest;
        decision.budget.deadline_ms = limit;
        decision.into()
    });
    prop_oneof![close, session, spawn, exit, decision]
}

fn record() -> impl Strategy<Value = Record> {
    (digest(), integer(), integer(), uuid(), uuid(), body()).prop_map(|(prev, seq, mono, w, op, body)| {
        Record {
            prev,
            seq,
            ts: "2026-09-24T12:00:00.123456Z".parse().unwrap(),
            mono,
            boot: BootId::default(),
            w,
            op,
            body,
        }
    })
}

fn encode(record: &Record) -> Vec<u8> {
    let mut line = Vec::new();
    record.encode(&mut line).unwrap();
    line
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn a_record_comes_back_from_its_line(record in record()) {
        let line = encode(&record);
        prop_assert_eq!(decode_line(&line), Ok(record));
        let text = String::from_utf8(line).unwrap();
        let disturbs = |c: char| c.is_control() || ('\u{2028}'..='\u{202e}').contains(&c);
        let disturbed = text.contains(disturbs);
        prop_assert!(!disturbed);
    }

    #[test]
    fn bytes_that_decode_are_the_ones_that_encode(record in record(), at in any::<prop::sample::Index>(), to in any::<u8>()) {
        let mut line = encode(&record);
        let at = at.index(line.len());
        line[at] = to;
        if let Ok(other) = decode_line(&line) {
            prop_assert_eq!(encode(&other), line);
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in vec(any::<u8>(), 0..300)) {
        prop_assert!(decode_line(&bytes).is_err());
    }

    #[test]
    fn an_integer_beyond_the_limit_is_not_written(over in INTEGER_LIMIT.., record in record()) {
        let record = Record { mono: over, ..record };
        prop_assert!(record.encode(&mut Vec::new()).is_err());
    }
}
