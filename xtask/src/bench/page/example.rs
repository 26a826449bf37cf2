//! A report of made-up samples with everything that one can hold, to be looked at.

use serde_json::Value;

use crate::bench::groups;
use crate::bench::micro::Micro;
use crate::bench::sample::{Figures, Sample};
use crate::bench::verdict;

/// Three rounds of every group: one far, one disturbed; a peer that is absent.
pub(crate) fn example() -> Value {
    let mut samples = Vec::new();
    for round in 0..3 {
        for group in groups::all() {
            for (at, contender) in (0_u32..).zip(&group.contenders) {
                if contender.label.starts_with("libfabric") {
                    let why = "not installed: sudo apt-get install -y libfabric-dev".to_owned();
                    samples.push(Sample::absent(round, &group, contender, why));
                    continue;
                }
                let ours = if contender.label.starts_with("te") { 3.0 } else { 1.0 };
                let rate = ours * (1.0 + f64::from(at) * 0.1 + f64::from(round) * 0.07);
                let line = if round == 2 { 314.0 } else { 74.0 };
                samples.push(Sample {
                    round,
                    group: group.name.to_owned(),
                    contender: contender.label.clone(),
                    figures: figures(rate),
                    line: (line, line + 3.0),
                    others: if round == 1 { 0.4 } else { 0.02 },
                    tries: 1 + round,
                    absent: None,
                });
            }
        }
    }
    let micro: Vec<Micro> = ["lookup among 100 000 buffers", "a request submitted"]
        .iter()
        .filter_map(|name| {
            let value =
                serde_json::json!({"figure": name, "value": 61.5, "unit": "ns", "limit": 50});
            Micro::read(&value.to_string())
        })
        .collect();
    let verdicts = verdict::all(&samples, &micro);
    let conditions = [
        "made-up samples, to look at the page: nothing of this was measured",
        "2 cores of a processor with a rather long name that some vendor gave it @ 2.60GHz, Linux 6.1",
    ];
    let conditions: Vec<String> = conditions.map(str::to_owned).into();
    super::document((&samples, &micro), &verdicts, &conditions)
}

fn figures(rate: f64) -> Figures {
    Figures {
        rate: Some(rate),
        requests: Some(rate * 12_345.0),
        p50: Some(40.0 / rate),
        p99: Some(90.0 / rate),
        cpu_here: Some(0.4 / rate),
        cpu_there: Some(0.3 / rate),
        value: (rate < 3.2).then_some(rate / 10.0),
    }
}
