//! The cluster's certificate authority, its certificates and the kubeconfig files made from them.

use std::fs;
use std::net::IpAddr;

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, SanType,
};

use crate::layout::{Dir, Testbed};

type Authority = CertifiedIssuer<'static, KeyPair>;

pub fn create(testbed: &Testbed) -> Result<()> {
    let dir = testbed.dir();
    fs::create_dir_all(dir.file("pki"))?;
    let authority = authority(&testbed.name)?;
    fs::write(dir.file("pki/ca.crt"), authority.pem())?;
    fs::write(dir.file("pki/ca.key"), authority.key().serialize_pem())?;
    service_account_key(&dir)?;
    servers(testbed, &authority)?;
    clients(testbed, &authority)
}

fn authority(name: &str) -> Result<Authority> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, format!("testbed {name}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    age(&mut params);
    CertifiedIssuer::self_signed(params, KeyPair::generate()?)
        .context("cannot make the cluster's certificate authority")
}

/// Valid from an hour ago, for a year.
fn age(params: &mut CertificateParams) {
    let now = time::OffsetDateTime::now_utc();
    params.not_before = now - time::Duration::hours(1);
    params.not_after = now + time::Duration::days(365);
}

fn service_account_key(dir: &Dir) -> Result<()> {
    let key = KeyPair::generate()?;
    fs::write(dir.file("pki/service-account.key"), key.serialize_pem())?;
    Ok(fs::write(dir.file("pki/service-account.pub"), key.public_key_pem())?)
}

fn servers(testbed: &Testbed, authority: &Authority) -> Result<()> {
    let names = [
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
        "localhost",
    ];
    let addresses = [testbed.control_plane_ip(), testbed.kubernetes_service_ip(), [127, 0, 0, 1].into()];
    server(testbed, authority, "kube-apiserver", &names, &addresses.map(IpAddr::V4))?;
    for node in &testbed.nodes {
        server(testbed, authority, &format!("{}-kubelet-server", node.name), &[&node.name], &[node.ip.into()])?;
    }
    Ok(())
}

fn server(testbed: &Testbed, authority: &Authority, file: &str, names: &[&str], addresses: &[IpAddr]) -> Result<()> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, file);
    for name in names {
        params.subject_alt_names.push(SanType::DnsName((*name).try_into()?));
    }
    params.subject_alt_names.extend(addresses.iter().map(|address| SanType::IpAddress(*address)));
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    issue(&testbed.dir(), authority, file, params)
}

fn clients(testbed: &Testbed, authority: &Authority) -> Result<()> {
    let dir = testbed.dir();
    client(&dir, authority, "kubelet-client", "kube-apiserver-kubelet-client", Some("system:masters"))?;
    for (file, user, group) in [
        ("admin", "testbed-admin", Some("system:masters")),
        ("kube-controller-manager", "system:kube-controller-manager", None),
        ("kube-scheduler", "system:kube-scheduler", None),
        ("kube-proxy", "system:kube-proxy", None),
        ("agent", "testbed-agent", Some("system:masters")),
        ("coredns", "testbed-coredns", Some("system:masters")),
    ] {
        client(&dir, authority, file, user, group)?;
        kubeconfig(testbed, file)?;
    }
    for node in &testbed.nodes {
        let user = format!("system:node:{}", node.name);
        client(&dir, authority, &node.name, &user, Some("system:nodes"))?;
        kubeconfig(testbed, &node.name)?;
    }
    fs::copy(dir.file("pki/admin.kubeconfig"), dir.kubeconfig())?;
    Ok(())
}

fn client(dir: &Dir, authority: &Authority, file: &str, user: &str, group: Option<&str>) -> Result<()> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, user);
    if let Some(group) = group {
        params.distinguished_name.push(DnType::OrganizationName, group);
    }
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    issue(dir, authority, file, params)
}

fn issue(dir: &Dir, authority: &Authority, file: &str, mut params: CertificateParams) -> Result<()> {
    let key = KeyPair::generate()?;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    age(&mut params);
    let certificate =
        params.signed_by(&key, authority).with_context(|| format!("cannot sign the certificate {file}"))?;
    fs::write(dir.file(format!("pki/{file}.crt")), certificate.pem())?;
    Ok(fs::write(dir.file(format!("pki/{file}.key")), key.serialize_pem())?)
}

/// Certificates are embedded, so that the file can be copied anywhere.
fn kubeconfig(testbed: &Testbed, file: &str) -> Result<()> {
    let dir = testbed.dir();
    let name = format!("testbed-{}", testbed.name);
    let embedded = |path: &str| Ok::<_, anyhow::Error>(BASE64.encode(fs::read(dir.file(path))?));
    let config = serde_json::json!({
        "apiVersion": "v1", "kind": "Config", "current-context": name,
        "contexts": [{"name": name, "context": {"cluster": name, "user": file}}],
        "clusters": [{"name": name, "cluster": {
            "server": testbed.api_server(), "certificate-authority-data": embedded("pki/ca.crt")?}}],
        "users": [{"name": file, "user": {
            "client-certificate-data": embedded(&format!("pki/{file}.crt"))?,
            "client-key-data": embedded(&format!("pki/{file}.key"))?}}],
    });
    Ok(fs::write(dir.file(format!("pki/{file}.kubeconfig")), serde_json::to_string_pretty(&config)?)?)
}
