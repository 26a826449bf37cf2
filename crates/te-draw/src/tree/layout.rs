//! Lines of coloured pieces, broken between pieces.

use unicode_width::UnicodeWidthStr;

/// What a piece is, and so its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    Strong,
    Dim,
    Nic,
    Gpu,
    Bridge,
    Warning,
}

impl Tone {
    /// The ANSI code.
    const fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Strong => "1",
            Self::Dim => "2",
            Self::Nic => "1;36",
            Self::Gpu => "1;32",
            Self::Bridge => "35",
            Self::Warning => "33",
        }
    }
}

/// Some text of one tone; lines are broken between pieces.
#[derive(Debug, Clone)]
pub(super) struct Piece {
    text: String,
    tone: Tone,
}

impl Piece {
    pub(super) fn new(text: impl Into<String>, tone: Tone) -> Self {
        Self { text: text.into(), tone }
    }
}

/// What stands before a line, before its continuations, and its pieces.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) first: String,
    pub(super) next: String,
    pub(super) pieces: Vec<Piece>,
}

impl Line {
    pub(super) fn plain(pieces: Vec<Piece>) -> Self {
        Self { first: String::new(), next: "  ".to_owned(), pieces }
    }
}

/// The text so far.
#[derive(Debug)]
pub(super) struct Out {
    columns: usize,
    colours: bool,
    text: String,
}

impl Out {
    pub(super) fn new(columns: usize, colours: bool) -> Self {
        Self { columns, colours, text: String::new() }
    }

    pub(super) fn text(self) -> String {
        self.text
    }

    /// An empty line.
    pub(super) fn gap(&mut self) {
        self.text.push('\n');
    }

    /// Writes a line, and as many more as it needs.
    pub(super) fn line(&mut self, line: &Line) {
        self.push(&line.first, Tone::Dim);
        let mut used = line.first.width();
        let mut is_fresh = true;
        for piece in &line.pieces {
            let width = piece.text.width();
            let gap = usize::from(!is_fresh);
            if !is_fresh && used + gap + width > self.columns {
                self.end_line();
                self.push(&line.next, Tone::Dim);
                used = line.next.width();
            } else if gap > 0 {
                self.text.push(' ');
                used += 1;
            }
            is_fresh = false;
            used = self.piece(piece, used, &line.next);
        }
        self.end_line();
    }

    /// No line has blanks at its end.
    fn end_line(&mut self) {
        self.text.truncate(self.text.trim_end_matches(' ').len());
        self.text.push('\n');
    }

    /// Writes a piece, broken anywhere if a line has no room for it; gives the column it ends at.
    fn piece(&mut self, piece: &Piece, mut used: usize, next: &str) -> usize {
        if used + piece.text.width() <= self.columns {
            self.push(&piece.text, piece.tone);
            return used + piece.text.width();
        }
        let mut part = String::new();
        for c in piece.text.chars() {
            let width = c.to_string().width();
            if used + width > self.columns {
                self.push(&part, piece.tone);
                part.clear();
                self.text.push('\n');
                self.push(next, Tone::Dim);
                used = next.width();
            }
            part.push(c);
            used += width;
        }
        self.push(&part, piece.tone);
        used
    }

    fn push(&mut self, text: &str, tone: Tone) {
        if !self.colours || tone == Tone::Plain || text.trim().is_empty() {
            self.text.push_str(text);
            return;
        }
        // Padding behind a name stays outside, so that it can be cut off.
        let bare = text.trim_end();
        self.text.push_str(&format!(
            "\u{1b}[{}m{bare}\u{1b}[0m{}",
            tone.code(),
            &text[bare.len()..]
        ));
    }
}
