//! An opinion that is not ours: SPIFFE's own Go library judges what we issue and what we forge, and Go's standard library makes
//! authorities as users bring them along. The Go program is in `tests/go-spiffe`; Go keeps what it built in its own cache.
#![allow(clippy::unwrap_used, reason = "also in the helpers of tests")]

mod support;

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use pki::{Authority, Scope, own_authority};
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyUsagePurpose, SanType};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::*;

/// The Go program, built if its sources changed.
fn program(name: &str) -> Result<PathBuf> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/go-spiffe");
    let binary = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("go-spiffe-{name}"));
    let mut command = Command::new("go");
    command.args(["build", "-o"]).arg(&binary).arg(".").current_dir(sources);
    let output =
        command.output().context("this test needs Go: install the packages golang-go, or put go into the PATH")?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "go build failed in crates/pki/tests/go-spiffe:\n{said}");
    Ok(binary)
}

fn run(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("running {command:?}"))?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

fn pem_of(chain: &Chain) -> String {
    chain
        .iter()
        .map(|der| pem_rfc7468::encode_string("CERTIFICATE", pem_rfc7468::LineEnding::LF, der).unwrap())
        .collect()
}

/// The library's verdict on each chain, in order.
fn verdicts(name: &str, roots: &str, chains: &[(String, Option<String>)]) -> Result<Vec<String>> {
    let folder = tempfile::tempdir()?;
    let roots_file = folder.path().join("roots.pem");
    std::fs::write(&roots_file, roots)?;
    let mut command = Command::new(program(name)?);
    command.arg("judge").arg(&roots_file);
    for (number, (chain, key)) in chains.iter().enumerate() {
        let file = folder.path().join(format!("{number}.pem"));
        std::fs::write(&file, chain)?;
        if let Some(key) = key {
            std::fs::write(file.with_extension("key"), key)?;
        }
        command.arg(file);
    }
    Ok(run(&mut command)?.lines().map(str::to_owned).collect())
}

#[test]
fn spiffe_accepts_what_we_issue() -> Result<()> {
    let world = World::at(Timestamp::now());
    let next = World::at(Timestamp::now());
    let scope = Scope::operator("valkey-system")?;
    let operator = world.root.intermediate(&scope, hours(24), world.now, &RANDOM)?;
    let operator = operator.leaf(&scope.identity(), hours(6), world.now, &RANDOM)?;
    let issued = [world.leaf(), next.leaf(), operator];
    let chains = issued.map(|issued| (issued.chain_pem.clone(), Some(issued.key_pem.to_string())));
    let both = world.bundle().merge(next.bundle()).to_pem()?;
    let sidecar = "accepted spiffe://team-a/valkeycluster/poc/sidecar";
    let expected = [sidecar, sidecar, "accepted spiffe://valkey-system/valkey-operator"];
    assert_eq!(verdicts("accepts", &both, &chains)?, expected);
    Ok(())
}

/// What is done to a good leaf, and a part of the library's answer.
type Forgery = (fn(&World, &mut CertificateParams), &'static str);

const FORGERIES: [Forgery; 10] = [
    (|_, params| params.subject_alt_names.push(uri("spiffe://team-a/other")), "more than one URI SAN"),
    (|_, params| params.subject_alt_names.clear(), "no URI SAN"),
    (|_, params| params.subject_alt_names = vec![uri("https://team-a/x")], "scheme"),
    (|_, params| params.subject_alt_names = vec![uri("spiffe://team-a/x/")], "trailing slash"),
    (|_, params| params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained), "CA flag"),
    (|_, params| params.key_usages.push(KeyUsagePurpose::KeyCertSign), "KeyCertSign"),
    (|_, params| params.key_usages.push(KeyUsagePurpose::CrlSign), "KeyCrlSign"),
    (|world, params| params.not_after = moment(later(world.now, -50)), "expired"),
    (|world, params| params.not_before = moment(later(world.now, 900)), "not yet valid"),
    (
        |_, params| params.subject_alt_names.push(SanType::DnsName("bank.example".try_into().unwrap())),
        "excluded by constraint",
    ),
];

#[test]
fn spiffe_refuses_what_we_forge() -> Result<()> {
    let world = World::at(Timestamp::now());
    let chains: Vec<_> = FORGERIES
        .iter()
        .map(|(change, _)| (pem_of(&world.forged_leaf(|params| change(&world, params))), None))
        .collect();
    let found = verdicts("refuses", &world.bundle().to_pem()?, &chains)?;
    assert_eq!(found.len(), FORGERIES.len());
    for (verdict, (_, part)) in found.iter().zip(FORGERIES) {
        assert!(verdict.starts_with("refused ") && verdict.contains(part), "{verdict} (expected: {part})");
    }
    Ok(())
}

#[test]
fn spiffe_does_not_know_a_root_it_was_not_given() -> Result<()> {
    let world = World::at(Timestamp::now());
    let stranger = World::at(world.now).leaf();
    let verdict = verdicts("unknown", &world.bundle().to_pem()?, &[(stranger.chain_pem, None)])?;
    assert!(verdict.iter().all(|line| line.starts_with("refused ")), "{verdict:?}");
    Ok(())
}

/// Name of the authority that Go made, and the objections to it; none where it is good.
const OWN: [(&str, &[&str]); 19] = [
    ("rsa-pkcs1", &[]),
    ("rsa-pkcs8", &[]),
    ("p256-sec1", &[]),
    ("p384-sec1", &[]),
    ("p256-pkcs8", &[]),
    ("ed25519", &[]),
    ("unlimited-path", &[]),
    ("no-key-usage", &[]),
    ("rsa-1024", &["WeakKey", "UnreadableKey"]),
    ("p224", &["WeakKey", "UnreadableKey"]),
    ("p521", &["UnreadableKey"]),
    ("no-authority", &["NotAnAuthority"]),
    ("may-not-sign", &["MayNotSign"]),
    ("path-too-short", &["PathTooShort"]),
    ("two-units", &["RepeatedAttribute"]),
    ("constrained", &["TrialFailed"]),
    ("expired", &["Expired"]),
    ("future", &["NotYetValid"]),
    ("nearly-over", &["TooShortLife"]),
];

fn load(folder: &Path, name: &str) -> Result<Result<Authority, Vec<pki::Objection>>> {
    let read = |extension: &str| std::fs::read(folder.join(format!("{name}.{extension}")));
    let data = BTreeMap::from([("tls.crt".to_owned(), read("crt")?), ("tls.key".to_owned(), read("key")?)]);
    Ok(own_authority(&data, hours(24 * 365), Timestamp::now(), &RANDOM))
}

/// The SVID that a user's authority leads to, as the library judges it.
fn judged(name: &str, root: &Authority) -> Result<Vec<String>> {
    let scope = Scope::cluster("team-a", "poc")?;
    let now = Timestamp::now();
    let issued = root.intermediate(&scope, hours(24), now, &RANDOM)?.leaf(&scope.identity(), hours(1), now, &RANDOM)?;
    verdicts(name, &root.certificate_pem()?, &[(issued.chain_pem, Some(issued.key_pem.to_string()))])
}

#[test]
fn authorities_that_users_bring_along_work_or_are_refused_with_the_reason() -> Result<()> {
    let folder = tempfile::tempdir()?;
    run(Command::new(program("own")?).arg("make").arg(folder.path()))?;
    for (name, expected) in OWN {
        let loaded = load(folder.path(), name)?;
        let reasons: Vec<_> = loaded.as_ref().err().into_iter().flatten().map(|objection| objection.reason()).collect();
        assert_eq!(reasons, expected, "{name}: {loaded:?}");
        if let Ok(root) = loaded {
            assert_eq!(judged("own", &root)?, ["accepted spiffe://team-a/valkeycluster/poc/sidecar"], "{name}");
        }
    }
    Ok(())
}
