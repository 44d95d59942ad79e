//! PEM text out of DER. Pure; the text of keys is wiped when dropped. Reading is done by rustls-pki-types.

use pem_rfc7468::{Error, LineEnding, encode, encoded_len};
use rustls_pki_types::CertificateDer;
use zeroize::Zeroizing;

/// One buffer of the right size from the start: growing would leave copies of a key behind.
pub(crate) fn text(label: &str, der: &[u8]) -> Result<Zeroizing<String>, Error> {
    let mut buffer = Zeroizing::new(vec![0; encoded_len(label, LineEnding::LF, der)?]);
    let text = encode(label, LineEnding::LF, der, &mut buffer)?;
    Ok(Zeroizing::new(text.to_owned()))
}

/// Certificates one after the other, in the order given.
pub(crate) fn certificates<'a>(ders: impl IntoIterator<Item = &'a CertificateDer<'a>>) -> Result<String, Error> {
    let texts: Result<Vec<_>, _> = ders.into_iter().map(|der| text("CERTIFICATE", der)).collect();
    Ok(texts?.iter().map(|text| text.as_str()).collect())
}
