//! The page and what it is told: nothing from outside can do anything in it.

use super::page;
use hyper::header::CONTENT_SECURITY_POLICY;

const PAGE: &str = include_str!("page.html");

#[test]
fn the_page_loads_nothing_and_runs_only_its_own_script() {
    let page = page::page();
    let policy = page.headers()[CONTENT_SECURITY_POLICY].to_str().unwrap();
    assert!(policy.starts_with("default-src 'none'; script-src 'nonce-"), "{policy}");
    for word in ["unsafe", "*", "http:", "https:"] {
        assert!(!policy.contains(word), "{policy}");
    }
    let other = page::page().headers()[CONTENT_SECURITY_POLICY].clone();
    assert_ne!(policy, other.to_str().unwrap(), "each answer has a nonce of its own");
    for word in ["http://", "https://", "src=", "@import", "url(", "innerHTML", "eval("] {
        assert!(!PAGE.contains(word), "{word}");
    }
    assert_eq!(PAGE.matches("NONCE").count(), 2, "one style, one script");
    assert_eq!(PAGE.matches("<script").count() + PAGE.matches("<style").count(), 2);
}
