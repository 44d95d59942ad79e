use super::*;
use jiff::Timestamp;
use pki::{Authority, Scope, SystemRandomness};
use std::{os::unix::fs::symlink, time::Instant};

const HOUR: Duration = Duration::from_secs(3600);

struct Mount {
    folder: tempfile::TempDir,
    root: Authority,
    swaps: u32,
}

impl Mount {
    fn new() -> Self {
        let root = Authority::root(&"system".parse().unwrap(), 100 * HOUR, Timestamp::now(), &SystemRandomness);
        Self { folder: tempfile::tempdir().unwrap(), root: root.unwrap(), swaps: 0 }
    }

    fn leaf(&self, cluster: &str) -> [String; 3] {
        let scope = Scope::cluster("team-a", cluster).unwrap();
        let now = Timestamp::now();
        let intermediate = self.root.intermediate(&scope, 10 * HOUR, now, &SystemRandomness).unwrap();
        let leaf = intermediate.leaf(&scope.identity(), HOUR, now, &SystemRandomness).unwrap();
        let roots = self.root.bundle().unwrap().to_pem().unwrap();
        [leaf.chain_pem.clone(), leaf.key_pem.to_string(), roots]
    }

    /// As the kubelet does: a new folder, and the link swapped to it.
    fn swap(&mut self, texts: &[String]) {
        self.swaps += 1;
        let (name, at) = (format!("..revision-{}", self.swaps), |name: &str| self.folder.path().join(name));
        fs::create_dir(at(&name)).unwrap();
        for (file, text) in [file::CHAIN, file::KEY, file::ROOTS].iter().zip(texts) {
            fs::write(at(&name).join(file), text).unwrap();
        }
        symlink(&name, at("..new")).unwrap();
        fs::rename(at("..new"), at(REVISION_LINK)).unwrap();
    }

    fn files(&self) -> MountedFiles {
        MountedFiles::start(self.folder.path().to_owned(), pki::identity::sidecar("team-a", "orders").unwrap())
    }
}

async fn until(what: &str, reached: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !reached() {
        assert!(Instant::now() < end, "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_missing_certificate_is_waited_for_and_named_meanwhile() {
    let mut mount = Mount::new();
    let files = mount.files();
    until("a problem", || files.problem().is_some_and(|text| text.contains("no certificate"))).await;
    let texts = mount.leaf("orders");
    mount.swap(&texts);
    let current = files.current().await;
    assert_eq!(current.borrow().id().to_string(), "spiffe://team-a/valkeycluster/orders/sidecar");
    until("no problem", || files.problem().is_none()).await;
}

#[tokio::test]
async fn a_new_revision_is_taken_and_a_broken_one_leaves_the_last_good() {
    let mut mount = Mount::new();
    let (first, second) = (mount.leaf("orders"), mount.leaf("orders"));
    mount.swap(&first);
    let files = mount.files();
    let mut current = files.current().await;
    let before = current.borrow_and_update().thumbprint().clone();
    let mixed = [first[0].clone(), second[1].clone(), first[2].clone()];
    let cases: [(&[String], &str); 3] =
        [(&mixed, "not the leaf's"), (&mount.leaf("other"), "this sidecar is"), (&first[..1], "no certificate")];
    for (texts, part) in cases {
        mount.swap(texts);
        until(part, || files.problem().is_some_and(|text| text.contains(part))).await;
        assert_eq!(current.borrow().thumbprint(), &before);
    }
    mount.swap(&second);
    current.changed().await.unwrap();
    assert_ne!(current.borrow().thumbprint(), &before);
}

#[test]
fn what_could_not_be_read_for_a_moment_is_read_again_without_a_new_revision() {
    let mut mount = Mount::new();
    let texts = mount.leaf("orders");
    mount.swap(&texts);
    let (announce, ready) = watch::channel(None);
    let (folder, expected) = (mount.folder.path().to_owned(), pki::identity::sidecar("team-a", "orders").unwrap());
    let mut reader = Reader { folder, expected, seen: None, given: None, announce, problem: Arc::default() };
    let broken = ReadIdentity::Read { path: "tls.key".into(), source: io::Error::from_raw_os_error(5) };
    reader.take(revision(&reader.folder), Err(broken));
    assert!(reader.problem.lock().as_ref().unwrap().contains("tls.key"));
    reader.check();
    assert!(ready.borrow().is_some() && reader.problem.lock().is_none());
    assert!(reader.seen.is_some(), "and it is not read a third time");
}
