use proptest::prelude::*;

use super::*;

/// The frames of a stream that comes in these cuts.
fn frames(bytes: &[u8], cuts: &[usize]) -> Result<Vec<SseEvent>, ChatError> {
    let mut parser = SseParser::new(1000);
    let mut events = vec![];
    let mut from = 0;
    for to in cuts.iter().copied().chain([bytes.len()]) {
        parser.push(&bytes[from..to]);
        from = to;
        while let Some(event) = parser.next_event()? {
            events.push(event);
        }
    }
    events.extend(parser.finish());
    Ok(events)
}

fn said(events: &[SseEvent]) -> Vec<(String, Option<String>)> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    events.iter().map(|event| (text(event.event()), event.data().map(text))).collect()
}

const MIXED: &[u8] =
    b"\xef\xbb\xbfevent: a\r\ndata: 1\r\n\r\n: note\n\ndata:2\ndata\ndata:  3\n\nid: 7\revent: b\rdata: 4\r\rdata: last";

#[test]
fn reads_every_line_ending_comments_a_mark_and_a_last_frame_without_its_end() {
    let expected = [("a", Some("1")), ("", None), ("", Some("2\n\n 3")), ("b", Some("4")), ("", Some("last"))];
    let events = frames(MIXED, &[]).unwrap();
    assert_eq!(said(&events), expected.map(|(event, data)| (event.into(), data.map(Into::into))));
    let raw: Vec<u8> = events.iter().flat_map(|event| event.raw().to_vec()).collect();
    assert_eq!(raw, [MIXED, b"\n\n"].concat());
}

#[test]
fn a_stream_cut_at_any_byte_gives_the_same_frames() {
    let whole = frames(MIXED, &[]).unwrap();
    for cut in 0..=MIXED.len() {
        assert_eq!(frames(MIXED, &[cut]).unwrap(), whole, "cut at {cut}");
    }
    assert_eq!(frames(MIXED, &(0..MIXED.len()).collect::<Vec<_>>()).unwrap(), whole);
}

#[test]
fn refuses_a_frame_over_the_limit_whether_it_ends_or_not() {
    let long = [b"data: ".to_vec(), vec![b'x'; 1000]].concat();
    assert_eq!(frames(&long, &[]), Err(ChatError::FrameTooLong(1000)));
    assert_eq!(frames(&[long, b"\n\n".to_vec()].concat(), &[500]), Err(ChatError::FrameTooLong(1000)));
}

proptest! {
    #[test]
    fn any_bytes_in_any_cuts_give_the_same_frames_and_lose_nothing(
        bytes in proptest::collection::vec(prop_oneof![
            Just(b'\n'), Just(b'\r'), Just(b':'), Just(b' '), Just(b'd'), any::<u8>(),
        ], 0..200),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.sort_unstable();
        let whole = frames(&bytes, &[]).unwrap();
        prop_assert_eq!(&frames(&bytes, &cuts).unwrap(), &whole);
        let raw: Vec<u8> = whole.iter().flat_map(|event| event.raw().to_vec()).collect();
        prop_assert!(raw.starts_with(&bytes));
        prop_assert!(raw[bytes.len()..].iter().all(|byte| *byte == b'\n'));
    }
}
