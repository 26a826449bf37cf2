//! A JSON object whose keys may stand in it twice, which a map would hide.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

/// The pairs of an object in their order, or what the text is instead.
pub(super) enum Pairs {
    Object(Vec<(String, Value)>),
    Other(&'static str),
}

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PairsVisitor)
    }
}

struct PairsVisitor;

impl<'de> Visitor<'de> for PairsVisitor {
    type Value = Pairs;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
        let mut pairs = Vec::new();
        while let Some(pair) = map.next_entry()? {
            pairs.push(pair);
        }
        Ok(Pairs::Object(pairs))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Pairs, A::Error> {
        while seq.next_element::<Value>()?.is_some() {}
        Ok(Pairs::Other("an array"))
    }

    fn visit_unit<E>(self) -> Result<Pairs, E> {
        Ok(Pairs::Other("null"))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Pairs, E> {
        Ok(Pairs::Other("a boolean"))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Pairs, E> {
        Ok(Pairs::Other("a number"))
    }

    fn visit_u64<E>(self, _: u64) -> Result<Pairs, E> {
        Ok(Pairs::Other("a number"))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Pairs, E> {
        Ok(Pairs::Other("a number"))
    }

    fn visit_str<E>(self, _: &str) -> Result<Pairs, E> {
        Ok(Pairs::Other("a string"))
    }
}
