//! How wide text is, and how it is broken into lines.
//!
//! Nobody knows with which font a picture is shown. Widths are those of DejaVu Sans, one of the
//! widest fonts that are the default somewhere, so that in any other there is more room, not less.

/// How a text looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Face {
    /// Height of an em in pixels.
    pub(crate) size: i32,
    pub(crate) bold: bool,
}

impl Face {
    pub(crate) const fn plain(size: i32) -> Self {
        Self { size, bold: false }
    }

    pub(crate) const fn bold(size: i32) -> Self {
        Self { size, bold: true }
    }

    /// From the top of a line to the top of the next.
    pub(crate) const fn line_height(self) -> i32 {
        self.size + self.size / 3 + 1
    }

    /// Pixels that a text takes, rounded up.
    pub(crate) fn width(self, text: &str) -> i32 {
        let hundredths: i32 = text.chars().map(|c| self.advance(c)).sum();
        (hundredths * self.size).div_euclid(100) + 1
    }

    fn advance(self, c: char) -> i32 {
        let table = if self.bold { &BOLD } else { &PLAIN };
        let index = u32::from(c).checked_sub(32).and_then(|index| usize::try_from(index).ok());
        i32::from(index.and_then(|index| table.get(index)).copied().unwrap_or(OTHER))
    }

    /// Lines no wider than `width`, broken at spaces, else anywhere. Of a text that needs more than
    /// `most` lines the middle is left out.
    pub(crate) fn wrap(self, text: &str, width: i32, most: usize) -> Vec<String> {
        let lines = self.lines(text, width);
        if lines.len() <= most {
            return lines;
        }
        let mut kept: Vec<char> = text.chars().collect();
        loop {
            // Some characters go each time; it ends because a line always takes one.
            let drop = kept.len().div_ceil(16).max(1);
            let middle = kept.len().saturating_sub(drop) / 2;
            kept.drain(middle..(middle + drop).min(kept.len()));
            let (front, back) = kept.split_at(middle.min(kept.len()));
            let shorter: String = front.iter().chain(&['…']).chain(back).collect();
            let lines = self.lines(&shorter, width);
            if lines.len() <= most || kept.is_empty() {
                return lines;
            }
        }
    }

    fn lines(self, text: &str, width: i32) -> Vec<String> {
        let mut lines = vec![String::new()];
        for word in text.split(' ') {
            let last = lines.last().map(String::as_str).unwrap_or_default();
            let joined = if last.is_empty() { word.to_owned() } else { format!("{last} {word}") };
            if self.width(&joined) <= width {
                lines.pop();
                lines.push(joined);
                continue;
            }
            if last.is_empty() {
                lines.pop();
            }
            lines.extend(self.pieces(word, width));
        }
        lines
    }

    /// A word in pieces that fit; at least one character each.
    fn pieces(self, word: &str, width: i32) -> Vec<String> {
        let mut pieces = vec![String::new()];
        let mut used = 1;
        for c in word.chars() {
            let advance = (self.advance(c) * self.size).div_euclid(100) + 1;
            let full = used + advance > width;
            match pieces.last_mut() {
                Some(piece) if piece.is_empty() || !full => piece.push(c),
                _ => {
                    pieces.push(c.to_string());
                    used = 1;
                }
            }
            used += advance;
        }
        pieces
    }
}

/// Hundredths of an em for characters that are in no table: ideographs are as wide as high.
const OTHER: u8 = 100;

/// Hundredths of an em from space to tilde.
const PLAIN: [u8; 95] = [
    32, 41, 46, 84, 64, 95, 78, 28, 39, 39, 50, 84, 32, 37, 32, 34, 64, 64, 64, 64, 64, 64, 64, 64,
    64, 64, 34, 34, 84, 84, 84, 54, 100, 69, 69, 70, 77, 64, 58, 78, 76, 30, 30, 66, 56, 87, 75,
    79, 61, 79, 70, 64, 62, 74, 69, 99, 69, 62, 69, 39, 34, 39, 84, 50, 50, 62, 64, 55, 64, 62, 36,
    64, 64, 28, 28, 58, 28, 98, 64, 62, 64, 64, 42, 53, 40, 64, 60, 82, 60, 60, 53, 64, 34, 64, 84,
];

/// The same in bold.
const BOLD: [u8; 95] = [
    35, 46, 53, 84, 70, 101, 88, 31, 46, 46, 53, 84, 38, 42, 38, 37, 70, 70, 70, 70, 70, 70, 70,
    70, 70, 70, 40, 40, 84, 84, 84, 58, 100, 78, 77, 74, 83, 69, 69, 83, 84, 38, 38, 78, 64, 100,
    84, 85, 74, 85, 77, 72, 69, 82, 78, 111, 78, 73, 73, 46, 37, 46, 84, 50, 50, 68, 72, 60, 72,
    68, 44, 72, 72, 35, 35, 67, 35, 105, 72, 69, 72, 72, 50, 60, 48, 72, 66, 93, 65, 66, 59, 72,
    37, 72, 84,
];

#[cfg(test)]
mod tests {
    use super::*;

    const FACE: Face = Face::plain(10);

    #[test]
    fn widths_grow_with_size_and_weight() {
        assert_eq!(FACE.width("mlx5_0"), 37);
        assert!(Face::bold(10).width("mlx5_0") > FACE.width("mlx5_0"));
        assert!(Face::plain(20).width("mlx5_0") > FACE.width("mlx5_0"));
        assert_eq!(FACE.width("中"), 11);
    }

    #[test]
    fn every_line_fits_and_nothing_is_lost() {
        let name = "averyveryverylongnameofanicthatsomebodymadeup_0";
        let lines = FACE.wrap(name, 80, 9);
        assert!(lines.len() > 2 && lines.iter().all(|line| FACE.width(line) <= 80), "{lines:?}");
        assert_eq!(lines.concat(), name);
        assert_eq!(FACE.wrap("NVIDIA H100 80GB", 80, 4), ["NVIDIA H100", "80GB"]);
        assert_eq!(FACE.wrap("", 80, 4), [""]);
    }

    #[test]
    fn of_a_text_that_is_too_long_both_ends_are_kept() {
        let lines = FACE.wrap(&format!("a{}z", "m".repeat(400)), 100, 3);
        let all = lines.concat();
        assert!(lines.len() <= 3 && lines.iter().all(|line| FACE.width(line) <= 100), "{lines:?}");
        assert!(all.starts_with("am") && all.contains('…') && all.ends_with("mz"), "{all}");
        assert!(FACE.wrap("中中中", 1, 1).concat().contains('…'));
    }
}
