//! The guide `docs/how-to-write-a-transport.md` shows the files of this package, whole.

use std::path::Path;

const GUIDE: &str = "../../docs/how-to-write-a-transport.md";

/// All code that the guide gives for one file, in order.
fn shown(guide: &str, file: &str) -> String {
    let mut inside = false;
    let mut code = String::new();
    for line in guide.lines() {
        if line.starts_with("```") {
            inside = !inside && line.ends_with(&format!(" file={file}"));
        } else if inside {
            code.push_str(line);
            code.push('\n');
        }
    }
    code
}

#[test]
fn the_guide_shows_the_code_that_is_tested_here() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let guide = std::fs::read_to_string(root.join(GUIDE)).expect("the guide is in the repository");
    for file in ["Cargo.toml", "src/lib.rs", "src/work.rs", "tests/conformance.rs"] {
        let real = std::fs::read_to_string(root.join(file)).expect("a file of this package");
        let squeezed = |text: &str| -> Vec<String> {
            text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect()
        };
        assert_eq!(squeezed(&shown(&guide, file)), squeezed(&real), "{file} in the guide");
    }
}
