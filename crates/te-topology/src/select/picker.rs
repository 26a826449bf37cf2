//! How one of several equal NICs is taken.

/// Takes one of several, at random from a seed or in turn. Each thread has its own.
#[derive(Debug, Clone)]
pub struct Picker {
    order: Order,
}

#[derive(Debug, Clone)]
enum Order {
    Random(u64),
    InTurn(u64),
}

impl Picker {
    /// Takes at random; the same seed gives the same sequence.
    pub const fn random(seed: u64) -> Self {
        Self { order: Order::Random(seed) }
    }

    /// Takes in turn, beginning with number `start`. Threads that begin alike crowd the same NIC.
    pub const fn in_turn(start: u64) -> Self {
        Self { order: Order::InTurn(start) }
    }

    /// A number below `n`, each equally often; `None` if `n` is 0.
    pub fn pick(&mut self, n: usize) -> Option<usize> {
        let n = u64::try_from(n).ok().filter(|n| *n > 0)?;
        let picked = match &mut self.order {
            Order::InTurn(next) => {
                let turn = *next % n;
                *next = next.wrapping_add(1);
                turn
            }
            Order::Random(state) => below(state, n),
        };
        usize::try_from(picked).ok()
    }
}

/// Lemire's method: the high half of a product, with the few draws dropped that would favour some
/// numbers.
fn below(state: &mut u64, n: u64) -> u64 {
    let threshold = n.wrapping_neg() % n;
    loop {
        let product = u128::from(next(state)) * u128::from(n);
        #[expect(clippy::cast_possible_truncation, reason = "the low half is what is meant")]
        let low = product as u64;
        if low >= threshold {
            return u64::try_from(product >> 64).unwrap_or(0);
        }
    }
}

/// SplitMix64: every seed is good, and the state is one word.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
