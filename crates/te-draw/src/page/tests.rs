//! Pages of the machines that are shipped.

use super::*;
use crate::scene::tests::{of_size, shipped};

fn page(name: &str) -> String {
    let (_, sample) = shipped().into_iter().find(|(known, _)| known == name).unwrap();
    html(sample.subject())
}

#[test]
fn a_page_names_nothing_outside_itself() {
    for (name, sample) in shipped() {
        let page = html(sample.subject());
        let own = page.replace("http://www.w3.org/2000/svg", "");
        for part in ["http:", "https:", "//cdn", "url(", "@import", " src="] {
            assert!(!own.contains(part), "{name}: {part}");
        }
        assert!(page.contains("default-src 'none'"), "{name}");
    }
}

#[test]
fn names_never_become_markup() {
    let page = page("odd-names.xml");
    // Two scripts are ours: data and code.
    assert_eq!(page.matches("<script").count(), 2);
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
    assert!(!page.contains("<script>alert"));
    assert!(page.contains("<td>a&quot;b&#39;c&amp;d;--&gt;&lt;/style&gt;</td>"));
    assert_eq!(page.matches("</style>").count(), 1);
}

#[test]
fn the_paths_for_the_script_hold_keys_and_words_only() {
    let sample = of_size(1, 2, 1);
    assert_eq!(
        paths(sample.subject()),
        "{\"c0\":{\"n0\":\"NODE\",\"n1\":\"NODE\",\"g0\":\"NODE\"},\
         \"g0\":{\"n0\":\"PHB\",\"n1\":\"PHB\"}}"
    );
}

#[test]
fn tables_have_what_is_known_and_no_empty_columns() {
    let page = page("mixed-a100.xml");
    for part in [
        "<h2>NICs</h2>",
        "<td>2 ports, 1 active</td>",
        "<td>no active port</td>",
        "<td>NVIDIA A100-SXM4-80GB</td>",
        "<td class=\"long\">PIX mlx5_0; PXB mlx5_1; SYS mlx5_3; SYS mlx4_0</td>",
        "<td>10 21</td>",
    ] {
        assert!(page.contains(part), "{part}");
    }
    let plain = html(of_size(2, 1, 0).subject());
    assert!(!plain.contains(">memory</th>") && !plain.contains("<h2>GPUs</h2>"));
}
