//! ELF files made by hand, the program that runs this test, and files that lie.

use super::*;

/// A file with one loaded segment, a loader and a dynamic section, as the format is described.
fn program() -> Vec<u8> {
    let strings = b"\0libc.so.6\0libibverbs.so.1\0$ORIGIN/../lib:/opt/lib\0";
    let (headers, loader) = (64, b"/lib64/ld.so\0");
    let loader_at = headers + 3 * 56;
    let dynamic_at = loader_at + 16;
    let strings_at = dynamic_at + 5 * 16;
    let end = strings_at + strings.len();
    let base = 0x40_0000_u64;
    let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
    bytes.resize(64, 0);
    bytes[32..40].copy_from_slice(&64_u64.to_le_bytes());
    bytes[54..56].copy_from_slice(&56_u16.to_le_bytes());
    bytes[56..58].copy_from_slice(&3_u16.to_le_bytes());
    let mut segment = |kind: u32, at: usize, length: usize| {
        let mut header = kind.to_le_bytes().to_vec();
        header.resize(56, 0);
        header[8..16].copy_from_slice(&(at as u64).to_le_bytes());
        header[16..24].copy_from_slice(&(base + at as u64).to_le_bytes());
        header[32..40].copy_from_slice(&(length as u64).to_le_bytes());
        bytes.extend(header);
    };
    segment(LOAD, 0, end);
    segment(INTERP, loader_at, loader.len());
    segment(DYNAMIC, dynamic_at, 5 * 16);
    bytes.extend(loader);
    bytes.resize(dynamic_at, 0);
    let table = base + strings_at as u64;
    for (tag, value) in [(NEEDED, 1), (NEEDED, 11), (RUNPATH, 27), (STRTAB, table), (0, 0)] {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(value.to_le_bytes());
    }
    bytes.extend(strings);
    bytes
}

/// A kernel module with one named section.
fn module(information: &[u8]) -> Vec<u8> {
    let names = b"\0.names\0.modinfo\0";
    let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
    bytes.resize(64, 0);
    let names_at = 64 + 2 * 64;
    bytes[40..48].copy_from_slice(&64_u64.to_le_bytes());
    bytes[58..60].copy_from_slice(&64_u16.to_le_bytes());
    bytes[60..62].copy_from_slice(&2_u16.to_le_bytes());
    let information_at = names_at + names.len();
    for (name, at, length) in
        [(1_u32, names_at, names.len()), (8, information_at, information.len())]
    {
        let mut header = name.to_le_bytes().to_vec();
        header.resize(64, 0);
        header[24..32].copy_from_slice(&(at as u64).to_le_bytes());
        header[32..40].copy_from_slice(&(length as u64).to_le_bytes());
        bytes.extend(header);
    }
    bytes.extend(names);
    bytes.extend(information);
    bytes
}

#[test]
fn libraries_folders_and_the_loader_are_read() {
    let found = needs(&program()).unwrap();
    assert_eq!(found.loader.as_deref(), Some("/lib64/ld.so"));
    assert_eq!(found.libraries, ["libc.so.6", "libibverbs.so.1"]);
    assert_eq!(found.folders, ["$ORIGIN/../lib", "/opt/lib"]);
}

#[test]
fn this_program_needs_a_libc() {
    let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let found = needs(&bytes).unwrap();
    assert!(found.libraries.iter().any(|name| name.starts_with("libc.")), "{found:?}");
    assert!(found.loader.is_some());
}

#[test]
fn a_module_names_what_it_depends_on() {
    let information = b"license=GPL\0depends=ib_core,udp_tunnel\0name=rdma_rxe\0";
    assert_eq!(module_needs(&module(information)).unwrap(), ["ib_core", "udp_tunnel"]);
    assert!(module_needs(&module(b"depends=\0")).unwrap().is_empty());
    assert!(module_needs(&program()).is_err());
}

#[test]
fn a_file_that_is_cut_off_or_spoilt_gives_no_panic() {
    for whole in [program(), module(b"depends=a\0")] {
        for end in 0..whole.len() {
            let _ = needs(&whole[..end]);
            let _ = module_needs(&whole[..end]);
        }
        for at in 0..whole.len() {
            let mut spoilt = whole.clone();
            spoilt[at] = 0xff;
            let _ = needs(&spoilt);
            let _ = module_needs(&spoilt);
        }
    }
    assert!(needs(b"#!/bin/sh\n").is_err());
}
