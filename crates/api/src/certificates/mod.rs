//! The resources that show who vouches for whom: the root, a cluster's intermediate, and the leaves in use. Pure.
//! All three are written by the operator; people read them, and change only what each field says they may.

mod authority;
mod binding;
mod bundle;
mod conditions;
pub mod names;
mod operator_mtls;
mod rules;

pub use authority::{
    AuthoritySource, OperatorReplica, RetireNow, SecretType, TRUSTED_ROOTS, TrustedRoot, ValkeyCA, ValkeyCASpec,
    ValkeyCAStatus,
};
pub use binding::{
    ActiveCertificate, DeprecatedCertificate, ValkeyCertificateBinding, ValkeyCertificateBindingSpec,
    ValkeyCertificateBindingStatus,
};
pub use bundle::{
    Purpose, RotationPolicy, ValkeyCertificateBundle, ValkeyCertificateBundleSpec, ValkeyCertificateBundleStatus,
};
pub use conditions::{CertificateCondition, CertificateFinding, CertificateReason, advance};
pub use operator_mtls::OperatorMtls;
