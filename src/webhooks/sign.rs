//! Signatures of the Standard Webhooks specification (<https://www.standardwebhooks.com>), symmetric ones: the receiver shares
//! a secret with us, and `HMAC-SHA256(secret, "{id}.{timestamp}.{body}")` tells it that a message is ours, whole and fresh.

use std::fmt;

use base64::{
    Engine,
    alphabet::STANDARD as ALPHABET,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig, general_purpose::STANDARD},
};
use hmac::{Hmac, Mac};
use sha2::Sha256;

/// How a secret starts.
const PREFIX: &str = "whsec_";
/// The fewest and the most bytes of a secret, as the specification has them.
const BYTES_MIN: usize = 24;
const BYTES_MAX: usize = 64;
/// The most secrets at one time: an old one and a new one, and some to spare.
const SECRETS_MAX: usize = 4;

/// Secrets are written with and without the `=` at their end.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &ALPHABET,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The secrets that a webhook signs with: one, or several while they are changed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secrets(Vec<Vec<u8>>);

/// What is wrong with secrets. It does not show them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SecretProblem {
    /// There is none.
    #[error("holds no secret; make one with `echo whsec_$(openssl rand -base64 32)`")]
    None,
    /// There are more than can be in use.
    #[error("holds more than {SECRETS_MAX} secrets; the old one and the new one are enough")]
    Many,
    /// It is not marked as a secret.
    #[error("must start with whsec_, and several secrets must be separated by spaces")]
    Prefix,
    /// It is no base64.
    #[error("must be base64 after whsec_; make one with `echo whsec_$(openssl rand -base64 32)`")]
    Base64,
    /// It can be guessed, or is no secret at all.
    #[error("must be {BYTES_MIN} to {BYTES_MAX} bytes in base64 and has {0}; 32 random bytes are right")]
    Length(usize),
}

impl Secrets {
    /// Reads `whsec_BASE64`, or several with spaces between them.
    pub fn parse(text: &str) -> Result<Self, SecretProblem> {
        let secrets = text.split_whitespace().map(secret).collect::<Result<Vec<_>, _>>()?;
        match secrets.len() {
            0 => Err(SecretProblem::None),
            1..=SECRETS_MAX => Ok(Self(secrets)),
            _ => Err(SecretProblem::Many),
        }
    }

    /// The header `webhook-signature`: `v1,BASE64` by each secret, in their order. `timestamp_s` is in seconds since 1970.
    ///
    /// ```
    /// use pointsman::webhooks::Secrets;
    /// let secrets = Secrets::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")?;
    /// let signature = secrets.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, br#"{"test": 2432232314}"#);
    /// assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    /// # Ok::<_, pointsman::webhooks::SecretProblem>(())
    /// ```
    pub fn sign(&self, id: &str, timestamp_s: u64, body: &[u8]) -> String {
        let signed = self.0.iter().filter_map(|secret| {
            // A key of any length is taken.
            let mut mac = Hmac::<Sha256>::new_from_slice(secret).ok()?;
            mac.update(format!("{id}.{timestamp_s}.").as_bytes());
            mac.update(body);
            Some(format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes())))
        });
        signed.collect::<Vec<_>>().join(" ")
    }
}

fn secret(text: &str) -> Result<Vec<u8>, SecretProblem> {
    let encoded = text.strip_prefix(PREFIX).ok_or(SecretProblem::Prefix)?;
    let bytes = LENIENT.decode(encoded).map_err(|_| SecretProblem::Base64)?;
    if (BYTES_MIN..=BYTES_MAX).contains(&bytes.len()) { Ok(bytes) } else { Err(SecretProblem::Length(bytes.len())) }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({})", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const ID: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";
    const BODY: &[u8] = br#"{"test": 2432232314}"#;
    const SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

    #[test]
    fn a_signature_is_the_one_of_the_specification_and_depends_on_all_that_is_signed() {
        let secrets = Secrets::parse(SECRET).unwrap();
        assert_eq!(secrets.sign(ID, 1_614_265_330, BODY), SIGNATURE);
        assert_ne!(secrets.sign(ID, 1_614_265_331, BODY), SIGNATURE);
        assert_ne!(secrets.sign("msg_other", 1_614_265_330, BODY), SIGNATURE);
        assert_ne!(secrets.sign(ID, 1_614_265_330, b"{}"), SIGNATURE);
    }

    #[test]
    fn several_secrets_give_several_signatures() {
        let other = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
        let both = Secrets::parse(&format!("{other} {SECRET}")).unwrap().sign(ID, 1_614_265_330, BODY);
        let alone = Secrets::parse(other).unwrap().sign(ID, 1_614_265_330, BODY);
        assert_eq!(both, format!("{alone} {SIGNATURE}"));
        assert_ne!(alone, SIGNATURE);
    }

    #[test]
    fn what_is_no_secret_is_refused_and_never_shown() {
        let refused = |text: &str| Secrets::parse(text).unwrap_err();
        assert_eq!(refused("  "), SecretProblem::None);
        assert_eq!(refused("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), SecretProblem::Prefix);
        assert_eq!(refused(&format!("{SECRET},{SECRET}")), SecretProblem::Base64);
        assert_eq!(refused("whsec_not/base64!"), SecretProblem::Base64);
        assert_eq!(refused("whsec_c2hvcnQ="), SecretProblem::Length(5));
        assert_eq!(refused(&[SECRET; 5].join(" ")), SecretProblem::Many);
        assert_eq!(format!("{:?}", Secrets::parse(SECRET).unwrap()), "Secrets(1)");
    }

    #[test]
    fn the_padding_of_a_secret_may_be_left_out() {
        let bare = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";
        assert_eq!(Secrets::parse(bare).unwrap(), Secrets::parse(&format!("{bare}=")).unwrap());
    }
}
