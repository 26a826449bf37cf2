//! What an ELF file says of what it needs: libraries, where to look for them, its loader; and of a
//! kernel module, what modules it needs.
//!
//! Only 64-bit little-endian files are read. Every offset is checked; a file that lies gives an
//! error or less than it has, never a panic.

use anyhow::{Context as _, ensure};

/// What the dynamic section and the program headers say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    /// The loader that starts it, of a program that is linked dynamically.
    pub(crate) loader: Option<String>,
    /// Names of libraries.
    pub(crate) libraries: Vec<String>,
    /// Folders to look in first; `$ORIGIN` stands for the file's own.
    pub(crate) folders: Vec<String>,
}

/// Whether these bytes begin as an ELF file does.
pub(crate) fn is_elf(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x7fELF")
}

/// The libraries that a file needs to be started or loaded; `None` where it is none that could be.
///
/// # Errors
/// The file cannot be read, or is damaged.
pub(crate) fn libraries_of(file: &std::path::Path) -> anyhow::Result<Option<Vec<String>>> {
    let bytes = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    if !is_elf(&bytes) {
        return Ok(None);
    }
    let needs = needs(&bytes).with_context(|| file.display().to_string())?;
    Ok(Some(needs.libraries))
}

/// The names of symbols and of their versions that a file needs or offers.
///
/// # Errors
/// The file cannot be read, or is damaged.
pub(crate) fn strings_of(file: &std::path::Path) -> anyhow::Result<Vec<String>> {
    let bytes = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let strings = section(&bytes, ".dynstr")?.context("it has no .dynstr")?;
    Ok(strings
        .split(|byte| *byte == 0)
        .map(|it| String::from_utf8_lossy(it).into_owned())
        .collect())
}

/// Reads what a program or library needs.
pub(crate) fn needs(bytes: &[u8]) -> anyhow::Result<Needs> {
    let segments = segments(bytes)?;
    let mut needs = Needs::default();
    if let Some(loader) = segments.iter().find(|segment| segment.kind == INTERP) {
        needs.loader = Some(text(part(bytes, loader.offset, loader.size)?));
    }
    if let Some(dynamic) = segments.iter().find(|segment| segment.kind == DYNAMIC) {
        let entries = entries(part(bytes, dynamic.offset, dynamic.size)?);
        let strings = entries.iter().find(|(tag, _)| *tag == STRTAB);
        let Some((_, address)) = strings else { return Ok(needs) };
        let at = offset_of(&segments, *address).context("its strings are in no segment")?;
        let strings = bytes.get(at..).context("its strings lie beyond its end")?;
        let named = |wanted: &[u64]| -> Vec<String> {
            let chosen = entries.iter().filter(|(tag, _)| wanted.contains(tag));
            chosen.filter_map(|(_, at)| Some(text(strings.get(size(*at)?..)?))).collect()
        };
        needs.libraries = named(&[NEEDED]);
        let folders = named(&[RPATH, RUNPATH]);
        needs.folders =
            folders.iter().flat_map(|list| list.split(':')).map(str::to_owned).collect();
    }
    Ok(needs)
}

/// The modules that a kernel module names as needed.
pub(crate) fn module_needs(bytes: &[u8]) -> anyhow::Result<Vec<String>> {
    let information = section(bytes, ".modinfo")?.context("it has no .modinfo")?;
    let lines = information.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    let mut needs = Vec::new();
    for line in lines {
        let Some(list) = line.strip_prefix("depends=") else { continue };
        needs.extend(list.split(',').filter(|name| !name.is_empty()).map(str::to_owned));
    }
    Ok(needs)
}

const DYNAMIC: u32 = 2;
const INTERP: u32 = 3;
const LOAD: u32 = 1;

const NEEDED: u64 = 1;
const STRTAB: u64 = 5;
const RPATH: u64 = 15;
const RUNPATH: u64 = 29;

/// One program header.
struct Segment {
    kind: u32,
    offset: usize,
    address: u64,
    size: usize,
}

fn segments(bytes: &[u8]) -> anyhow::Result<Vec<Segment>> {
    check(bytes)?;
    let table = place(bytes, 32)?;
    let (each, n) = (usize::from(half(bytes, 54)?), usize::from(half(bytes, 56)?));
    let segment = |index: usize| {
        let header = part(bytes, table.saturating_add(index * each), 56)?;
        Ok(Segment {
            kind: word(header, 0)?,
            offset: place(header, 8)?,
            address: long(header, 16)?,
            size: place(header, 32)?,
        })
    };
    (0..n).map(segment).collect()
}

fn section<'a>(bytes: &'a [u8], wanted: &str) -> anyhow::Result<Option<&'a [u8]>> {
    check(bytes)?;
    let table = place(bytes, 40)?;
    let (each, n) = (usize::from(half(bytes, 58)?), usize::from(half(bytes, 60)?));
    let header = |index: usize| part(bytes, table.saturating_add(index * each), 64);
    let content = |header: &[u8]| part(bytes, place(header, 24)?, place(header, 32)?);
    let names = content(header(usize::from(half(bytes, 62)?))?)?;
    for index in 0..n {
        let header = header(index)?;
        let name = usize::try_from(word(header, 0)?).ok().and_then(|at| names.get(at..));
        if name.is_some_and(|name| text(name) == wanted) {
            return content(header).map(Some);
        }
    }
    Ok(None)
}

fn check(bytes: &[u8]) -> anyhow::Result<()> {
    ensure!(is_elf(bytes), "it is no ELF file");
    ensure!(bytes.get(4..6) == Some(&[2, 1]), "it is not for a 64-bit little-endian machine");
    Ok(())
}

fn entries(dynamic: &[u8]) -> Vec<(u64, u64)> {
    let entry = |bytes: &[u8]| Some((long(bytes, 0).ok()?, long(bytes, 8).ok()?));
    dynamic.chunks_exact(16).filter_map(entry).take_while(|(tag, _)| *tag != 0).collect()
}

/// Where in the file the bytes of an address are.
fn offset_of(segments: &[Segment], address: u64) -> Option<usize> {
    let loaded = segments.iter().filter(|segment| segment.kind == LOAD);
    loaded
        .filter_map(|segment| {
            let inside = size(address.checked_sub(segment.address)?)?;
            (inside < segment.size).then(|| segment.offset.checked_add(inside))?
        })
        .next()
}

fn part(bytes: &[u8], from: usize, length: usize) -> anyhow::Result<&[u8]> {
    let end = from.checked_add(length);
    end.and_then(|end| bytes.get(from..end)).context("a part lies beyond its end")
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

fn size(number: u64) -> Option<usize> {
    usize::try_from(number).ok()
}

fn place(bytes: &[u8], at: usize) -> anyhow::Result<usize> {
    size(long(bytes, at)?).context("an offset does not fit")
}

fn half(bytes: &[u8], at: usize) -> anyhow::Result<u16> {
    Ok(u16::from_le_bytes(array(bytes, at)?))
}

fn word(bytes: &[u8], at: usize) -> anyhow::Result<u32> {
    Ok(u32::from_le_bytes(array(bytes, at)?))
}

fn long(bytes: &[u8], at: usize) -> anyhow::Result<u64> {
    Ok(u64::from_le_bytes(array(bytes, at)?))
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> anyhow::Result<[u8; N]> {
    part(bytes, at, N)?.try_into().context("a part has its length")
}

#[cfg(test)]
mod tests;
