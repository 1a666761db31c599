//! Records as stored: JSON, packed, with a checksum.
//!
//! A record repeats its keys and much of what the record before it said, so it is compressed with zstd against a
//! dictionary of typical records, `dictionary.jsonl`. A packed record starts with the number of its codec, so that one of
//! any age can be read: a codec and its dictionary stay as they are for ever, and what packs better is another codec.
//!
//! What can go wrong: a disk that gives back other bytes than were written. The checksum finds that out, and no more than
//! the one record is lost.

use std::{cell::RefCell, io, sync::LazyLock};

use zstd::{
    bulk::{Compressor, Decompressor},
    dict::{DecoderDictionary, EncoderDictionary},
};

/// The only codec so far: four bytes of length, then a zstd frame made with the dictionary.
const CODEC: u8 = 1;
const DICTIONARY: &[u8] = include_bytes!("dictionary.jsonl");
/// Twice as dear as the fastest level and a tenth smaller; the next ones gain nothing on records of this size.
const LEVEL: i32 = 3;
/// No record is longer, in bytes: the largest request is far below it.
const LENGTH_MAX: usize = 256 << 20;

static TO_PACK: LazyLock<EncoderDictionary<'static>> = LazyLock::new(|| EncoderDictionary::copy(DICTIONARY, LEVEL));
static TO_UNPACK: LazyLock<DecoderDictionary<'static>> = LazyLock::new(|| DecoderDictionary::copy(DICTIONARY));

thread_local! {
    // Each holds some hundred kilobytes that every record would have to ask for anew.
    static PACKER: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
    static UNPACKER: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

/// Packs a record's JSON.
pub(super) fn pack(json: &[u8]) -> io::Result<Vec<u8>> {
    let frame = PACKER.with_borrow_mut(|packer| {
        let packer = match packer {
            Some(packer) => packer,
            None => packer.insert(Compressor::with_prepared_dictionary(&TO_PACK)?),
        };
        packer.compress(json)
    })?;
    let length = u32::try_from(json.len()).map_err(|_| io::Error::other("a record is longer than 4 GiB"))?;
    Ok([&[CODEC], &length.to_le_bytes()[..], &frame].concat())
}

/// The JSON of a packed record.
pub(super) fn unpack(packed: &[u8]) -> io::Result<Vec<u8>> {
    let bad = |reason: &str| io::Error::other(reason.to_owned());
    let (codec, rest) = packed.split_first().ok_or_else(|| bad("it is empty"))?;
    if *codec != CODEC {
        return Err(io::Error::other(format!("codec {codec} is not known here; upgrade pointsman")));
    }
    let (length, frame) = rest.split_first_chunk().ok_or_else(|| bad("it is cut off"))?;
    let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
    if length > LENGTH_MAX {
        return Err(bad("its length is not one that a record has"));
    }
    let json = UNPACKER.with_borrow_mut(|unpacker| {
        let unpacker = match unpacker {
            Some(unpacker) => unpacker,
            None => unpacker.insert(Decompressor::with_prepared_dictionary(&TO_UNPACK)?),
        };
        unpacker.decompress(frame, length)
    })?;
    if json.len() == length { Ok(json) } else { Err(bad("it is shorter than it says")) }
}

/// The checksum of a stored record: the first eight bytes of the BLAKE3 hash of its parts, each with its length.
pub(super) fn checksum(parts: &[&[u8]]) -> i64 {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    let mut sum = [0; 8];
    sum.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    i64::from_le_bytes(sum)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_typical_record_packs_to_less_than_half() {
        for line in include_str!("format1.jsonl").lines() {
            let packed = pack(line.as_bytes()).unwrap();
            assert!(packed.len() * 2 < line.len(), "{} of {}: {line:.60}", packed.len(), line.len());
            assert_eq!(unpack(&packed).unwrap(), line.as_bytes());
        }
    }

    /// Records packed by the first version that did so: they stay readable for ever.
    #[test]
    fn the_first_codec_stays_readable() {
        let digest = blake3::hash(DICTIONARY).to_hex();
        assert_eq!(&digest[..16], "d33c6984a9c23a62", "the dictionary of codec 1 must not change: add a codec");
    }

    proptest! {
        #[test]
        fn what_was_packed_comes_back(json in prop::collection::vec(any::<u8>(), 0..3_000)) {
            prop_assert_eq!(unpack(&pack(&json).unwrap()).unwrap(), json);
        }

        #[test]
        fn garbage_is_an_error_and_no_more(garbage in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = unpack(&garbage);
            let _ = unpack(&[&[CODEC, 200, 0, 0, 0][..], &garbage].concat());
        }
    }
}
