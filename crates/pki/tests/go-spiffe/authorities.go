package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"time"
)

// An authority as a user might bring it along: how its key is made and written, and what is special about the certificate.
type recipe struct {
	name   string
	key    func() (crypto.Signer, error)
	encode func(crypto.Signer) (*pem.Block, error)
	change func(*x509.Certificate)
}

var recipes = []recipe{
	{"rsa-pkcs1", rsaKey(2048), pkcs1, nil},
	{"rsa-pkcs8", rsaKey(3072), pkcs8, nil},
	{"p256-sec1", ecKey(elliptic.P256()), sec1, nil},
	{"p384-sec1", ecKey(elliptic.P384()), sec1, nil},
	{"p256-pkcs8", ecKey(elliptic.P256()), pkcs8, nil},
	{"ed25519", edKey, pkcs8, nil},
	{"unlimited-path", ecKey(elliptic.P256()), pkcs8, func(c *x509.Certificate) { c.MaxPathLen = -1 }},
	{"no-key-usage", ecKey(elliptic.P256()), pkcs8, func(c *x509.Certificate) { c.KeyUsage = 0 }},
	{"rsa-1024", rsaKey(1024), pkcs1, nil},
	{"p224", ecKey(elliptic.P224()), sec1, nil},
	{"p521", ecKey(elliptic.P521()), sec1, nil},
	{"no-authority", ecKey(elliptic.P256()), sec1, func(c *x509.Certificate) { c.IsCA = false; c.MaxPathLen = -1 }},
	{"may-not-sign", ecKey(elliptic.P256()), sec1, func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageDigitalSignature }},
	{"path-too-short", ecKey(elliptic.P256()), sec1, func(c *x509.Certificate) { c.MaxPathLen = 0; c.MaxPathLenZero = true }},
	{"two-units", ecKey(elliptic.P256()), sec1, func(c *x509.Certificate) { c.Subject.OrganizationalUnit = []string{"one", "two"} }},
	{"constrained", ecKey(elliptic.P256()), sec1, func(c *x509.Certificate) { c.PermittedURIDomains = []string{"example.com"} }},
	{"expired", ecKey(elliptic.P256()), sec1, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Hour) }},
	{"future", ecKey(elliptic.P256()), sec1, func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Hour) }},
	{"nearly-over", ecKey(elliptic.P256()), sec1, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(24 * time.Hour) }},
}

func makeAll(folder string) error {
	for _, recipe := range recipes {
		if err := recipe.write(folder); err != nil {
			return err
		}
	}
	return nil
}

func (r recipe) write(folder string) error {
	key, err := r.key()
	if err != nil {
		return err
	}
	block, err := r.encode(key)
	if err != nil {
		return err
	}
	certificate, err := r.certificate(key)
	if err != nil {
		return err
	}
	if err := writeBlock(filepath.Join(folder, r.name+".key"), block); err != nil {
		return err
	}
	return writeBlock(filepath.Join(folder, r.name+".crt"), &pem.Block{Type: "CERTIFICATE", Bytes: certificate})
}

func (r recipe) certificate(key crypto.Signer) ([]byte, error) {
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(time.Now().UnixNano()),
		Subject:               pkix.Name{Country: []string{"DE"}, Organization: []string{"Example"}, CommonName: "Example root"},
		NotBefore:             time.Now().Add(-48 * time.Hour),
		NotAfter:              time.Now().AddDate(5, 0, 0),
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLen:            1,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	if r.change != nil {
		r.change(template)
	}
	return x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
}

func writeBlock(file string, block *pem.Block) error {
	return os.WriteFile(file, pem.EncodeToMemory(block), 0o600)
}

func rsaKey(bits int) func() (crypto.Signer, error) {
	return func() (crypto.Signer, error) { return rsa.GenerateKey(rand.Reader, bits) }
}

func ecKey(curve elliptic.Curve) func() (crypto.Signer, error) {
	return func() (crypto.Signer, error) { return ecdsa.GenerateKey(curve, rand.Reader) }
}

func edKey() (crypto.Signer, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	return key, err
}

func pkcs1(key crypto.Signer) (*pem.Block, error) {
	return &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key.(*rsa.PrivateKey))}, nil
}

func sec1(key crypto.Signer) (*pem.Block, error) {
	der, err := x509.MarshalECPrivateKey(key.(*ecdsa.PrivateKey))
	return &pem.Block{Type: "EC PRIVATE KEY", Bytes: der}, err
}

func pkcs8(key crypto.Signer) (*pem.Block, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	return &pem.Block{Type: "PRIVATE KEY", Bytes: der}, err
}
