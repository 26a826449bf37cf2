//! The command line: what is taken, what is refused, and that every verb has examples.

use clap::{CommandFactory, Parser};

use super::{Cli, Verb};

fn parse(line: &str) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(std::iter::once("te").chain(line.split_ascii_whitespace()))
}

#[test]
fn the_definition_is_sound() {
    Cli::command().debug_assert();
}

#[test]
fn these_lines_are_taken() {
    for line in [
        "serve",
        "serve --size 1G --file x --host 10.0.0.2 --port 15001 --read-only --until-eof --json",
        "write h:1",
        "write h:1 --file x --offset 1M --length 4K --verify --chunk 64K --timeout 2.5",
        "write h:1 --pattern 7 --length 64M --address 0x7f0012340000",
        "read h:1",
        "read h:1 --discard",
        "read h:1 --pattern 18446744073709551615 --length 1",
        "read h:1 --file - -vv --config te.toml",
        "notify h:1 name message",
        "probe h:1 --timeout 0.5 --metadata P2PHANDSHAKE",
        "segment h:1 --json",
        "meta ls http://h:1/metadata",
        "meta ls etcd://h:1 mooncake/ --json",
        "meta get redis://h:1 key",
        "meta put http://h:1/metadata key value",
        "meta put http://h:1/metadata key --file -",
        "meta rm http://h:1/metadata key",
        "meta watch etcd://h:1 prefix --count 3 --for 2.5",
        "metadata-server",
        "metadata-server --listen [::1]:0 --data d.redb --token-file t --max-value 16M --json",
        "metadata-server --tls-cert c --tls-key k --requests-per-second 0 --until-eof",
        "config --changed --long",
        "config --markdown",
        "topo",
        "topo --from x.xml --svg x.svg --html x.html --json",
        "topo --classic-json --width 40",
        "topo --dot --from -",
        "topo capture x.txt",
        "bench",
        "bench h:1 --op read --block 4K,1M --batch 128 --threads 2 --duration 0.5 --warm-up 0.1",
        "bench --verify --footprint 64M --engine-memory --checked --seed 7 --json --plot x.svg",
        "bench --transport shm --set tcp.lanes_per_peer=2 --set engine.retry_count=0",
        "demo --size 64M",
        "completions bash",
    ] {
        assert!(parse(line).is_ok(), "{line}: {}", parse(line).unwrap_err());
    }
}

#[test]
fn these_lines_are_refused() {
    for line in [
        "",
        "bogus",
        "serve --size",
        "serve --size 12Q",
        "serve --size -1",
        "serve --port 0",
        "serve --port 65536",
        "write",
        "write h:1 --pattern x",
        "write h:1 --pattern 1 --file x",
        "write h:1 --address 0x1 --offset 1",
        "write h:1 --chunk 1K",
        "write h:1 --chunk 2G",
        "write h:1 --timeout 0",
        "read h:1 --discard --file x",
        "read h:1 --pattern 1 --file x",
        "read h:1 --address 7f00",
        "notify h:1 name",
        "topo x",
        "topo --width 39",
        "topo --dot --classic-json",
        "topo capture",
        "topo --dot capture x.txt",
        "probe",
        "probe h:1 --timeout 1s",
        "metadata-server --tls-cert c",
        "metadata-server --max-keys -1",
        "metadata-server --header-timeout 0",
        "bench --op x",
        "bench --block 4K,,1M",
        "bench --batch 0",
        "bench --threads 257",
        "bench --duration 0",
        "bench --transport roce",
        "bench --set lanes=2",
        "config --markdown --long",
        "completions dos",
    ] {
        let error = parse(line).map(|cli| format!("{cli:?}"));
        assert_eq!(
            error.as_ref().map_err(clap::Error::exit_code).err(),
            Some(2),
            "{line}: {error:?}"
        );
    }
}

#[test]
fn values_arrive_in_bytes_and_seconds() {
    let Verb::Write(write) =
        parse("write h:1 --offset 1M --length 4K --timeout 2.5 --chunk 64K").unwrap().verb
    else {
        panic!("another verb");
    };
    assert_eq!((write.part.offset, write.part.address), (1 << 20, None));
    assert_eq!(write.length, Some(4096));
    assert_eq!(write.moving.chunk, 65536);
    assert_eq!(write.moving.timeout.map(|time| time.as_millis()), Some(2500));
}

#[test]
fn every_visible_verb_shows_examples_and_the_whole_help_shows_exit_codes() {
    let mut command = Cli::command();
    for verb in command.get_subcommands_mut().filter(|verb| !verb.is_hide_set()) {
        let help = verb.render_help().to_string();
        assert!(help.contains("Examples:\n  te "), "{}: {help}", verb.get_name());
        let long = help.lines().filter(|line| line.chars().count() > 96).collect::<Vec<_>>();
        assert!(long.is_empty(), "{}: {long:?}", verb.get_name());
    }
    let help = Cli::command().render_long_help().to_string();
    for code in
        ["  0  ", "  1  ", "  2  ", "  3  ", "  4  ", "  5  ", "  6  ", "  7  ", "  8  ", "  141"]
    {
        assert!(help.lines().any(|line| line.starts_with(code)), "{code}");
    }
}
