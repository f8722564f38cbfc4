//! What every benchmark here does alike: alternate, take the middle, print a ratio.

use std::time::{Duration, Instant};

/// How long something takes.
pub(super) fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let start = Instant::now();
    let result = work();
    (start.elapsed(), result)
}

/// The times of two things that are done in turn, so that whatever disturbs the machine disturbs
/// both: `(floor, ours)`, each sorted.
pub(super) fn alternating(
    rounds: usize,
    mut floor: impl FnMut(),
    mut ours: impl FnMut(),
) -> (Vec<Duration>, Vec<Duration>) {
    let mut times = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        times.0.push(timed(&mut floor).0);
        times.1.push(timed(&mut ours).0);
    }
    times.0.sort_unstable();
    times.1.sort_unstable();
    times
}

/// The value below which this share of the sorted times lies.
pub(super) fn quantile(sorted: &[Duration], share: f64) -> Duration {
    let last = sorted.len() - 1;
    sorted[((last as f64) * share).round() as usize]
}

/// One line: what, the goal, what came out.
pub(super) fn report(what: &str, goal: &str, found: &str, met: bool) {
    println!("{what:<44} goal {goal:<10} {found:<44} {}", if met { "met" } else { "MISSED" });
}

/// The middle of ours over the middle of the floor.
pub(super) fn ratio((floor, ours): &(Vec<Duration>, Vec<Duration>)) -> f64 {
    quantile(ours, 0.5).as_secs_f64() / quantile(floor, 0.5).as_secs_f64()
}
