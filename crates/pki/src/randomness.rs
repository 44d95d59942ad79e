//! Where keys and serial numbers come from: passed in, so that issuing has no hidden source.

use crate::issue_error::IssueError;
use crate::private_key::PrivateKey;
use rcgen::KeyPair;
use ring::rand::{SecureRandom, SystemRandom};

pub trait Randomness {
    /// A new key.
    fn key(&self) -> Result<PrivateKey, IssueError>;
    /// Bytes nobody can guess.
    fn serial(&self) -> Result<[u8; 16], IssueError>;
}

/// The operating system's generator; keys are ECDSA P-256.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemRandomness;

impl Randomness for SystemRandomness {
    fn key(&self) -> Result<PrivateKey, IssueError> {
        Ok(PrivateKey::from_pair(KeyPair::generate()?))
    }

    fn serial(&self) -> Result<[u8; 16], IssueError> {
        let mut bytes = [0; 16];
        SystemRandom::new().fill(&mut bytes).map_err(|_| IssueError::Randomness)?;
        Ok(bytes)
    }
}
