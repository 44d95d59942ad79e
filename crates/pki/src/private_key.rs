//! A private key as PKCS#8, wiped from memory when dropped. Pure. The copies that ring makes while signing live for that moment only,
//! but cannot be wiped from here.

use crate::issue_error::IssueError;
use crate::pem;
use rcgen::{KeyPair, PublicKeyData};
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, pem::PemObject};
use std::fmt;
use zeroize::{Zeroize, Zeroizing};

const RSA: [u8; 13] = [0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00];
const P256: [u8; 19] =
    [0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
const P384: [u8; 16] = [0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x22];

#[derive(Clone)]
pub struct PrivateKey(Zeroizing<Vec<u8>>);

impl PrivateKey {
    /// From the PEM text of a PKCS#8, PKCS#1 or SEC1 key.
    pub fn from_pem(text: &[u8]) -> Result<Self, IssueError> {
        let mut found = PrivateKeyDer::from_pem_slice(text).map_err(|_| IssueError::ReadKey(no_key(text)))?;
        let key = Self::first_that_signs(&candidates(&found));
        found.zeroize();
        key.ok_or(IssueError::ReadKey(
            "its kind is not supported: use ECDSA P-256, P-384, Ed25519, or RSA of 2048 to 4096 bits",
        ))
    }

    pub(crate) fn from_pair(mut pair: KeyPair) -> Self {
        let key = Self(Zeroizing::new(pair.serialized_der().to_vec()));
        pair.zeroize();
        key
    }

    fn first_that_signs(candidates: &[Zeroizing<Vec<u8>>]) -> Option<Self> {
        candidates.iter().map(|der| Self(der.clone())).find(|key| key.with_pair(|_| Ok(())).is_ok())
    }

    /// The PEM text of the key, as PKCS#8.
    pub fn to_pem(&self) -> Result<Zeroizing<String>, IssueError> {
        Ok(pem::text("PRIVATE KEY", &self.0)?)
    }

    /// Lends the key for signing.
    pub(crate) fn with_pair<T>(&self, sign: impl FnOnce(&KeyPair) -> Result<T, IssueError>) -> Result<T, IssueError> {
        let mut pair = KeyPair::try_from(&PrivatePkcs8KeyDer::from(self.0.as_slice()))?;
        let outcome = sign(&pair);
        pair.zeroize();
        outcome
    }

    /// The public half, as in a certificate's SubjectPublicKeyInfo.
    pub(crate) fn public_der(&self) -> Result<Vec<u8>, IssueError> {
        self.with_pair(|pair| Ok(pair.subject_public_key_info()))
    }
}

fn no_key(text: &[u8]) -> &'static str {
    let encrypted = text.windows(9).any(|window| window == b"ENCRYPTED");
    if encrypted { "it is encrypted: store it without a passphrase" } else { "there is no PEM private key in it" }
}

/// ring reads PKCS#8 only; the older forms are put into its envelope.
fn candidates(key: &PrivateKeyDer<'_>) -> Vec<Zeroizing<Vec<u8>>> {
    match key {
        PrivateKeyDer::Pkcs8(der) => vec![Zeroizing::new(der.secret_pkcs8_der().to_vec())],
        PrivateKeyDer::Pkcs1(der) => vec![enveloped(&RSA, der.secret_pkcs1_der())],
        PrivateKeyDer::Sec1(der) => {
            [&P256[..], &P384[..]].map(|algorithm| enveloped(algorithm, der.secret_sec1_der())).into()
        }
        _ => Vec::new(),
    }
}

fn enveloped(algorithm: &[u8], key: &[u8]) -> Zeroizing<Vec<u8>> {
    let version = [0x02, 0x01, 0x00];
    let algorithm = element(0x30, &[algorithm]);
    element(0x30, &[&version, &algorithm, &element(0x04, &[key])])
}

/// A DER element. Lengths up to 65535 are enough for any key.
fn element(tag: u8, parts: &[&[u8]]) -> Zeroizing<Vec<u8>> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut der = Zeroizing::new(Vec::with_capacity(length + 4));
    der.push(tag);
    let [.., high, low] = length.to_be_bytes();
    match length {
        0..=0x7f => der.push(low),
        0x80..=0xff => der.extend([0x81, low]),
        _ => der.extend([0x82, high, low]),
    }
    parts.iter().for_each(|part| der.extend_from_slice(part));
    der
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey(…)")
    }
}
