//! A scheduler that asks which NICs are near a place in memory.

use te_topology::{MatrixError, PriorityMatrix};

/// The NICs that `matrix` prefers for `place`.
pub fn near(matrix: &str, place: &str) -> Result<Vec<String>, MatrixError> {
    let matrix = PriorityMatrix::parse(matrix)?;
    let tiers = matrix.get(place);
    Ok(tiers.into_iter().flat_map(|tiers| &tiers.preferred).map(ToString::to_string).collect())
}

#[test]
fn the_preferred_nic_is_found() {
    let matrix = r#"{"cpu:0":[["mlx5_0"],["mlx5_1"]]}"#;
    assert_eq!(near(matrix, "cpu:0").unwrap(), ["mlx5_0"]);
    assert!(near("[]", "cpu:0").is_err());
}
