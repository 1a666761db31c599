//! Numbers in a safetensors file with a text in its header.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
};

use safetensors::{Dtype, SafeTensors, View, serialize};

/// Matrices by name.
pub type Numbers = BTreeMap<String, (Vec<usize>, Vec<f32>)>;

struct Floats<'a> {
    shape: &'a [usize],
    numbers: &'a [f32],
}

impl View for Floats<'_> {
    fn dtype(&self) -> Dtype {
        Dtype::F32
    }

    fn shape(&self) -> &[usize] {
        self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        self.numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<_>>().into()
    }

    fn data_len(&self) -> usize {
        4 * self.numbers.len()
    }
}

/// The bytes of a file.
pub fn pack(key: &str, text: &str, numbers: &Numbers) -> Result<Vec<u8>, String> {
    let tensors = numbers.iter().map(|(name, (shape, numbers))| (name.as_str(), Floats { shape, numbers }));
    serialize(tensors, Some(HashMap::from([(key.to_owned(), text.to_owned())]))).map_err(|error| error.to_string())
}

/// The text of a file's header, and its numbers, all of them finite.
pub fn unpack(key: &str, bytes: &[u8]) -> Result<(String, Numbers), String> {
    let (_, header) = SafeTensors::read_metadata(bytes).map_err(|error| error.to_string())?;
    let text = header.metadata().as_ref().and_then(|metadata| metadata.get(key)).cloned();
    let text = text.ok_or_else(|| format!("its header has no {key}"))?;
    let tensors = SafeTensors::deserialize(bytes).map_err(|error| error.to_string())?;
    let mut numbers = Numbers::new();
    for (name, tensor) in tensors.iter() {
        if tensor.dtype() != Dtype::F32 {
            return Err(format!("{name} is not of 32-bit numbers"));
        }
        let four = |bytes: &[u8]| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let read: Vec<f32> = tensor.data().chunks_exact(4).map(four).collect();
        if read.iter().any(|number| !number.is_finite()) {
            return Err(format!("{name} has a number that is not finite"));
        }
        numbers.insert(name.to_owned(), (tensor.shape().to_vec(), read));
    }
    Ok((text, numbers))
}
