//! A test authority, and the files it gives a pod as the kubelet would mount them.

use crate::pod::Pod;
use jiff::Timestamp;
use link::Credentials;
use pki::{Authority, Issued, Scope, SystemRandomness, Thumbprint};
use std::{cell::Cell, fs, os::unix::fs::symlink, time::Duration};

pub const HOUR: Duration = Duration::from_secs(3600);
pub const SYSTEM: &str = "valkey-system";

pub struct Installation {
    root: Authority,
    swaps: Cell<u32>,
}

impl Installation {
    pub fn new() -> Self {
        // Older than any leaf a test wants: a leaf is never older than its root.
        let made = Timestamp::now() - jiff::SignedDuration::from_hours(10);
        let root = Authority::root(&SYSTEM.parse().unwrap(), 1000 * HOUR, made, &SystemRandomness);
        Self { root: root.unwrap(), swaps: Cell::new(0) }
    }

    pub fn root(&self) -> Thumbprint {
        self.root.bundle().unwrap().thumbprints().remove(0)
    }

    fn leaf(&self, scope: &Scope) -> Issued {
        self.leaf_of(scope, Timestamp::now())
    }

    fn leaf_of(&self, scope: &Scope, now: Timestamp) -> Issued {
        let intermediate = self.root.intermediate(scope, 100 * HOUR, now, &SystemRandomness).unwrap();
        intermediate.leaf(&scope.identity(), 6 * HOUR, now, &SystemRandomness).unwrap()
    }

    /// What an operator installed in this namespace shows.
    pub fn operator(&self, namespace: &str) -> Credentials {
        let leaf = self.leaf(&Scope::operator(namespace).unwrap());
        let bundle = self.root.bundle().unwrap();
        Credentials::with_bundle(leaf.chain_pem.as_bytes(), leaf.key_pem.as_bytes(), bundle).unwrap()
    }

    /// Gives the pod a token and its first certificate.
    pub fn provide(&self, pod: &Pod) -> String {
        fs::write(pod.folder.path().join("token"), "default/poc/poc-0\n").unwrap();
        self.rotate(pod)
    }

    /// Swaps a new leaf in as the kubelet does, and returns its thumbprint.
    pub fn rotate(&self, pod: &Pod) -> String {
        self.mount(pod, self.leaf(&Scope::cluster("default", "poc").unwrap()))
    }

    /// A leaf that should have been replaced long ago.
    pub fn age(&self, pod: &Pod) -> String {
        let issued = Timestamp::now() - jiff::SignedDuration::from_mins(350);
        self.mount(pod, self.leaf_of(&Scope::cluster("default", "poc").unwrap(), issued))
    }

    fn mount(&self, pod: &Pod, leaf: Issued) -> String {
        let roots = self.root.bundle().unwrap().to_pem().unwrap();
        self.swap(pod, &[("tls.crt", &leaf.chain_pem), ("tls.key", &leaf.key_pem), ("ca.crt", &roots)]);
        let shown = Credentials::from_pem(leaf.chain_pem.as_bytes(), leaf.key_pem.as_bytes(), roots.as_bytes());
        shown.unwrap().thumbprint().to_string()
    }

    pub fn swap(&self, pod: &Pod, files: &[(&str, &str)]) {
        self.swaps.set(self.swaps.get() + 1);
        let (mount, name) = (pod.folder.path().join("mtls"), format!("..revision-{}", self.swaps.get()));
        fs::create_dir_all(mount.join(&name)).unwrap();
        for (file, text) in files {
            fs::write(mount.join(&name).join(file), text).unwrap();
        }
        let before = fs::read_link(mount.join("..data"));
        symlink(&name, mount.join("..new")).unwrap();
        fs::rename(mount.join("..new"), mount.join("..data")).unwrap();
        if let Ok(before) = before {
            fs::remove_dir_all(mount.join(before)).unwrap();
        }
    }
}
