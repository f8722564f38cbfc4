//! A filter of system calls, from rules to the kernel's instructions.
//!
//! Hand-made, for its cost: what a filter takes to load and at every call goes with its length. The calls
//! stand sorted; a search of halves finds a few neighbours, which are compared one by one.

use std::collections::BTreeMap;

use libc::{c_long, sock_filter};

/// What becomes of a call that has rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// It fails with this error; with 0 it does nothing and succeeds.
    Error(i32),
    /// The guard is asked.
    Ask,
}

/// What an argument is compared with, as 32 bits: the kernel drops the rest of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    /// It is this.
    Is(u32, u32),
    /// It is another.
    IsNot(u32, u32),
    /// One of these bits is set.
    Has(u32, u32),
}

/// The conditions that must all hold, and what becomes of the call then.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    when: Vec<Condition>,
    then: Answer,
}

/// Rules by call. Of those for one call the first that fits decides; a call that none fits goes on.
#[derive(Clone, Debug, Default)]
pub(super) struct Rules(BTreeMap<u32, Vec<Rule>>);

impl Rules {
    /// These calls always have this answer.
    pub(super) fn always(&mut self, calls: &[c_long], then: Answer) {
        self.when(calls, &[], then);
    }

    /// These calls have this answer where all conditions hold.
    pub(super) fn when(&mut self, calls: &[c_long], when: &[Condition], then: Answer) {
        for call in calls {
            let rule = Rule { when: when.to_vec(), then };
            self.0.entry(number(*call)).or_default().push(rule);
        }
    }

    /// Whether the guard is ever asked.
    pub(super) fn ask(&self) -> bool {
        self.0.values().flatten().any(|rule| rule.then == Answer::Ask)
    }

    /// The filter. Calls of another architecture end the process; those of another numbering, and
    /// `clone3`, whose flags are in memory, do not exist.
    ///
    /// # Errors
    /// In words, where it would be longer than a jump reaches.
    pub(super) fn compile(&self) -> Result<Vec<sock_filter>, String> {
        let calls: Vec<(u32, &[Rule])> =
            self.0.iter().map(|(call, rules)| (*call, rules.as_slice())).collect();
        let mut program = vec![
            load(ARCHITECTURE),
            jump(JUMP_IF_EQUAL, NATIVE, 1, 0),
            answer(KILL),
            load(NUMBER),
            jump(JUMP_IF_AT_LEAST, X32, 0, 1),
            answer(NO_SUCH_CALL),
            jump(JUMP_IF_EQUAL, number(libc::SYS_clone3), 0, 1),
            answer(NO_SUCH_CALL),
        ];
        program.extend(search(&calls)?);
        Ok(program)
    }
}

/// How many calls are compared one by one.
const NEIGHBOURS: usize = 8;

/// What finds a call among these, and answers it.
fn search(calls: &[(u32, &[Rule])]) -> Result<Vec<sock_filter>, String> {
    if calls.len() <= NEIGHBOURS {
        return neighbours(calls);
    }
    let (low, high) = calls.split_at(calls.len() / 2);
    let Some((middle, _)) = high.first() else { return neighbours(calls) };
    let (below, above) = (search(low)?, search(high)?);
    let distance = u32::try_from(below.len()).map_err(|_| too_long())?;
    let mut found = vec![jump(JUMP_IF_AT_LEAST, *middle, 0, 1), statement(JUMP, distance)];
    found.extend(below);
    found.extend(above);
    Ok(found)
}

/// What compares a call with each of these, and answers it.
fn neighbours(calls: &[(u32, &[Rule])]) -> Result<Vec<sock_filter>, String> {
    // What is jumped to, each once: that a call goes on is the first.
    let mut targets: Vec<(Vec<sock_filter>, usize)> = vec![(vec![answer(ALLOW)], 0)];
    let mut compared = Vec::new();
    for (call, rules) in calls {
        let code = rules_of(rules)?;
        let end: usize = targets.iter().map(|(code, _)| code.len()).sum();
        let at = match targets.iter().find(|(known, _)| same(known, &code)) {
            Some((_, at)) => *at,
            None => {
                targets.push((code, end));
                end
            }
        };
        compared.push((*call, at));
    }
    let mut program = Vec::new();
    for (index, (call, at)) in compared.iter().enumerate() {
        let left = compared.len() - index - 1;
        program.push(jump(JUMP_IF_EQUAL, *call, short(left + at)?, 0));
    }
    program.extend(targets.into_iter().flat_map(|(code, _)| code));
    Ok(program)
}

/// What tries the rules of one call.
fn rules_of(rules: &[Rule]) -> Result<Vec<sock_filter>, String> {
    let mut program = Vec::new();
    for rule in rules {
        for (index, condition) in rule.when.iter().enumerate() {
            // To the next rule: past the other conditions, two instructions each, and the answer.
            let past = short((rule.when.len() - index - 1) * 2 + 1)?;
            let (Condition::Is(argument, _) | Condition::IsNot(argument, _) | Condition::Has(argument, _)) =
                *condition;
            program.push(load(ARGUMENTS + argument * 8));
            program.push(match *condition {
                Condition::Is(_, value) => jump(JUMP_IF_EQUAL, value, 0, past),
                Condition::IsNot(_, value) => jump(JUMP_IF_EQUAL, value, past, 0),
                Condition::Has(_, bits) => jump(JUMP_IF_ANY, bits, 0, past),
            });
        }
        program.push(match rule.then {
            Answer::Error(code) => answer(ERROR | code.unsigned_abs()),
            Answer::Ask => answer(ASK),
        });
        if rule.when.is_empty() {
            return Ok(program);
        }
    }
    program.push(answer(ALLOW));
    Ok(program)
}

fn same(a: &[sock_filter], b: &[sock_filter]) -> bool {
    let fields = |i: &sock_filter| (i.code, i.jt, i.jf, i.k);
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| fields(a) == fields(b))
}

fn short(distance: usize) -> Result<u8, String> {
    u8::try_from(distance).map_err(|_| too_long())
}

fn too_long() -> String {
    "the filter of system calls is too long".to_owned()
}

fn number(call: c_long) -> u32 {
    u32::try_from(call).unwrap_or(u32::MAX)
}

// The offsets of what a filter may load. Of an argument the low half, which comes first here.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const ARGUMENTS: u32 = 16;

#[cfg(target_arch = "x86_64")]
const NATIVE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const NATIVE: u32 = 0xc000_00b7;

const LOAD: u16 = 0x20;
const JUMP: u16 = 0x05;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_AT_LEAST: u16 = 0x35;
const JUMP_IF_ANY: u16 = 0x45;
const RETURN: u16 = 0x06;

const ALLOW: u32 = 0x7fff_0000;
const KILL: u32 = 0x8000_0000;
const ERROR: u32 = 0x0005_0000;
const NO_SUCH_CALL: u32 = ERROR | libc::ENOSYS.unsigned_abs();
const ASK: u32 = libc::SECCOMP_RET_USER_NOTIF;

/// The number from which on `x86_64` numbers the calls of another interface. No other architecture has
/// calls there.
const X32: u32 = 0x4000_0000;

fn statement(code: u16, k: u32) -> sock_filter {
    sock_filter { code, jt: 0, jf: 0, k }
}

fn load(offset: u32) -> sock_filter {
    statement(LOAD, offset)
}

fn answer(with: u32) -> sock_filter {
    statement(RETURN, with)
}

/// Skips so many instructions where the comparison holds, and so many where not.
fn jump(code: u16, k: u32, holds: u8, fails: u8) -> sock_filter {
    sock_filter { code, jt: holds, jf: fails, k }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel would answer: the instructions, one after the other.
    fn run(program: &[sock_filter], arch: u32, nr: u32, args: [u64; 6]) -> (u32, usize) {
        let word = |offset: u32| match offset {
            NUMBER => nr,
            ARCHITECTURE => arch,
            _ => {
                u32::try_from(args[usize::try_from((offset - ARGUMENTS) / 8).unwrap()] & 0xffff_ffff).unwrap()
            }
        };
        let (mut at, mut accumulator, mut steps) = (0, 0, 0);
        loop {
            let instruction = program[at];
            let (holds, fails) = (usize::from(instruction.jt), usize::from(instruction.jf));
            at += 1;
            steps += 1;
            let mut test = |holding: bool| at += if holding { holds } else { fails };
            match instruction.code {
                LOAD => accumulator = word(instruction.k),
                JUMP => at += usize::try_from(instruction.k).unwrap(),
                JUMP_IF_EQUAL => test(accumulator == instruction.k),
                JUMP_IF_AT_LEAST => test(accumulator >= instruction.k),
                JUMP_IF_ANY => test(accumulator & instruction.k != 0),
                RETURN => return (instruction.k, steps),
                code => panic!("{code:#x} is no instruction of ours"),
            }
        }
    }

    /// What the rules say, said again.
    fn expected(rules: &Rules, nr: u32, args: [u64; 6]) -> u32 {
        if nr >= X32 || nr == number(libc::SYS_clone3) {
            return NO_SUCH_CALL;
        }
        let low =
            |argument: u32| u32::try_from(args[usize::try_from(argument).unwrap()] & 0xffff_ffff).unwrap();
        let fits = |condition: &Condition| match *condition {
            Condition::Is(argument, value) => low(argument) == value,
            Condition::IsNot(argument, value) => low(argument) != value,
            Condition::Has(argument, bits) => low(argument) & bits != 0,
        };
        let mut tried = rules.0.get(&nr).into_iter().flatten();
        match tried.find(|rule| rule.when.iter().all(fits)).map(|rule| rule.then) {
            None => ALLOW,
            Some(Answer::Ask) => ASK,
            Some(Answer::Error(code)) => ERROR | code.unsigned_abs(),
        }
    }

    fn some_rules(seed: u64) -> Rules {
        let mut rules = Rules::default();
        let mut next = seed;
        let mut random = |below: u64| {
            next = next.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (next >> 33) % below
        };
        for _ in 0..random(120) {
            let call = c_long::try_from(random(470)).unwrap();
            let when: Vec<Condition> = (0..random(4))
                .map(|_| {
                    let (argument, value) =
                        (u32::try_from(random(6)).unwrap(), u32::try_from(random(4)).unwrap());
                    match random(3) {
                        0 => Condition::Is(argument, value),
                        1 => Condition::IsNot(argument, value),
                        _ => Condition::Has(argument, value),
                    }
                })
                .collect();
            let then =
                if random(4) == 0 { Answer::Ask } else { Answer::Error(i32::try_from(random(3)).unwrap()) };
            rules.when(&[call], &when, then);
        }
        rules
    }

    #[test]
    fn a_filter_answers_as_its_rules_say() {
        let mut answered = BTreeMap::new();
        for seed in 0..200 {
            let rules = some_rules(seed);
            let program = rules.compile().unwrap();
            for nr in (0..480).chain([X32, X32 + 59, u32::MAX]) {
                for args in [[0; 6], [1, 2, 3, 0, 1, 2], [u64::MAX; 6], [1 << 32; 6]] {
                    let (found, _) = run(&program, NATIVE, nr, args);
                    assert_eq!(found, expected(&rules, nr, args), "seed {seed}, call {nr}, {args:?}");
                    *answered.entry(found).or_insert(0) += 1;
                }
            }
            assert_eq!(run(&program, NATIVE ^ 1, 0, [0; 6]).0, KILL);
        }
        assert!(answered.len() > 4 && answered.values().all(|count| *count > 100), "{answered:?}");
    }

    #[test]
    fn a_filter_without_rules_lets_every_call_of_its_numbering_go_on() {
        let program = Rules::default().compile().unwrap();
        assert_eq!(run(&program, NATIVE, 0, [0; 6]).0, ALLOW);
        assert_eq!(run(&program, NATIVE, number(libc::SYS_clone3), [0; 6]).0, NO_SUCH_CALL);
        assert_eq!(run(&program, NATIVE, X32, [0; 6]).0, NO_SUCH_CALL);
    }

    #[test]
    fn the_filters_of_nodes_are_short() {
        use crate::cage::seccomp::rules;
        use crate::kernel_spec::{Destination, Network, Programs};
        for metadata in [true, false] {
            for programs in [Programs::OwnOnly, Programs::Executable] {
                for network in [Network::None, Network::Proxied(vec![Destination::Anywhere])] {
                    let rules = rules(programs, metadata, &network);
                    let program = rules.compile().unwrap();
                    assert!(program.len() < 300, "{} instructions", program.len());
                    for nr in 0..480 {
                        for args in [[0; 6], [2, 1, 0, 0, 0, 0], [10, 1, 6, 0, 0, 0], [1, 2, 3, 4, 5, 6]] {
                            let (found, steps) = run(&program, NATIVE, nr, args);
                            assert_eq!(found, expected(&rules, nr, args), "call {nr}, {args:?}");
                            assert!(steps < 32, "call {nr} takes {steps} instructions");
                        }
                    }
                }
            }
        }
    }
}
