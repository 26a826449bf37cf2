//! Lengths, addresses and times: reading them from the command line, showing them to a person.

use std::time::Duration;

/// Reads a length: a whole number, with K, M, G or T for powers of 1024.
pub(crate) fn parse_length(text: &str) -> Result<u64, String> {
    let wrong = || "a length is a whole number with K, M, G or T behind it, like 64M".to_owned();
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let shift = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KB" | "KIB" => 10,
        "M" | "MB" | "MIB" => 20,
        "G" | "GB" | "GIB" => 30,
        "T" | "TB" | "TIB" => 40,
        _ => return Err(wrong()),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    let too_long = || "that is more than 2^63 bytes".to_owned();
    let number: u64 = digits.parse().map_err(|_| too_long())?;
    number.checked_mul(1 << shift).filter(|bytes| *bytes <= 1 << 63).ok_or_else(too_long)
}

/// Reads an address: hexadecimal with 0x, or decimal.
pub(crate) fn parse_address(text: &str) -> Result<u64, String> {
    let number = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) if hex.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            u64::from_str_radix(hex, 16)
        }
        None if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse(),
        _ => return Err("an address looks like 0x7f0012340000".to_owned()),
    };
    number.map_err(|_| "that is no 64-bit address".to_owned())
}

/// Reads seconds with a fraction, at least a millisecond, at most a day.
pub(crate) fn parse_seconds(text: &str) -> Result<Duration, String> {
    let wrong = || "a time is a number of seconds from 0.001 to 86400, like 2.5".to_owned();
    if !text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return Err(wrong());
    }
    let seconds: f64 = text.parse().map_err(|_| wrong())?;
    if !(0.001..=86400.0).contains(&seconds) {
        return Err(wrong());
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// A length as a person reads it: exact where it is short, else with one decimal.
pub(crate) fn length(bytes: u64) -> String {
    const UNITS: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let Some((unit, bits)) = UNITS.iter().find(|(_, bits)| bytes >= 1 << bits) else {
        return if bytes == 1 { "1 byte".to_owned() } else { format!("{bytes} bytes") };
    };
    if bytes.is_multiple_of(1 << bits) {
        return format!("{} {unit}", bytes >> bits);
    }
    format!("{:.1} {unit}", ratio(bytes, 1 << bits))
}

/// Gigabytes (10^9) per second.
pub(crate) fn rate(bytes: u64, time: Duration) -> f64 {
    ratio(bytes, 1_000_000_000) / time.as_secs_f64().max(1e-9)
}

/// A rate as a person reads it.
pub(crate) fn shown_rate(bytes: u64, time: Duration) -> String {
    let rate = rate(bytes, time);
    if rate >= 0.1 { format!("{rate:.2} GB/s") } else { format!("{:.2} MB/s", rate * 1000.0) }
}

/// A time as a person reads it.
pub(crate) fn shown_time(time: Duration) -> String {
    match time.as_secs_f64() {
        seconds if seconds >= 0.1 => format!("{seconds:.2} s"),
        seconds if seconds >= 0.001 => format!("{:.1} ms", seconds * 1e3),
        seconds => format!("{:.0} µs", seconds * 1e6),
    }
}

/// Text of a peer, with control characters made visible: it goes to a terminal.
pub(crate) fn printable(text: &str) -> String {
    text.chars()
        .flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] })
        .collect()
}

/// Exact enough for showing.
#[expect(clippy::cast_precision_loss, reason = "shown with a few digits")]
fn ratio(bytes: u64, unit: u64) -> f64 {
    bytes as f64 / unit as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_whole_numbers_with_a_power_of_1024() {
        let good = [
            ("0", 0),
            ("4096", 4096),
            ("4k", 4096),
            ("64M", 64 << 20),
            ("1GiB", 1 << 30),
            ("2T", 2 << 40),
            ("7B", 7),
        ];
        for (text, bytes) in good {
            assert_eq!(parse_length(text), Ok(bytes), "{text}");
        }
        for text in ["", "M", "-1", "+1", "1.5G", "1e3", "0x10", " 1", "1 M", "1Q", "12é", "٣"] {
            assert!(parse_length(text).unwrap_err().starts_with("a length is"), "{text}");
        }
        for text in ["99999999999999999999", "16777216T"] {
            assert_eq!(parse_length(text).unwrap_err(), "that is more than 2^63 bytes", "{text}");
        }
    }

    #[test]
    fn addresses_are_hexadecimal_or_decimal() {
        assert_eq!(parse_address("0x7f00"), Ok(0x7f00));
        assert_eq!(parse_address("32512"), Ok(32512));
        assert_eq!(parse_address("0xffffffffffffffff"), Ok(u64::MAX));
        for text in ["", "0x", "7f00", "-1", "0x-1", "0x1ffffffffffffffff", "+5"] {
            assert!(parse_address(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_are_seconds_with_a_fraction() {
        assert_eq!(parse_seconds("2.5"), Ok(Duration::from_millis(2500)));
        assert_eq!(parse_seconds("86400"), Ok(Duration::from_secs(86400)));
        for text in ["", "0", "-1", "nan", "inf", "1e3", "86401", "1s", "."] {
            assert!(parse_seconds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn values_are_shown_for_a_person() {
        assert_eq!(length(1), "1 byte");
        assert_eq!(length(1023), "1023 bytes");
        assert_eq!(length(1 << 30), "1 GiB");
        assert_eq!(length(1536), "1.5 KiB");
        assert_eq!(shown_rate(1 << 30, Duration::from_millis(500)), "2.15 GB/s");
        assert_eq!(shown_rate(1000, Duration::from_secs(1)), "0.00 MB/s");
        assert_eq!(shown_time(Duration::from_micros(210)), "210 µs");
        assert_eq!(shown_time(Duration::from_millis(21)), "21.0 ms");
        assert_eq!(shown_time(Duration::from_millis(2100)), "2.10 s");
        assert_eq!(printable("a\x1b[31mb\n"), "a\\u{1b}[31mb\\n");
    }
}
