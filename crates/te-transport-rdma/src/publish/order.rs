//! One order of NICs that every row of the matrix begins with.
//!
//! A reader may come to any row first, and then takes the NICs of that row as the first ones. So
//! each row has to be a beginning of the common order; and because a row is read from its preferred
//! to its other NICs, the preferred ones have to be one as well. Sets of NICs have such an order
//! exactly when of any two of them one contains the other.

use te_topology::{NicName, NicTiers, PriorityMatrix};

/// What became of the preferences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Preferences {
    /// They are told as they are.
    Kept,
    /// Some rows left NICs out, and name them now as available.
    Widened,
    /// They contradict each other: every NIC is told to be as good as any other.
    Lost,
}

/// NICs in the order in which they are published.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Order {
    /// Places in the list that the order was made of.
    pub(crate) places: Vec<usize>,
    /// The matrix to publish.
    pub(crate) matrix: PriorityMatrix,
    /// What became of the preferences.
    pub(crate) preferences: Preferences,
}

/// The location that stands in the matrix of a host of which nothing is known.
const ANY_ROW: &str = "cpu:0";

/// One row, as places in the list of NICs, sorted.
struct Row<'a> {
    location: &'a str,
    preferred: Vec<usize>,
    /// All of the row.
    named: Vec<usize>,
}

impl Order {
    /// The order of these NICs, no two of one name, by this matrix; rows may name others, which do
    /// not count.
    pub(crate) fn new(nics: &[&NicName], matrix: Option<&PriorityMatrix>) -> Self {
        let mut rows = rows(nics, matrix);
        let all: Vec<usize> = (0..nics.len()).collect();
        let mut preferences = Preferences::Kept;
        for row in rows.iter_mut().filter(|row| row.named.is_empty()) {
            row.named.clone_from(&all);
            preferences = Preferences::Widened;
        }
        if rows.is_empty() {
            let (preferred, named) = (Vec::new(), all.clone());
            rows.push(Row { location: ANY_ROW, preferred, named });
        }
        if !is_chain(rows.iter().flat_map(|row| [&row.preferred, &row.named])) {
            rows.iter_mut().for_each(|row| row.named.clone_from(&all));
            preferences = Preferences::Widened;
        }
        if !is_chain(rows.iter().map(|row| &row.preferred)) {
            rows.iter_mut().for_each(|row| row.preferred.clone_from(&all));
            preferences = Preferences::Lost;
        }
        let places = places(&rows, &all);
        let matrix = told(&rows, &places, nics);
        Self { places, matrix, preferences }
    }
}

fn rows<'a>(nics: &[&NicName], matrix: Option<&'a PriorityMatrix>) -> Vec<Row<'a>> {
    let place = |name: &NicName| nics.iter().position(|nic| *nic == name);
    let sorted = |names: &[NicName]| {
        let mut places: Vec<usize> = names.iter().filter_map(place).collect();
        places.sort_unstable();
        places.dedup();
        places
    };
    let row = |(location, tiers): (&'a str, &NicTiers)| {
        let named = [tiers.preferred.as_slice(), &tiers.available].concat();
        Row { location, preferred: sorted(&tiers.preferred), named: sorted(&named) }
    };
    matrix.into_iter().flat_map(PriorityMatrix::rows).map(row).collect()
}

/// Whether of any two sets one contains the other.
fn is_chain<'a>(sets: impl Iterator<Item = &'a Vec<usize>>) -> bool {
    let mut sets: Vec<&Vec<usize>> = sets.collect();
    sets.sort_by_key(|set| set.len());
    let contains = |large: &[usize], small: &[usize]| {
        small.iter().all(|place| large.binary_search(place).is_ok())
    };
    sets.windows(2).all(|pair| contains(pair[1], pair[0]))
}

/// The common order: a NIC of a smaller set before those of larger sets only, NICs that no row names
/// last.
fn places(rows: &[Row<'_>], all: &[usize]) -> Vec<usize> {
    let smallest = |place: &usize| {
        let sets = rows.iter().flat_map(|row| [&row.preferred, &row.named]);
        let having = sets.filter(|set| set.binary_search(place).is_ok());
        having.map(Vec::len).min().unwrap_or(usize::MAX)
    };
    let mut places = all.to_vec();
    places.sort_by_cached_key(|place| (smallest(place), *place));
    places
}

fn told(rows: &[Row<'_>], places: &[usize], nics: &[&NicName]) -> PriorityMatrix {
    let mut matrix = PriorityMatrix::new();
    for row in rows {
        let names = |set: &dyn Fn(&usize) -> bool| -> Vec<NicName> {
            places.iter().filter(|place| set(place)).map(|place| nics[*place].clone()).collect()
        };
        let preferred = |place: &usize| row.preferred.binary_search(place).is_ok();
        let tiers = NicTiers {
            preferred: names(&preferred),
            available: names(&|place| !preferred(place) && row.named.binary_search(place).is_ok()),
        };
        let inserted = matrix.insert(row.location, tiers);
        debug_assert!(inserted.is_ok(), "rows of a matrix are rows of a matrix: {inserted:?}");
    }
    matrix
}

#[cfg(test)]
mod tests;
