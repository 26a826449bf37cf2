//! Text in lines.

/// A text in lines of at most `columns` where its words allow it: the first begins with `head`, the
/// others with as much blank.
pub(crate) fn wrapped(head: &str, text: &str, columns: usize) -> String {
    let indent = " ".repeat(head.chars().count());
    let mut lines = head.to_owned();
    let mut used = head.chars().count();
    let mut is_first = true;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if !is_first && used + 1 + length > columns {
            lines.push('\n');
            lines.push_str(&indent);
            used = indent.len();
        } else if !is_first {
            lines.push(' ');
            used += 1;
        }
        lines.push_str(word);
        used += length;
        is_first = false;
    }
    lines.push('\n');
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_kept_whole_and_lines_short() {
        assert_eq!(wrapped("  ! ", "one two three", 11), "  ! one two\n    three\n");
        assert_eq!(wrapped("x: ", "averylongword y", 5), "x: averylongword\n   y\n");
        assert_eq!(wrapped("x", "", 5), "x\n");
    }
}
