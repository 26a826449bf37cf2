//! Commands that register and unregister: several at once, very often, from many threads.

use std::sync::Barrier;

use serde_json::{Value, json};
use te_engine::{EngineError, Region, RegisterError, RegisterOptions, TransferEngine};
use te_suites::{now, pattern};

use crate::chain;
use crate::commands::{Node, Refusal, refusal, text, word};

impl Node {
    /// The commands of this file, and of the last one.
    pub(crate) fn dispatch_registering(&mut self, c: &Value) -> Result<Value, Refusal> {
        match text(c, "op")? {
            "reg_batch" => self.register_batch(c),
            "reg_cycles" => self.register_cycles(c),
            "reg_race" => self.register_race(c),
            "reg_storm" => self.register_storm(c),
            _ => self.dispatch_chaos(c),
        }
    }

    /// Registers every `[addr, len]` of `entries` in one call.
    fn register_batch(&self, c: &Value) -> Result<Value, Refusal> {
        let mut wanted = Vec::new();
        for entry in c["entries"].as_array().into_iter().flatten() {
            let number = |at: usize| entry[at].as_u64().unwrap_or_default();
            let region = self.memory.region(number(0), number(1)).map_err(|why| (-1, why))?;
            wanted.push((region, RegisterOptions::default()));
        }
        let done = self.engine.register_batch(&wanted);
        done.map(|()| json!({})).map_err(|error| refusal(error.into()))
    }

    /// Registers and unregisters `n` random parts of a mapping; tells what the process held before
    /// and after.
    fn register_cycles(&self, c: &Value) -> Result<Value, Refusal> {
        let (addr, len) = (word(c, "addr")?, word(c, "len")?);
        let mut random = pattern::Random::new(word(c, "seed")?);
        let before = held().map_err(system)?;
        for _ in 0..word(c, "n")? {
            let from = random.below(len);
            let most = 1 << random.below(31);
            let size = 1 + random.below(most.min(len - from));
            let region = self.memory.region(addr + from, size).map_err(|why| (-1, why))?;
            once(&self.engine, &region).map_err(refusal)?;
        }
        let after = held().map_err(system)?;
        Ok(json!({
            "maps_before": before.0, "maps_after": after.0,
            "fds_before": before.1, "fds_after": after.1,
        }))
    }

    /// In each of `rounds` rounds `threads` callers register ranges at the same moment of which
    /// any two overlap; tells in how many rounds there was not exactly one winner.
    fn register_race(&self, c: &Value) -> Result<Value, Refusal> {
        let (addr, threads) = (word(c, "addr")?, word(c, "threads")?);
        let len = word(c, "len")?;
        let regions = (0..threads).map(|i| self.memory.region(addr + 64 * i, len - 64 * i));
        let regions = regions.collect::<Result<Vec<_>, _>>().map_err(|why| (-1, why))?;
        let (mut odd, mut slowest) = (0, 0.0_f64);
        for _ in 0..word(c, "rounds")? {
            let outcomes = race(&self.engine, &regions);
            let winners = outcomes.iter().filter(|(_, won)| won.is_ok()).count();
            let overlaps =
                |won: &Result<(), RegisterError>| matches!(won, Err(RegisterError::Overlap { .. }));
            let losers = outcomes.iter().filter(|(_, won)| overlaps(won)).count();
            odd += u64::from(winners != 1 || winners + losers != outcomes.len());
            for (took, _) in &outcomes {
                slowest = slowest.max(*took);
            }
            for (region, (_, won)) in regions.iter().zip(&outcomes) {
                if won.is_ok() {
                    let done = self.engine.unregister(region.address());
                    done.map_err(|error| refusal(error.into()))?;
                }
            }
        }
        Ok(json!({ "odd": odd, "slowest_ms": slowest }))
    }

    /// `threads` callers, half with a range of their own and half with one that all share, register
    /// and unregister `rounds` times each; tells how many calls failed.
    fn register_storm(&self, c: &Value) -> Result<Value, Refusal> {
        let (addr, len) = (word(c, "addr")?, word(c, "len")?);
        let (threads, rounds) = (word(c, "threads")?, word(c, "rounds")?);
        let place = |i: u64| if i.is_multiple_of(2) { addr } else { addr + i * len };
        let regions = (0..threads).map(|i| self.memory.region(place(i), len));
        let regions = regions.collect::<Result<Vec<_>, _>>().map_err(|why| (-1, why))?;
        let engine = &*self.engine;
        let run = |region: &Region| {
            let failures = (0..rounds).filter_map(|_| once(engine, region).err());
            failures.map(|error| chain(&error)).collect::<Vec<_>>()
        };
        let failures: Vec<String> = std::thread::scope(|scope| {
            let run = &run;
            let callers: Vec<_> =
                regions.iter().map(|region| scope.spawn(move || run(region))).collect();
            callers.into_iter().filter_map(|caller| caller.join().ok()).flatten().collect()
        });
        Ok(json!({ "failed": failures.len(), "first": failures.first() }))
    }
}

fn once(engine: &TransferEngine, region: &Region) -> Result<(), EngineError> {
    engine.register(region, RegisterOptions::default())?;
    Ok(engine.unregister(region.address())?)
}

fn race(engine: &TransferEngine, regions: &[Region]) -> Vec<(f64, Result<(), RegisterError>)> {
    let start = Barrier::new(regions.len());
    let claim = |region: &Region| {
        start.wait();
        let begun = now();
        let won = engine.register(region, RegisterOptions::default());
        (begun.elapsed().as_secs_f64() * 1000.0, won)
    };
    std::thread::scope(|scope| {
        let claim = &claim;
        let claims: Vec<_> =
            regions.iter().map(|region| scope.spawn(move || claim(region))).collect();
        claims.into_iter().filter_map(|claim| claim.join().ok()).collect()
    })
}

/// Mappings and file descriptors of this process.
fn held() -> std::io::Result<(usize, usize)> {
    let maps = std::fs::read_to_string("/proc/self/maps")?.lines().count();
    Ok((maps, std::fs::read_dir("/proc/self/fd")?.count()))
}

#[expect(clippy::needless_pass_by_value, reason = "used as a function in map_err")]
fn system(error: std::io::Error) -> Refusal {
    (-1, chain(&error))
}
