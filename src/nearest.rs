//! The name somebody probably meant.

#![forbid(unsafe_code)]

/// The candidate nearest to `word`, where one is near enough to be worth naming: at most a third of
/// the letters differ. Case and `-`/`_` do not count.
#[must_use]
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    nearest_all(word, candidates).into_iter().next()
}

/// The near candidates, nearest first, at most three.
#[must_use]
pub fn nearest_all<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let folded = fold(word);
    let mut near: Vec<(usize, &str)> = candidates
        .into_iter()
        .filter_map(|candidate| {
            let other = fold(candidate);
            let distance = distance(&folded, &other);
            let limit = folded.len().max(other.len()).div_ceil(3);
            (distance <= limit && distance < other.len()).then_some((distance, candidate))
        })
        .collect();
    near.sort_unstable();
    near.dedup();
    near.truncate(3);
    near.into_iter().map(|(_, candidate)| candidate).collect()
}

fn fold(word: &str) -> Vec<char> {
    word.chars().filter(|c| !matches!(c, '-' | '_' | ' ')).take(64).flat_map(char::to_lowercase).collect()
}

/// Levenshtein distance, one row at a time.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut left = i + 1;
        let mut next = vec![left];
        for (y, (diagonal, above)) in b.iter().zip(row.iter().zip(row.iter().skip(1))) {
            left = (diagonal + usize::from(x != y)).min(above + 1).min(left + 1);
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}
