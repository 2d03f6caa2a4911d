//! The handshake, message by message, and under bytes that nobody should send.

use proptest::prelude::*;

use super::*;
use crate::nbd::wire::{OPTION_REPLY_HEADER_BYTES, OptionReply};

fn export(name: &str) -> ExportInfo {
    ExportInfo { description: format!("the volume {name}"), size_bytes: 1 << 30, ..ExportInfo::sample(name) }
}

fn exports(names: &[&str]) -> ExportList {
    let mut exports = ExportList::default();
    for name in names {
        assert!(exports.insert(export(name)));
    }
    exports
}

/// A client's side of the handshake, with what the server answered.
struct Talk {
    negotiation: Negotiation,
    exports: ExportList,
}

/// One answer: its type and its data.
type Answer = (u32, Vec<u8>);

impl Talk {
    fn new(tls: TlsState, names: &[&str]) -> Self {
        let mut talk = Self { negotiation: Negotiation::new(tls), exports: exports(names) };
        let (consumed, next) = talk.negotiation.advance(&3_u32.to_be_bytes(), &talk.exports, &mut Vec::new());
        assert_eq!((consumed, next), (4, Next::Continue));
        talk
    }

    fn raw(&mut self, option: u32, data: &[u8]) -> (Vec<u8>, Next) {
        let length = u32::try_from(data.len()).expect("a test sends less than 4 GiB");
        let message = [&OptionHeader { option, length }.encode()[..], data].concat();
        let mut out = Vec::new();
        let (consumed, next) = self.negotiation.advance(&message, &self.exports, &mut out);
        assert_eq!(consumed, message.len());
        (out, next)
    }

    fn ask(&mut self, option: u32, data: &[u8]) -> (Vec<Answer>, Next) {
        let (out, next) = self.raw(option, data);
        (answers(option, &out), next)
    }
}

fn answers(option: u32, mut out: &[u8]) -> Vec<Answer> {
    let mut answers = Vec::new();
    while let Some((head, rest)) = out.split_first_chunk::<OPTION_REPLY_HEADER_BYTES>() {
        let head = OptionReply::decode(head).expect("a valid answer");
        assert_eq!(head.option, option);
        let (data, rest) = rest.split_at(usize::try_from(head.length).expect("a test sends less than 4 GiB"));
        answers.push((head.kind, data.to_vec()));
        out = rest;
    }
    assert!(out.is_empty());
    answers
}

fn kinds(answers: &[Answer]) -> Vec<u32> {
    answers.iter().map(|(kind, _)| *kind).collect()
}

fn go_data(name: &str, wanted: &[u16]) -> Vec<u8> {
    let mut data = Vec::new();
    push_string(&mut data, name);
    data.extend_from_slice(
        &u16::try_from(wanted.len()).expect("a test asks for less than 65,536 things").to_be_bytes(),
    );
    wanted.iter().for_each(|wanted| data.extend_from_slice(&wanted.to_be_bytes()));
    data
}

fn context_data(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut data = Vec::new();
    push_string(&mut data, name);
    data.extend_from_slice(
        &u32::try_from(queries.len()).expect("a test asks for less than 65,536 things").to_be_bytes(),
    );
    queries.iter().for_each(|query| push_string(&mut data, query));
    data
}

#[test]
fn list_names_every_export_with_its_description() {
    let (answers, next) = Talk::new(TlsState::Off, &["b", "a"]).ask(option::LIST, &[]);
    assert_eq!(kinds(&answers), [reply::SERVER, reply::SERVER, reply::ACK]);
    assert_eq!(answers[0].1, b"\0\0\0\x01athe volume a");
    assert_eq!(next, Next::Continue);
}

#[test]
fn go_tells_size_flags_and_block_sizes_and_starts_serving() {
    let (answers, next) =
        Talk::new(TlsState::Off, &["v"]).ask(option::GO, &go_data("v", &[info::NAME, info::DESCRIPTION, 99]));
    assert_eq!(kinds(&answers), [reply::INFO, reply::INFO, reply::INFO, reply::INFO, reply::ACK]);
    assert_eq!(answers[0].1, b"\0\0\0\0\0\0\x40\0\0\0\x0d\x6d");
    assert_eq!(answers[1].1, b"\0\x03\0\0\x02\0\0\0\x10\0\x02\0\0\0");
    assert_eq!(answers[2].1, b"\0\x01v");
    assert_eq!(answers[3].1, b"\0\x02the volume v");
    let plain =
        Agreement { export: "v".to_owned(), structured_replies: false, block_status: false, block_sizes: false };
    assert_eq!(next, Next::Serve(plain));
}

#[test]
fn clients_are_told_what_an_export_does_not_take() {
    let flags = |read_only, trims| abilities(&ExportInfo { read_only, trims, ..export("v") });
    assert_eq!(flags(true, true) & !flags(false, true), transmission_flag::READ_ONLY);
    assert_eq!(flags(false, true) & !flags(false, false), transmission_flag::SEND_TRIM);
}

// proves: H1
#[test]
fn only_who_asked_for_block_sizes_when_it_chose_its_export_keeps_to_them() {
    let chosen = |option: u32, data: &[u8]| {
        let Next::Serve(agreement) = Talk::new(TlsState::Off, &["v"]).raw(option, data).1 else { panic!("not served") };
        agreement.block_sizes
    };
    assert!(chosen(option::GO, &go_data("v", &[info::NAME, info::BLOCK_SIZE])));
    assert!(!chosen(option::GO, &go_data("v", &[info::NAME])));
    assert!(!chosen(option::EXPORT_NAME, b"v"));
    let mut talk = Talk::new(TlsState::Off, &["v"]);
    talk.ask(option::INFO, &go_data("v", &[info::BLOCK_SIZE]));
    let (_, next) = talk.ask(option::GO, &go_data("v", &[]));
    assert!(matches!(next, Next::Serve(Agreement { block_sizes: false, .. })), "it asked, and did not choose by that");
}

#[test]
fn info_tells_the_same_and_goes_on() {
    let (answers, next) = Talk::new(TlsState::Off, &["v"]).ask(option::INFO, &go_data("v", &[]));
    assert_eq!(kinds(&answers), [reply::INFO, reply::INFO, reply::ACK]);
    assert_eq!(next, Next::Continue);
}

#[test]
fn an_unknown_export_is_refused_with_a_text_that_names_it() {
    let mut talk = Talk::new(TlsState::Off, &["v"]);
    let (answers, next) = talk.ask(option::GO, &go_data("w", &[]));
    assert_eq!(kinds(&answers), [reply::ERR_UNKNOWN]);
    assert!(String::from_utf8_lossy(&answers[0].1).contains("\"w\""));
    assert_eq!(next, Next::Continue);
    assert_eq!(talk.raw(option::EXPORT_NAME, b"w"), (Vec::new(), Next::Close));
}

#[test]
fn the_empty_name_is_the_only_export_and_nothing_if_there_are_several() {
    let (_, next) = Talk::new(TlsState::Off, &["v"]).ask(option::GO, &go_data("", &[]));
    assert!(matches!(next, Next::Serve(agreement) if agreement.export == "v"));
    let (answers, _) = Talk::new(TlsState::Off, &["v", "w"]).ask(option::GO, &go_data("", &[]));
    assert_eq!(kinds(&answers), [reply::ERR_UNKNOWN]);
}

#[test]
fn export_name_is_answered_with_zeroes_only_to_clients_that_want_them() {
    let (out, _) = Talk::new(TlsState::Off, &["v"]).raw(option::EXPORT_NAME, b"v");
    assert_eq!(out.len(), 10);
    let mut talk = Talk::new(TlsState::Off, &["v"]);
    talk.negotiation.no_zeroes = false;
    assert_eq!(talk.raw(option::EXPORT_NAME, b"v").0.len(), 10 + EXPORT_NAME_ZEROES);
}

#[test]
fn block_status_needs_structured_replies_and_the_same_export() {
    let selected = context_data("v", &["x-other:thing", BASE_ALLOCATION]);
    let mut talk = Talk::new(TlsState::Off, &["v", "w"]);
    assert_eq!(kinds(&talk.ask(option::SET_META_CONTEXT, &selected).0), [reply::ERR_INVALID]);
    assert_eq!(kinds(&talk.ask(option::STRUCTURED_REPLY, &[]).0), [reply::ACK]);
    let (answers, _) = talk.ask(option::SET_META_CONTEXT, &selected);
    assert_eq!(kinds(&answers), [reply::META_CONTEXT, reply::ACK]);
    assert_eq!(answers[0].1, b"\0\0\0\x01base:allocation");
    let (_, other) = talk.ask(option::GO, &go_data("w", &[]));
    assert!(matches!(other, Next::Serve(Agreement { block_status: false, structured_replies: true, .. })));
    let (answers, same) = talk.ask(option::GO, &go_data("v", &[]));
    assert!(matches!(same, Next::Serve(Agreement { block_status: true, .. })));
    assert_eq!(answers[0].1[10..], (0x0d6d | transmission_flag::SEND_DF).to_be_bytes());
}

#[test]
fn listing_contexts_answers_the_namespace_and_selecting_does_not() {
    let mut talk = Talk::new(TlsState::Off, &["v"]);
    talk.ask(option::STRUCTURED_REPLY, &[]);
    for queries in [&[][..], &["base:"], &[BASE_ALLOCATION]] {
        let (answers, _) = talk.ask(option::LIST_META_CONTEXT, &context_data("v", queries));
        assert_eq!(kinds(&answers), [reply::META_CONTEXT, reply::ACK], "{queries:?}");
    }
    for queries in [&[][..], &["base:"], &["base:other"], &["qemu:dirty-bitmap:x"]] {
        let (answers, _) = talk.ask(option::SET_META_CONTEXT, &context_data("v", queries));
        assert_eq!(kinds(&answers), [reply::ACK], "{queries:?}");
    }
    let (_, next) = talk.ask(option::GO, &go_data("v", &[]));
    assert!(matches!(next, Next::Serve(Agreement { block_status: false, .. })));
}

#[test]
fn required_tls_comes_before_everything_and_resets_what_was_agreed() {
    let mut talk = Talk::new(TlsState::Required, &["v"]);
    for asked in [option::LIST, option::GO, option::INFO, option::STRUCTURED_REPLY, option::SET_META_CONTEXT, 77] {
        assert_eq!(kinds(&talk.ask(asked, &[]).0), [reply::ERR_TLS_REQD]);
    }
    assert_eq!(talk.raw(option::EXPORT_NAME, b"v"), (Vec::new(), Next::Close));
    let (answers, next) = talk.ask(option::STARTTLS, &[]);
    assert_eq!((kinds(&answers), next), (vec![reply::ACK], Next::StartTls));
    talk.negotiation.tls_established();
    assert_eq!(kinds(&talk.ask(option::STARTTLS, &[]).0), [reply::ERR_INVALID]);
    let (_, next) = talk.ask(option::GO, &go_data("v", &[]));
    assert!(matches!(next, Next::Serve(Agreement { structured_replies: false, .. })));
}

#[test]
fn bytes_sent_along_with_starttls_end_the_connection() {
    let mut talk = Talk::new(TlsState::Required, &["v"]);
    let start = OptionHeader { option: option::STARTTLS, length: 0 }.encode();
    let list = OptionHeader { option: option::LIST, length: 0 }.encode();
    let smuggled = [start, list].concat();
    let (_, next) = talk.negotiation.advance(&smuggled, &talk.exports, &mut Vec::new());
    assert_eq!(next, Next::Close);
}

#[test]
fn starttls_without_tls_is_refused_and_abort_is_acknowledged() {
    let mut talk = Talk::new(TlsState::Off, &["v"]);
    assert_eq!(kinds(&talk.ask(option::STARTTLS, &[]).0), [reply::ERR_POLICY]);
    let (answers, next) = talk.ask(option::ABORT, &[]);
    assert_eq!((kinds(&answers), next), (vec![reply::ACK], Next::Close));
}

#[test]
fn unknown_options_are_refused_and_the_talk_goes_on() {
    // 11 is EXTENDED_HEADERS, which this server does not offer.
    for unknown in [0, 4, 11, 12, u32::MAX] {
        let (answers, next) = Talk::new(TlsState::Off, &["v"]).ask(unknown, b"data");
        assert_eq!((kinds(&answers), next), (vec![reply::ERR_UNSUP], Next::Continue));
    }
}

#[test]
fn an_option_too_long_is_refused_before_its_data_arrive() {
    let mut talk = Talk::new(TlsState::Off, &["v"]);
    let mut out = Vec::new();
    let header = OptionHeader { option: option::LIST, length: u32::MAX }.encode();
    let (_, next) = talk.negotiation.advance(&header, &talk.exports, &mut out);
    assert_eq!((kinds(&answers(option::LIST, &out)), next), (vec![reply::ERR_TOO_BIG], Next::Close));
}

#[test]
fn malformed_data_are_refused_and_the_talk_goes_on() {
    let mut talk = Talk::new(TlsState::Off, &["v"]);
    talk.ask(option::STRUCTURED_REPLY, &[]);
    let trailing = [&go_data("v", &[])[..], b"x"].concat();
    let huge_count = [&b"\0\0\0\x01v"[..], &u32::MAX.to_be_bytes()].concat();
    let cases: [(u32, &[u8]); 8] = [
        (option::GO, b""),
        (option::GO, b"\xff\xff\xff\xff"),
        (option::GO, b"\0\0\0\x02\xff\xfe\0\0"),
        (option::INFO, &trailing),
        (option::LIST, b"x"),
        (option::STRUCTURED_REPLY, b"x"),
        (option::SET_META_CONTEXT, &huge_count),
        (option::LIST_META_CONTEXT, b"\0\0"),
    ];
    for (asked, data) in cases {
        let (answers, next) = talk.ask(asked, data);
        assert_eq!((kinds(&answers), next), (vec![reply::ERR_INVALID], Next::Continue), "{asked} {data:?}");
    }
}

#[test]
fn unknown_client_flags_and_a_wrong_magic_end_the_connection() {
    let mut flags = Negotiation::new(TlsState::Off);
    let (_, next) = flags.advance(&4_u32.to_be_bytes(), &exports(&[]), &mut Vec::new());
    assert_eq!(next, Next::Close);
    let mut talk = Talk::new(TlsState::Off, &["v"]);
    let (_, next) = talk.negotiation.advance(&[0; OPTION_HEADER_BYTES], &talk.exports, &mut Vec::new());
    assert_eq!(next, Next::Close);
}

#[test]
fn a_client_without_fixed_newstyle_may_only_name_its_export() {
    let mut talk = Talk::new(TlsState::Off, &["v"]);
    talk.negotiation.fixed = false;
    assert_eq!(talk.raw(option::LIST, &[]), (Vec::new(), Next::Close));
    assert!(matches!(talk.raw(option::EXPORT_NAME, b"v").1, Next::Serve(_)));
}

#[test]
fn a_handshake_that_never_ends_is_ended() {
    let mut talk = Talk::new(TlsState::Off, &["v"]);
    for _ in 0..OPTIONS_MAX {
        assert_eq!(talk.ask(option::LIST, &[]).1, Next::Continue);
    }
    assert_eq!(talk.raw(option::LIST, &[]), (Vec::new(), Next::Close));
}

proptest! {
    #[test]
    fn no_bytes_make_the_handshake_panic_or_stand_still(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        super::super::fuzz::negotiation(&bytes);
    }

    #[test]
    fn no_options_make_the_handshake_panic_or_stand_still(
        tls: bool,
        options in prop::collection::vec((0_u32..14, prop::collection::vec(0_u8..3, 0..40)), 0..20),
        end in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        let mut bytes = vec![u8::from(tls), 0, 0, 0, 3];
        for (option, data) in options {
            let length = u32::try_from(data.len()).expect("a test sends less than 4 GiB");
            bytes.extend_from_slice(&OptionHeader { option, length }.encode());
            bytes.extend_from_slice(&data);
        }
        bytes.extend_from_slice(&end);
        super::super::fuzz::negotiation(&bytes);
    }

    #[test]
    fn a_message_is_handled_only_when_all_of_it_is_there(name in "[a-z]{1,8}", cut in 0_usize..30) {
        let data = go_data(&name, &[info::NAME]);
        let length = u32::try_from(data.len()).expect("a test sends less than 4 GiB");
        let message = [&OptionHeader { option: option::GO, length }.encode()[..], &data].concat();
        let cut = cut.min(message.len() - 1);
        let mut talk = Talk::new(TlsState::Off, &[&name]);
        let mut out = Vec::new();
        let (consumed, next) = talk.negotiation.advance(&message[..cut], &talk.exports, &mut out);
        prop_assert_eq!((consumed, next, out.len()), (0, Next::Receive, 0));
    }
}

#[test]
fn who_asks_for_an_export_that_is_being_opened_is_answered_when_it_is_there_or_will_not_come() {
    for comes in [true, false] {
        for asked in [option::GO, option::INFO] {
            let mut talk = Talk::new(TlsState::Off, &["other"]);
            talk.exports.expect("disk".to_owned());
            let data = go_data("disk", &[]);
            let message = [
                &OptionHeader {
                    option: asked,
                    length: u32::try_from(data.len()).expect("a test sends less than 4 GiB"),
                }
                .encode()[..],
                &data,
            ];
            let (mut out, message) = (Vec::new(), message.concat());
            for _ in 0..3 {
                let waits = talk.negotiation.advance(&message, &talk.exports, &mut out);
                assert_eq!((waits, out.len()), ((0, Next::Await), 0));
            }
            if comes {
                talk.exports.insert(export("disk"));
            }
            talk.exports.expect_no_more("disk");
            let (kinds, next) = {
                let (answers, next) = talk.ask(asked, &data);
                (kinds(&answers), next)
            };
            assert_eq!(kinds.contains(&reply::ERR_UNKNOWN), !comes, "{kinds:?}");
            assert_eq!(matches!(next, Next::Serve(_)), comes && asked == option::GO);
        }
    }
}

#[test]
fn the_default_export_is_not_chosen_before_all_are_there() {
    let mut talk = Talk::new(TlsState::Off, &["only"]);
    assert!(talk.exports.find("").is_some());
    talk.exports.expect("second".to_owned());
    assert!(talk.exports.find("").is_none() && talk.exports.expects(""));
    talk.exports.insert(export("second"));
    assert!(talk.exports.find("").is_none() && !talk.exports.expects(""));
}
