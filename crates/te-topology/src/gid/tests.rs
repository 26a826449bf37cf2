//! Tables of GIDs and what is chosen of them.
